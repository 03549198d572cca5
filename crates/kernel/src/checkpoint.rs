//! A kernel's state as a segment of its journal begins with it, so that recovery reads one segment.

use himalia_model::ExecutionState;
use himalia_shim_protocol::{Lane, PerLane, RequestId};
use himalia_wire::Channel;
use serde::{Deserialize, Serialize};

use super::activity::Activity;
use super::carried::Carried;
use super::core::Core;
use super::executions::names::Names;
use super::executions::queue::Executions;
use super::ledger::{Entry, RequestKind};
use super::life::LifeCheckpoint;
use super::messages::word;

/// The state as of a place in the journal. JSON; unknown fields of later versions are ignored.
#[derive(Debug, Serialize, Deserialize)]
struct Checkpoint {
    #[serde(flatten)]
    life: LifeCheckpoint,
    state: u32,
    last_activity: u64,
    kernel_session: String,
    replied: bool,
    heard: bool,
    stored: PerLane<u64>,
    /// The execution under way.
    #[serde(default)]
    executing: Option<Executing>,
    open: Vec<OpenRequest>,
    unaccepted: Vec<Unaccepted>,
    #[serde(default)]
    executions: Executions,
    #[serde(default)]
    secret_asked: bool,
    #[serde(default)]
    names: Names,
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
    #[serde(default)]
    overtaken: bool,
    /// A process has ended that may have had it.
    #[serde(default)]
    lost: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Executing {
    id: RequestId,
    /// Microseconds since 1970.
    began: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Unaccepted {
    id: RequestId,
    seq: u64,
    lane: Lane,
    confirmed: bool,
}

impl Core {
    /// The state for [`himalia_journal::Journal::roll`]. Only while [`Core::is_written`].
    pub(crate) fn checkpoint(&self) -> Vec<u8> {
        let pending = Lane::ALL.into_iter().flat_map(|lane| {
            let epoch = self.settings.epoch;
            let unaccepted = move |(number, seq)| Unaccepted {
                id: RequestId { epoch, number },
                seq,
                lane,
                confirmed: false,
            };
            self.outbox.unaccepted(lane).map(unaccepted)
        });
        let held = self
            .held
            .iter()
            .filter(|held| held.again != 0)
            .map(|held| Unaccepted {
                id: RequestId { epoch: 0, number: 0 },
                seq: held.again,
                lane: held.request.lane(),
                confirmed: true,
            });
        let carried = Lane::ALL.into_iter().flat_map(|lane| {
            self.carried[lane].iter().map(move |(&seq, carried)| Unaccepted {
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
            overtaken: entry.overtaken,
            lost,
        });
        let (replied, heard) = self.readiness.checkpoint();
        let checkpoint = Checkpoint {
            life: self.life.checkpoint(),
            state: word::of_state(self.activity.state),
            last_activity: self.activity.last_micros,
            kernel_session: self.kernel_session.to_string(),
            replied,
            heard,
            stored: PerLane {
                now: self.outbox.position(Lane::Now),
                data: self.outbox.position(Lane::Data),
            },
            executing: self
                .stopwatch
                .running()
                .map(|(id, began)| Executing { id, began }),
            open: open.collect(),
            unaccepted: pending.chain(held).chain(carried).collect(),
            executions: self.executions.for_checkpoint(self.now.mono, self.now.wall),
            secret_asked: self.secret_asked,
            names: self.names.clone(),
        };
        serde_json::to_vec(&checkpoint).unwrap_or_default()
    }

    /// Takes over the state of a checkpoint, of a core without any. Returns up to which message each lane is in the journal.
    /// One that cannot be read is an error: the journal is from a later version, or not ours.
    pub(super) fn restore(&mut self, checkpoint: &[u8]) -> Result<PerLane<u64>, String> {
        let checkpoint: Checkpoint = serde_json::from_slice(checkpoint).map_err(|error| error.to_string())?;
        let stop_deadline = self.stop_deadline();
        self.life.restore(checkpoint.life, self.now.mono, stop_deadline);
        self.activity = Activity {
            state: word::to_state(checkpoint.state).unwrap_or(ExecutionState::Starting),
            last_micros: checkpoint.last_activity,
        };
        self.kernel_session = checkpoint.kernel_session.into();
        self.secret_asked = checkpoint.secret_asked;
        self.names = checkpoint.names;
        if let Some(Executing { id, began }) = checkpoint.executing {
            self.stopwatch.began(id, began);
        }
        self.executions = checkpoint.executions;
        self.readiness.restore(checkpoint.replied, checkpoint.heard);
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
                overtaken: open.overtaken,
            };
            if open.lost {
                self.ledger.insert_lost(open.id, entry);
            } else {
                self.ledger.insert(open.id, entry);
            }
        }
        for Unaccepted {
            id,
            seq,
            lane,
            confirmed,
        } in checkpoint.unaccepted
        {
            self.carried[lane].insert(
                seq,
                Carried {
                    id,
                    confirmed,
                    held: None,
                },
            );
        }
        Ok(checkpoint.stored)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::bench::settings;
    use crate::core::Core;
    use crate::event::Now;

    #[test]
    fn names_of_a_checkpoint_stay() {
        let exit = json!({
            "incarnation": 2, "pid": 7, "cause": {"kind": "signal", "signal": 9}, "asked": false, "detail": "",
            "stderr_tail": "", "last_data": 3,
        });
        let checkpoint = json!({
            "phase": "running", "incarnation": 2, "crashes": 1, "told_to_end": true, "reason": "restarted after exit(3)",
            "exit": exit, "stopped": true, "told_from_outside": true, "moving": true, "processes_before": 1,
            "loss": {"files": true, "secrets": [], "kernels": [], "branches": []},
            "state": 512, "last_activity": 5, "kernel_session": "s", "replied": true, "heard": false,
            "stored": {"now": 1, "data": 2}, "executing": {"id": {"epoch": 1, "number": 4}, "began": 6}, "open": [],
            "unaccepted": [], "secret_asked": true, "executions": {
                "queue": [], "current": null, "recent": [], "last_incarnation": 1, "served": 2,
            },
            "names": {
                "now": {"incarnation": 0, "names": [], "truncated": false},
                "before": {"incarnation": 0, "names": [], "truncated": false},
            },
        });
        let mut core = Core::new(settings(1), Now::default());
        let stored = core.restore(&serde_json::to_vec(&checkpoint).unwrap()).unwrap();
        core.outbox = crate::outbox::Outbox::new(1, 1, stored);
        let again: Value = serde_json::from_slice(&core.checkpoint()).unwrap();
        assert_eq!(again, checkpoint);
    }
}
