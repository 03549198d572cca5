//! From a journal back to a kernel's state: a checkpoint and the records after it.
//!
//! Folding reads the records' fixed fields; bodies are parsed for the few lifecycle records, and for the names of variables in
//! replies.

use std::collections::BTreeSet;
use std::sync::Arc;

use himalia_journal::Record;
use himalia_model::ExecutionState;
use himalia_shim_protocol::{KernelEntry, Lane, PerLane, RequestId};
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits};

use super::carried::{Carried, held_again};
use super::core::{Core, Settings};
use super::event::Now;
use super::ledger::{Entry, RequestKind};
use super::life::records::LifecycleRecord;
use super::messages::word;
use super::meta::{RecordKind, RecordMeta};
use super::outbox::Outbox;

/// Links of a sandbox that has said nothing yet.
const NO_LINKS: PerLane<u64> = PerLane { now: 0, data: 0 };

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
                    core.executions.fold_input(record, &meta);
                }
                RecordKind::Message => {
                    core.fold_message(record, &meta);
                    core.executions.fold_message(record, &meta);
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
                RecordKind::Execution => {
                    if core.executions.fold(record, &meta) {
                        core.life.loss_was_said();
                    }
                }
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
        core.life.adopt(now.mono);
        core.resume_executions();
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
            self.life.shutdown_requested();
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
        if meta.incarnation == self.life.incarnation() && !meta.synthetic {
            let heard = meta.channel == Some(Channel::Iopub);
            self.readiness.fold_message(heard, meta.word & word::PROBE != 0);
        }
    }

    /// `true` if the links begin again after it: another sandbox gives them.
    fn fold_lifecycle(&mut self, record: &Record) -> bool {
        let Ok(event) = serde_json::from_slice::<LifecycleRecord>(&record.body) else {
            return false;
        };
        self.readiness.fold(&event, record.at_micros);
        if self.life.fold(&event, self.now.mono) {
            self.forget_open();
        }
        match event {
            LifecycleRecord::NewSandbox { .. } => {
                self.leave_sandbox();
                return true;
            }
            LifecycleRecord::Started { .. } => {
                self.stopwatch.reset();
                self.activity.state = ExecutionState::Starting;
                self.activity.touch(record.at_micros);
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
            _ => {}
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
    pub(super) fn confirm_carried(&mut self, lane: Lane, entry: Option<&KernelEntry>) {
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

    /// What earlier epochs left is known on all lanes: what was never accepted goes out again, in its old order, under new numbers.
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

fn session_of(record: &Record) -> Option<String> {
    let frame = Frame::parse(record.body.clone(), &Limits::KERNEL).ok()?;
    Some(frame.peek().ok()?.session.into_owned())
}
