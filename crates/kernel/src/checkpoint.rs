//! A kernel's state as a segment of its journal begins with it, so that recovery reads one segment.

use himalia_model::ExecutionState;
use himalia_shim_protocol::{Exited, Lane, PerLane, RequestId};
use himalia_wire::Channel;
use serde::{Deserialize, Serialize};

use super::activity::Activity;
use super::core::Core;
use super::execution_records::SandboxLoss;
use super::executions::Executions;
use super::ledger::{Entry, RequestKind};
use super::life::{FLUSH_WAIT, PendingExit, Phase};
use super::messages::word;
use super::names::Names;
use super::recovery::Carried;
use super::sandbox_end::StopBy;

/// The state as of a place in the journal. JSON; unknown fields of later versions are ignored.
#[derive(Debug, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of a file format, not a state machine"
)]
struct Checkpoint {
    phase: Phase,
    incarnation: u32,
    crashes: u32,
    told_to_end: bool,
    reason: Option<String>,
    exit: Option<Exited>,
    /// The stop that `exit` belongs to is complete.
    stopped: bool,
    /// It was not asked for by a gateway.
    #[serde(default)]
    told_from_outside: bool,
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
    /// In a new sandbox that has not started a process yet.
    #[serde(default)]
    moving: bool,
    #[serde(default)]
    processes_before: u32,
    #[serde(default)]
    loss: Option<SandboxLoss>,
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
    /// The state for [`himalia_journal::Journal::roll`]. Only while [`Core::settled`].
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
        let stopped = self.life.exit.as_ref().and_then(|exit| exit.stopped);
        let checkpoint = Checkpoint {
            phase: self.life.phase,
            incarnation: self.life.incarnation,
            crashes: self.life.crashes,
            told_to_end: self.life.told_to_end,
            reason: self.life.reason.clone(),
            exit: self.life.exit.as_ref().map(|exit| exit.exited.clone()),
            stopped: stopped.is_some(),
            told_from_outside: stopped == Some(StopBy::Outside),
            state: word::of_state(self.activity.state),
            last_activity: self.activity.last_micros,
            kernel_session: self.kernel_session.to_string(),
            replied: self.readiness.replied,
            heard: self.readiness.heard,
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
            moving: self.life.moving,
            processes_before: self.life.processes_before,
            loss: self.life.loss.clone(),
        };
        serde_json::to_vec(&checkpoint).unwrap_or_default()
    }

    /// Takes over the state of a checkpoint, of a core without any. Returns up to which message each lane is in the journal.
    /// One that cannot be read is an error: the journal is from a later version, or not ours.
    pub(super) fn restore(&mut self, checkpoint: &[u8]) -> Result<PerLane<u64>, String> {
        let checkpoint: Checkpoint = serde_json::from_slice(checkpoint).map_err(|error| error.to_string())?;
        self.life.phase = checkpoint.phase;
        self.life.incarnation = checkpoint.incarnation;
        self.life.crashes = checkpoint.crashes;
        self.life.told_to_end = checkpoint.told_to_end;
        self.life.reason = checkpoint.reason;
        let deadline = self.now.mono + FLUSH_WAIT;
        if self.life.phase == Phase::Stopping {
            self.life.stop_deadline = Some(self.stop_deadline());
        }
        let by = if checkpoint.told_from_outside {
            StopBy::Outside
        } else {
            StopBy::Gateway
        };
        self.life.exit = checkpoint.exit.map(|exited| PendingExit {
            stopped: checkpoint.stopped.then_some(by),
            ..PendingExit::new(exited, deadline)
        });
        self.activity = Activity {
            state: word::to_state(checkpoint.state).unwrap_or(ExecutionState::Starting),
            last_micros: checkpoint.last_activity,
        };
        self.kernel_session = checkpoint.kernel_session.into();
        self.secret_asked = checkpoint.secret_asked;
        self.names = checkpoint.names;
        self.life.moving = checkpoint.moving;
        self.life.processes_before = checkpoint.processes_before;
        self.life.loss = checkpoint.loss;
        if let Some(Executing { id, began }) = checkpoint.executing {
            self.stopwatch.began(id, began);
        }
        self.executions = checkpoint.executions;
        self.readiness.replied = checkpoint.replied;
        self.readiness.heard = checkpoint.heard;
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
