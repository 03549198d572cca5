//! Parents of iopub messages. Many messages in a row have the same parent, byte for byte: it is parsed, and looked up, once.

use himalia_shim_protocol::RequestId;
use himalia_wire::v1::Frame;

use super::kind::parent_key;
use super::ledger::Ledger;
use super::state::Requests;
use crate::activity::tracked;
use crate::executions::records::execution_of;
use crate::synthetic::ENGINE_SESSION;

#[derive(Debug)]
pub(crate) struct IopubParent {
    raw: Box<[u8]>,
    /// It counts as activity.
    pub(crate) tracked: bool,
    /// It is not shown to clients.
    pub(crate) hidden: bool,
    pub(crate) key: Option<u64>,
    pub(crate) request: Option<RequestId>,
    /// Owner for a native execution; otherwise 0: iopub is for all.
    pub(crate) owner: u64,
}

impl IopubParent {
    fn of(frame: &Frame, ledger: &Ledger) -> Result<Self, String> {
        let peek = frame.peek_parent().map_err(|error| error.to_string())?;
        let key = peek
            .as_ref()
            .map(|parent| parent_key(&parent.msg_id, &parent.session));
        let request = key.and_then(|key| ledger.find(key, true));
        let owner = request
            .and_then(|id| ledger.get(id))
            .map_or(0, |entry| entry.owner);
        let hidden = peek
            .as_ref()
            .is_some_and(|parent| parent.session == ENGINE_SESSION);
        Ok(Self {
            // Kept for the next comparison: a copy, so that no read buffer is pinned.
            raw: frame.parent_header().into(),
            // What the engine asks is no activity, whatever it asks.
            tracked: !hidden && peek.as_ref().is_none_or(|parent| tracked(&parent.msg_type)),
            hidden,
            key,
            request,
            owner: if execution_of(owner).is_some() { owner } else { 0 },
        })
    }
}

impl Requests {
    pub(crate) fn iopub_parent(&mut self, frame: &Frame) -> Result<&IopubParent, String> {
        let same = |latest: &mut IopubParent| *latest.raw == *frame.parent_header();
        let parent = match self.iopub_parent.take_if(same) {
            Some(parent) => parent,
            None => IopubParent::of(frame, &self.ledger)?,
        };
        Ok(self.iopub_parent.insert(parent))
    }

    /// Header of the parent of the latest iopub message.
    pub(crate) fn latest_parent(&self) -> Option<&[u8]> {
        self.iopub_parent.as_ref().map(|parent| &*parent.raw)
    }
}
