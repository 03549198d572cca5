//! The requests of one kernel, wherever they are on their way, for the other sub-machines.

use std::collections::BTreeMap;

use himalia_model::TraceContext;
use himalia_shim_protocol::{KernelEntry, Lane, PerLane, RefusalKind, RequestId};
use himalia_wire::header::HeaderPeek;
use himalia_wire::{Channel, header};
use serde::{Deserialize, Serialize};

use super::backlog::RequestBacklog;
use super::carried::CarriedRequest;
use super::kind::RequestKind;
use super::ledger::{Entry, Ledger, Progress};
use super::lost::LostRequests;
use super::parent::IopubParent;
use super::secrets;
use crate::event::Request;
use crate::shim::outbox::Outbox;
use crate::trace::RequestTiming;

/// The message by which a kernel asks for input.
const INPUT_REQUEST: &str = "input_request";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InputQuestion {
    /// The owner of the request whose code asks.
    owner: u64,
    msg_id: Box<str>,
}

#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(super) backlog: RequestBacklog,
    pub(super) ledger: Ledger,
    pub(super) lost: LostRequests,
    /// By the numbers of their records.
    pub(super) carried: PerLane<BTreeMap<u64, CarriedRequest>>,
    /// The kernel's latest question is for a password: its answers are not written.
    pub(super) secret_asked: bool,
    /// The kernel's latest question, if it is known who is asked.
    pub(super) asked: Option<InputQuestion>,
    pub(super) iopub_parent: Option<IopubParent>,
}

/// Waiting requests.
impl Requests {
    /// True if one more is accepted on the channel.
    pub(crate) fn has_room(&self, channel: Channel) -> bool {
        let full = channel == Channel::Shell && self.ledger.is_full();
        !full && self.backlog.has_room(channel)
    }

    /// The shim has refused a request of the channel, so those behind it wait.
    pub(crate) fn pause_after(&mut self, refused: RefusalKind, channel: Channel, mono: u64) {
        if refused == RefusalKind::Full {
            self.backlog.pause(channel, mono);
        } else {
            self.backlog.wait_for_process(channel);
        }
    }

    /// Forgets what an owner has waiting.
    pub(crate) fn forget_waiting_of(&mut self, owner: u64) {
        self.backlog.remove_owner(owner);
    }

    pub(crate) fn forget_waiting(&mut self) {
        self.backlog.clear();
    }
}

/// Sent requests.
impl Requests {
    /// An open request.
    pub(crate) fn get(&self, id: RequestId) -> Option<&Entry> {
        self.ledger.get(id)
    }

    /// Requests whose end was not seen.
    #[cfg(test)]
    pub(crate) fn count_open(&self) -> usize {
        self.ledger.len()
    }

    /// True if the limit of unanswered requests is reached: no other one is sent on shell.
    pub(crate) fn is_full(&self) -> bool {
        self.ledger.is_full()
    }

    /// True if an execution was sent and not answered.
    pub(crate) fn executes(&self) -> bool {
        self.ledger.oldest_execution().is_some()
    }

    /// Returns true if an answer on the control channel is still to be expected.
    pub(crate) fn awaits_control(&self) -> bool {
        self.ledger.awaits_control()
    }

    /// The oldest execution that was sent and not answered.
    pub(crate) fn oldest_execution(&self) -> Option<RequestId> {
        self.ledger.oldest_execution()
    }

    pub(crate) fn output_lost(&mut self) {
        self.ledger.output_lost();
    }

    /// Returns true if the kernel works on a request that counts as activity.
    pub(crate) fn is_working(&self) -> bool {
        self.ledger.is_working()
    }

    /// True if the owner has an open request.
    pub(crate) fn is_open(&self, owner: u64) -> bool {
        self.ledger.iter().any(|(_, entry)| entry.owner == owner)
    }

    /// True if the owner has lost a request with a process.
    pub(crate) fn is_lost(&self, owner: u64) -> bool {
        self.ledger.iter_lost().any(|(_, entry)| entry.owner == owner)
    }

    /// True if the shim may not have accepted an open request of the owner yet.
    pub(crate) fn is_on_its_way(&self, owner: u64, outbox: &Outbox) -> bool {
        let mut open = self.ledger.iter();
        open.any(|(id, entry)| entry.owner == owner && outbox.is_on_its_way(id))
    }

