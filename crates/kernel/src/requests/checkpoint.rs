//! The requests of a kernel in its checkpoint.

use himalia_shim_protocol::{Lane, RequestId};
use himalia_wire::Channel;
use serde::{Deserialize, Serialize};

use super::carried::CarriedRequest;
use super::kind::{RequestKind, lane_of};
use super::ledger::Entry;
use super::state::{InputQuestion, Requests};
use crate::shim::outbox::Outbox;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RequestsCheckpoint {
    open: Vec<OpenRequest>,
    unaccepted: Vec<UnacceptedRequest>,
    secret_asked: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked: Option<InputQuestion>,
}

#[derive(Debug, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of a file format, not a state machine"
)]
struct OpenRequest {
    id: RequestId,
    seq: u64,
    owner: u64,
    parent: u64,
    control: bool,
    kind: u32,
    replied: bool,
    idle: bool,
    busy: bool,
    overtaken: bool,
    /// A process has ended that may have had it.
    lost: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct UnacceptedRequest {
    id: RequestId,
    seq: u64,
    lane: Lane,
    confirmed: bool,
}

impl Requests {
    pub(crate) fn checkpoint(&self, outbox: &Outbox) -> RequestsCheckpoint {
        let pending = Lane::ALL.into_iter().flat_map(|lane| {
            let unaccepted = move |(id, seq)| UnacceptedRequest {
                id,
                seq,
                lane,
                confirmed: false,
            };
            outbox.unaccepted(lane).map(unaccepted)
        });
        let recorded = self.backlog.iter().filter(|held| held.again != 0);
        let held = recorded.map(|held| UnacceptedRequest {
            id: RequestId { epoch: 0, number: 0 },
            seq: held.again,
            lane: lane_of(held.request.channel()),
            confirmed: true,
        });
        let carried = Lane::ALL.into_iter().flat_map(|lane| {
            self.carried[lane]
                .iter()
                .map(move |(&seq, carried)| UnacceptedRequest {
                    id: carried.id,
                    seq,
                    lane,
                    confirmed: carried.confirmed,
                })
        });
        let lost = self.ledger.iter_lost().map(|(id, entry)| (id, entry, true));
        let open = self.ledger.iter().map(|(id, entry)| (id, entry, false));
        let open = open.chain(lost).map(|(id, entry, lost)| OpenRequest {
            id,
            seq: entry.seq,
            owner: entry.owner,
            parent: entry.parent,
            control: entry.channel == Channel::Control,
            kind: entry.kind as u32,
            replied: entry.replied,
            idle: entry.idle,
            busy: entry.busy,
            overtaken: entry.overtaken,
            lost,
        });
        RequestsCheckpoint {
            open: open.collect(),
            unaccepted: pending.chain(held).chain(carried).collect(),
            secret_asked: self.secret_asked,
            asked: self.asked.clone(),
        }
    }

    /// From a checkpoint.
    pub(crate) fn restore(&mut self, checkpoint: RequestsCheckpoint) {
        self.secret_asked = checkpoint.secret_asked;
        self.asked = checkpoint.asked;
        for open in checkpoint.open {
            let entry = Entry {
                seq: open.seq,
                owner: open.owner,
                parent: open.parent,
                channel: if open.control {
                    Channel::Control
                } else {
                    Channel::Shell
                },
                kind: RequestKind::from_word(open.kind),
                replied: open.replied,
                idle: open.idle,
                busy: open.busy,
                overtaken: open.overtaken,
                way: None,
            };
            if open.lost {
                self.ledger.insert_lost(open.id, entry);
            } else {
                self.ledger.insert(open.id, entry);
            }
        }
        for UnacceptedRequest {
            id,
            seq,
            lane,
            confirmed,
        } in checkpoint.unaccepted
        {
            let carried = CarriedRequest {
                id,
                confirmed,
                held: None,
            };
            self.carried[lane].insert(seq, carried);
        }
    }
}
