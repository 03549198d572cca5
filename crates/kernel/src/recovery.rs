//! From a journal back to a kernel's state: a checkpoint and the records after it.
//!
//! Folding reads the records' fixed fields; bodies are parsed for the few lifecycle records, and for the names of variables in
//! replies.

use std::collections::BTreeSet;
use std::sync::Arc;

use himalia_journal::Record;
use himalia_model::{ExecutionState, Unanswered, Unresponsive};
use himalia_shim_protocol::{KernelEntry, Lane, PerLane, RequestId};
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits};

use super::core::{Core, Settings};
use super::event::{Now, Request};
use super::held::Held;
use super::ledger::{Entry, RequestKind, parent_key};
use super::life::{FLUSH_WAIT, PendingExit, Phase};
use super::lifecycle::LifecycleRecord;
use super::messages::word;
use super::meta::{RecordKind, RecordMeta};
use super::moving::NO_LINKS;
use super::outbox::Outbox;
use super::sandbox_end::{StopBy, TOLD_TO_END};

/// A request that is in the journal and that the shim may not have accepted.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    pub(super) id: RequestId,
    /// It is known that the shim never accepted it, or that it refused it.
    pub(super) confirmed: bool,
    /// Filled from the journal before the core is used.
    pub(super) held: Option<Held>,
}

impl Core {
    /// Rebuilds a kernel from its journal. `read` gets a record by its number, for requests that are older than
    /// `since`. A checkpoint that cannot be read is an error: the journal is from a later version, or not ours.
    pub fn recover(
        settings: Settings,
        now: Now,
        checkpoint: Option<&[u8]>,
        since: &[Arc<Record>],
        mut read: impl FnMut(u64) -> Option<Arc<Record>>,
    ) -> Result<Self, String> {
        let mut core = Self::new(settings, now);
        let mut stored = match checkpoint {
            Some(checkpoint) => core.restore(checkpoint)?,
            None => PerLane::default(),
        };
        let mut last_output = None;
        for record in since {
            let Some(kind) = RecordKind::from_byte(record.kind) else {
                continue;
            };
            let meta = RecordMeta::decode(&record.meta);
            if meta.kernel != settings.kernel {
                continue;
            }
            if let Some(lane) = meta.lane.filter(|_| kind != RecordKind::Request) {
                stored[lane] = meta.link;
            }
            match kind {
                RecordKind::Request => {
                    core.fold_request(record, &meta);
                    core.fold_native_input(record, &meta);
                }
                RecordKind::Message => {
                    core.fold_message(record, &meta);
                    core.fold_native_message(record, &meta);
                    if meta.channel == Some(Channel::Iopub) && !meta.synthetic {
                        last_output = Some(record);
                    }
                }
                RecordKind::Lifecycle => {
                    if core.fold_lifecycle(record) {
                        stored = NO_LINKS;
                    }
                }
                RecordKind::Gap => {}
                RecordKind::Execution => core.fold_execution(record, &meta),
            }
        }
        if let Some(session) = last_output.and_then(|record| session_of(record)) {
            core.kernel_session = session.into();
        }
        core.outbox = Outbox::new(settings.kernel, settings.epoch, stored);
        for lane in Lane::ALL {
            for (seq, carried) in &mut core.carried[lane] {
                if carried.held.is_none() {
                    carried.held = read(*seq).and_then(|record| held_again(&record));
                }
            }
            core.carried[lane].retain(|_, carried| carried.held.is_some());
        }
        core.life.since = now.mono;
        core.adopted = true;
        core.settle_executions();
        Ok(core)
    }