    /// The record of a request is in the journal, under `seq`, so that it goes to the shim now.
    pub(crate) fn recorded(&mut self, id: RequestId, seq: u64, wall: u64) {
        self.ledger.set_seq(id, seq);
        if let Some(way) = self.ledger.way(id) {
            way.sent(wall);
        }
    }

    /// The shim has accepted all of this lane up to this one.
    pub(crate) fn accepted(&mut self, lane: Lane, until: RequestId, wall: u64) {
        self.ledger.accepted(lane, until, wall);
    }

    /// The kernel works on it.
    pub(crate) fn began(&mut self, id: RequestId, wall: u64) {
        if let Some(way) = self.ledger.way(id) {
            way.began(wall);
        }
    }

    /// Handles the content of a reply.
    pub(crate) fn judge(&mut self, id: RequestId, content: &[u8]) {
        if let Some(way) = self.ledger.way(id)
            && let Some(how) = match header::reply_status(content).as_deref() {
                Some("error") => Some("error"),
                Some("aborted" | "abort") => Some("aborted"),
                _ => None,
            }
        {
            way.failed(how);
        }
    }

    /// The span of the code that runs, if it is traced.
    pub(crate) fn running_trace(&self) -> Option<TraceContext> {
        let running = self.ledger.get(self.ledger.oldest_execution()?)?;
        running.way.as_ref().map(|way| way.traced().kernel())
    }

    /// Traced requests that have ended since the last call, and whether they were lost.
    pub(crate) fn take_ended_ways(&mut self) -> Vec<(Box<RequestTiming>, bool)> {
        self.ledger.take_ended_ways()
    }

    /// No answer is waited for any more. `false` if none was.
    pub(crate) fn forget(&mut self, id: RequestId) -> bool {
        self.ledger.remove(id).is_some()
    }

    /// Loses the requests that a process had accepted; those still on their way go to the next one.
    pub(crate) fn lose_accepted(&mut self, outbox: &Outbox, mono: u64) {
        for id in self.ledger.lose(|id| outbox.is_on_its_way(id)) {
            if let Some(entry) = self.ledger.lost(id) {
                self.lost.add(id, entry, mono);
            }
        }
    }

    /// The request did not run: no answer is waited for any more. With `again` it is kept as one that goes again.
    pub(super) fn never_ran(&mut self, id: RequestId, again: bool) -> Option<Entry> {
        let entry = self.ledger.take(id);
        self.lost.remove(id);
        let mut held = None;
        for lane in Lane::ALL {
            let known = self.carried[lane].iter().find(|(_, carried)| carried.id == id);
            if let Some(seq) = known.map(|(seq, _)| *seq) {
                held = self.carried[lane].remove(&seq).and_then(|carried| carried.held);
            }
        }
        if let Some(entry) = entry.as_ref().filter(|_| again) {
            let carried = CarriedRequest {
                id,
                confirmed: true,
                held,
            };
            self.carried[entry.lane()].insert(entry.seq, carried);
        }
        entry
    }
}

/// Answers of the kernel.
impl Requests {
    /// A reply to the request was seen.
    pub(crate) fn replied(&mut self, id: RequestId) -> Option<Progress> {
        self.ledger.replied(id)
    }

    /// The idle below a parent was seen.
    pub(crate) fn idle(&mut self, parent: u64) -> Option<Progress> {
        let id = self.ledger.find(parent, true)?;
        self.ledger.idle(id)
    }

    /// The kernel is busy with what has this parent, which counts as activity.
    pub(crate) fn works_on(&mut self, parent: u64) -> Option<RequestId> {
        let id = self.ledger.find(parent, true)?;
        self.ledger.works_on(id);
        Some(id)
    }

    /// The kernel works on what has this parent, if it is an execution.
    pub(crate) fn execution_below(&self, parent: u64) -> Option<RequestId> {
        let id = self.ledger.find(parent, true)?;
        let entry = self.ledger.get(id)?;
        (entry.kind == RequestKind::Execute).then_some(id)
    }

    /// A message on stdin. `true` if it asks for a password.
    pub(crate) fn note_question(&mut self, msg_type: &str, content: &[u8]) -> bool {
        self.secret_asked = msg_type == INPUT_REQUEST && secrets::asks_for_one(content);
        self.secret_asked
    }

    /// The message on stdin has this header, and goes to this owner; 0 = it is not known to whom.
    pub(crate) fn note_asked(&mut self, header: &HeaderPeek<'_>, owner: u64) {
        let is_question = header.msg_type == INPUT_REQUEST && owner != 0;
        self.asked = is_question.then(|| InputQuestion {
            owner,
            msg_id: (&*header.msg_id).into(),
        });
    }

