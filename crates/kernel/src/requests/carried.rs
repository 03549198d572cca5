//! Requests in the journal that the shim may not have accepted, or that it refused.

use himalia_journal::Record;
use himalia_shim_protocol::RequestId;
use himalia_wire::Limits;
use himalia_wire::v1::Frame;

use super::backlog::HeldRequest;
use super::kind::{RequestKind, parent_key};
use crate::event::Request;
use crate::meta::RecordMeta;

/// A request that is in the journal and that the shim may not have accepted.
#[derive(Clone, Debug)]
pub(crate) struct CarriedRequest {
    pub(super) id: RequestId,
    /// It is known that the shim never accepted it, or that it refused it.
    pub(super) confirmed: bool,
    /// Filled from the journal before the core is used.
    pub(super) held: Option<HeldRequest>,
}

/// A request record as a request that is to be sent again.
pub(super) fn held_again(record: &Record) -> Option<HeldRequest> {
    let meta = RecordMeta::decode(&record.meta);
    let frame = Frame::parse(record.body.clone(), &Limits::KERNEL).ok()?;
    let header = frame.peek().ok()?;
    let parent = parent_key(&header.msg_id, &header.session);
    let kind = RequestKind::from_word(meta.word);
    // The caller of a question has gone with its gateway; what lacks its secret is not what was meant.
    if kind == RequestKind::Question || meta.redacted {
        return None;
    }
    let request = Request {
        owner: meta.owner,
        kind,
        parent,
        frame,
        trace: None,
    };
    Some(HeldRequest {
        request,
        again: record.seq,
    })
}