    fn fold_request(&mut self, record: &Record, meta: &RecordMeta) {
        let Some(held) = held_again(record) else { return };
        let id = RequestId {
            epoch: u64::from(meta.epoch),
            number: meta.request,
        };
        let lane = held.request.lane();
        if meta.link != 0
            && let Some(old) = self.carried[lane].remove(&meta.link)
        {
            self.ledger.remove(old.id);
        }
        if held.request.kind == RequestKind::Shutdown {
            self.life.told_to_end = true;
        }
        if held.request.channel() != Channel::Stdin {
            self.ledger.insert(id, Entry::new(record.seq, &held.request));
        }
        self.carried[lane].insert(
            record.seq,
            Carried {
                id,
                confirmed: false,
                held: Some(held),
            },
        );
    }

    fn fold_message(&mut self, record: &Record, meta: &RecordMeta) {
        let id = RequestId {
            epoch: u64::from(meta.epoch),
            number: meta.request,
        };
        // Whatever answers a request proves that it was accepted.
        if let Some(entry) = self.ledger.get(id)
            && meta.word & (word::IDLE | word::REPLY) != 0
        {
            self.carried[entry.lane()].remove(&entry.seq);
        }
        if meta.channel == Some(Channel::Stdin) && !meta.synthetic {
            self.secret_asked = meta.word & word::SECRET != 0;
        }
        if meta.word & word::TOUCH != 0 {
            self.activity.touch(record.at_micros);
        }
        if let Some(state) = word::to_state(meta.word) {
            self.activity.state = state;
        }
        if meta.word & word::BEGAN != 0 {
            self.stopwatch.began(id, record.at_micros);
        }
        if meta.word & word::IDLE != 0 {
            self.ledger.idle(id);
            self.stopwatch.ended(id);
        }
        if meta.word & word::REPLY != 0
            && let Some(progress) = self.ledger.replied(id)
            && progress.kind == RequestKind::Execute
            && let Ok(frame) = Frame::parse(record.body.clone(), &Limits::KERNEL)
        {
            self.names.replied(meta.incarnation, frame.metadata());
        }
        if meta.incarnation == self.life.incarnation && !meta.synthetic {
            self.readiness.heard |= meta.channel == Some(Channel::Iopub);
            self.readiness.replied |= meta.word & word::PROBE != 0;
        }
    }

    /// `true` if the links begin again after it: another sandbox gives them.
    fn fold_lifecycle(&mut self, record: &Record) -> bool {
        let Ok(event) = serde_json::from_slice::<LifecycleRecord>(&record.body) else {
            return false;
        };
        match event {
            LifecycleRecord::NewSandbox {
                cause,
                processes,
                lost,
            } => {
                self.life.incarnation = processes;
                self.move_in(&cause, lost);
                return true;
            }
            LifecycleRecord::Started { incarnation } => {
                self.life.incarnation = incarnation;
                self.life.settle_reason();
                self.life.phase = Phase::Running;
                self.life.told_to_end = false;
                self.life.moving = false;
                self.life.exit = None;
                self.stopwatch.reset();
                self.activity.state = ExecutionState::Starting;
                self.activity.touch(record.at_micros);
                self.readiness = super::readiness::Readiness::default();
                (self.alive, self.unresponsive) = (true, None);
            }
            LifecycleRecord::Unresponsive {
                problem: problem @ Unanswered::Heartbeat,
                ..
            } => {
                let since_micros = record.at_micros;
                self.alive = false;
                self.unresponsive = Some(Unresponsive {
                    since_micros,
                    problem,
                });
            }
            LifecycleRecord::Responsive => (self.alive, self.unresponsive) = (true, None),
            LifecycleRecord::Exited(exited) => {
                let deadline = self.now.mono + FLUSH_WAIT;
                self.life.exit = Some(PendingExit::new(exited, deadline));
            }
            LifecycleRecord::Stopped { by, .. } => match (&mut self.life.exit, by) {
                (Some(exit), by) => exit.stopped = Some(by),
                (None, StopBy::Gateway) => self.life.phase = Phase::Over,
                (None, StopBy::Outside) => {
                    self.life.phase = Phase::Dead;
                    self.life.reason = Some(TOLD_TO_END.to_owned());
                    self.forget_open();
                }
            },
            LifecycleRecord::Restarting { cause, crashes } => {
                self.life.phase = Phase::Restarting;
                self.life.exit = None;
                self.life.crashes = crashes;
                self.life.reason = Some(format!("restarted after {cause}"));
                self.forget_open();
            }
            LifecycleRecord::Dead { cause, over } => {
                self.life.phase = if over { Phase::Over } else { Phase::Dead };
                self.life.moving = false;
                self.life.exit = None;
                self.life.reason = Some(cause);
                self.forget_open();
            }
            LifecycleRecord::Carried { requests } => {
                let confirmed: BTreeSet<u64> = requests.into_iter().collect();
                for lane in Lane::ALL {
                    // What was not confirmed had been accepted, as an earlier gateway found out.
                    self.carried[lane].retain(|seq, carried| {
                        carried.confirmed = confirmed.contains(seq);
                        carried.confirmed
                    });
                }
            }
            LifecycleRecord::Refused { record, again, .. } => self.fold_refused(record, again),
            // A kernel that never answered is asked anew.
            LifecycleRecord::Unresponsive {
                problem: Unanswered::KernelInfo,
                ..
            }
            | LifecycleRecord::StartFailed { .. }
            | LifecycleRecord::Bound { .. }
            | LifecycleRecord::Forked { .. }
            | LifecycleRecord::ForkFailed { .. }
            | LifecycleRecord::LinkAdded
            | LifecycleRecord::ExecutionLimit { .. }
            | LifecycleRecord::DiskQuota { .. }
            | LifecycleRecord::Unknown => {}
        }
        false
    }