    /// Returns true if a message of a client on stdin answers the latest question: it names it as its parent, or it names none and comes
    /// from the client that is asked.
    pub(crate) fn is_answer(&self, request: &Request) -> bool {
        let Some(asked) = &self.asked else { return true };
        let parent = request.frame.peek_parent().ok().flatten();
        match parent.filter(|parent| parent.msg_type == INPUT_REQUEST) {
            Some(parent) => *parent.msg_id == *asked.msg_id,
            None => request.owner == asked.owner,
        }
    }

    /// The open request that a message belongs to. The parent decides, since clients go by it: the identity, which kernels
    /// echo, only tells requests of the same parent apart. A reply that no open request waits for belongs to no client: it is
    /// kept in the log, changes nothing, and is shown to no client.
    pub(crate) fn answered(
        &self,
        channel: Channel,
        msg_type: &str,
        parent: Option<u64>,
        identity: Option<RequestId>,
    ) -> Option<RequestId> {
        let by_parent = || parent.and_then(|key| self.ledger.find(key, false));
        if channel == Channel::Stdin {
            // A question goes to the client that is asked, and may come from code that outlived its request.
            return identity.or_else(by_parent);
        }
        let echoed = identity.filter(|id| {
            let entry = self.ledger.get(*id);
            entry.is_some_and(|entry| parent == Some(entry.parent))
        });
        let id = echoed.or_else(by_parent)?;
        let entry = self.ledger.get(id)?;
        let waits = !entry.replied && (entry.kind != RequestKind::Execute || msg_type == "execute_reply");
        (waits || !msg_type.ends_with("_reply")).then_some(id)
    }
}

/// Processes, sandboxes and gateways begin and end.
impl Requests {
    /// A process has started: what waits may go to it.
    pub(crate) fn process_started(&mut self) {
        self.backlog.process_started();
        self.iopub_parent = None;
    }

    /// A process has ended, and its output is complete.
    pub(crate) fn process_ended(&mut self, outbox: &Outbox, mono: u64) {
        self.lose_accepted(outbox, mono);
        self.iopub_parent = None;
    }

    /// Loses the requests that an earlier gateway had sent to the sandbox before.
    pub(crate) fn leave_sandbox(&mut self, outbox: &Outbox, mono: u64) {
        for lane in Lane::ALL {
            self.carried[lane].retain(|_, carried| carried.confirmed);
        }
        self.lose_accepted(outbox, mono);
    }

    /// The first hello of a lane in this epoch: its marks say what was accepted of what earlier gateways sent.
    pub(crate) fn confirm_carried(&mut self, lane: Lane, entry: Option<&KernelEntry>) {
        self.carried[lane].retain(|_, carried| {
            let accepted = entry.is_some_and(|entry| {
                let marks = &entry.requests;
                marks
                    .accepted(lane, carried.id)
                    .unwrap_or(marks.epoch > carried.id.epoch)
            });
            carried.confirmed |= !accepted;
            carried.confirmed
        });
    }

    /// The numbers of the records of what earlier gateways sent and the shim has not accepted, in order.
    pub(crate) fn carried_records(&self) -> Vec<u64> {
        let lanes = [&self.carried.now, &self.carried.data];
        let mut records: Vec<u64> = lanes.into_iter().flat_map(BTreeMap::keys).copied().collect();
        records.sort_unstable();
        records
    }

    /// Kinds of requests that earlier gateways sent on the lane and that may be sent again.
    #[cfg(test)]
    pub(crate) fn carried_kinds(&self, lane: Lane) -> Vec<RequestKind> {
        let held = self.carried[lane]
            .values()
            .filter_map(|carried| carried.held.as_ref());
        held.map(|held| held.request.kind).collect()
    }

    /// Queues the requests of earlier epochs that were never accepted, in their old order, under new numbers. Call it once the state of all lanes is
    /// known.
    pub(crate) fn hold_carried(&mut self) {
        for lane in Lane::ALL {
            for (seq, carried) in std::mem::take(&mut self.carried[lane]) {
                self.ledger.remove(carried.id);
                match carried.held {
                    Some(held) => self.backlog.put_back(held),
                    // Its record is being fetched.
                    None => drop(self.carried[lane].insert(seq, carried)),
                }
            }
        }
    }
}