    fn fold_refused(&mut self, record: u64, again: bool) {
        if let Some(id) = self.ledger.of_record(record) {
            self.never_ran(id, again);
        } else if !again {
            // It was to go again, and could not.
            for lane in Lane::ALL {
                self.carried[lane].remove(&record);
            }
        }
    }

    /// Forgets what a process that ended had accepted.
    fn forget_open(&mut self) {
        self.stopwatch.reset();
        let carried = &self.carried;
        self.ledger.lose(|id| {
            Lane::ALL
                .into_iter()
                .any(|lane| carried[lane].values().any(|carried| carried.id == id))
        });
    }

    /// The first hello of a lane in this epoch: its marks say what was accepted of what earlier gateways sent.
    pub(super) fn settle_carried(&mut self, lane: Lane, entry: Option<&KernelEntry>) {
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

    /// All lanes are settled: what was never accepted goes out again, in its old order, under new numbers.
    pub(super) fn hold_carried(&mut self) {
        for lane in Lane::ALL {
            for (seq, carried) in std::mem::take(&mut self.carried[lane]) {
                self.ledger.remove(carried.id);
                match carried.held {
                    Some(held) => self.held.put_back(held),
                    // Its record is being fetched.
                    None => drop(self.carried[lane].insert(seq, carried)),
                }
            }
        }
    }
}

/// A request record as a request that is to be sent again.
pub(super) fn held_again(record: &Record) -> Option<Held> {
    let meta = RecordMeta::decode(&record.meta);
    let frame = Frame::parse(record.body.clone(), &Limits::KERNEL).ok()?;
    let header = frame.peek().ok()?;
    let parent = parent_key(&header.msg_id, &header.session);
    let kind = RequestKind::from_word(meta.word);
    // The caller has gone with the gateway that asked; what lacks its secret is not what was meant.
    if kind == RequestKind::Question || meta.redacted {
        return None;
    }
    let request = Request {
        owner: meta.owner,
        kind,
        parent,
        frame,
    };
    Some(Held {
        request,
        again: record.seq,
    })
}

fn session_of(record: &Record) -> Option<String> {
    let frame = Frame::parse(record.body.clone(), &Limits::KERNEL).ok()?;
    Some(frame.peek().ok()?.session.into_owned())
}
