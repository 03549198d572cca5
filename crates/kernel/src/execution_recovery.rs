//! Native executions from their records, as recovery folds them.

use himalia_journal::Record;
use himalia_outcome::Replied;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits};

use super::core::Core;
use super::execution_records::{ExecutionRecord, execution_of, owner_of};
use super::executions::{Current, Queued, Stop};
use super::messages::word;
use super::meta::RecordMeta;

impl Core {
    /// A record of an execution.
    pub(super) fn fold_execution(&mut self, record: &Record, meta: &RecordMeta) {
        let Ok(event) = serde_json::from_slice::<ExecutionRecord>(&record.body) else {
            return;
        };
        let executions = &mut self.executions;
        let seq = execution_of(meta.owner).unwrap_or(record.seq);
        match event {
            ExecutionRecord::Submitted { submission, turn, .. } => {
                executions.enqueue(Queued::new(seq, record.at_micros, submission, turn));
            }
            ExecutionRecord::Sent { attempt, .. } => {
                self.life.loss = None;
                if executions.current(seq).is_some() {
                    executions.send_again();
                }
                if let Some(mut queued) = executions.take_queued(seq) {
                    queued.attempts = attempt;
                    executions.served = executions.served.max(queued.turn);
                    executions.current = Some(Current::new(queued, meta.incarnation));
                    executions.last_incarnation = meta.incarnation;
                }
            }
            ExecutionRecord::Stopping { reason } => {
                if let Some(current) = executions.current(seq) {
                    // The next interrupt comes at once: the last one may not have arrived.
                    current.stop = Some(Stop {
                        reason,
                        due: Some(record.at_micros),
                        interrupts: 0,
                    });
                    current.due = None;
                }
            }
            ExecutionRecord::Detached => {
                if let Some(current) = executions.current(seq) {
                    current.due = None;
                }
            }
            ExecutionRecord::Ended { status, ran, .. } => {
                let queued = match executions.current.take_if(|current| current.queued.seq == seq) {
                    Some(current) => Some(current.queued),
                    None => executions.take_queued(seq),
                };
                if let Some(queued) = queued {
                    executions.ended(&queued, status, meta.incarnation, ran);
                }
            }
            ExecutionRecord::Unknown => {}
        }
    }

    /// A message of the kernel that belongs to an execution.
    pub(super) fn fold_native_message(&mut self, record: &Record, meta: &RecordMeta) {
        let Some(current) = execution_of(meta.owner).and_then(|seq| self.executions.current(seq)) else {
            return;
        };
        if meta.word & word::BEGAN != 0 {
            current.begin(record.at_micros);
        }
        if meta.channel == Some(Channel::Stdin)
            && let Ok(frame) = Frame::parse(record.body.clone(), &Limits::KERNEL)
        {
            current.ask(
                String::from_utf8_lossy(frame.header()).into_owned(),
                record.at_micros,
            );
        }
        if meta.word & word::REPLY != 0 {
            current.reply(match meta.word {
                word if word & word::ABORTED != 0 => Replied::Aborted,
                word if word & word::RAISED != 0 => Replied::Error,
                _ => Replied::Ok,
            });
        }
        if meta.word & word::DONE != 0 {
            current.done = true;
            if current.aborted {
                self.executions.send_again();
            }
        }
    }

    /// An answer to a question went out.
    pub(super) fn fold_native_input(&mut self, record: &Record, meta: &RecordMeta) {
        if meta.channel == Some(Channel::Stdin)
            && let Some(current) = execution_of(meta.owner).and_then(|seq| self.executions.current(seq))
        {
            current.answered(record.at_micros);
        }
    }

    /// All records are read: times are monotonic from here on, and what an end cut short is brought to its end.
    pub(super) fn settle_executions(&mut self) {
        self.executions.shift(self.now.wall, self.now.mono);
        self.finish_execution();
        let Some(current) = &self.executions.current else {
            return;
        };
        let owner = owner_of(current.queued.seq);
        let lost = self.ledger.iter_lost().any(|(_, entry)| entry.owner == owner);
        let open = self.ledger.iter().any(|(_, entry)| entry.owner == owner);
        if !open && !lost {
            // Its request was refused, or never written: it did not run.
            self.executions.send_again();
        } else if !open && let Some(current) = &mut self.executions.current {
            // Its process has ended, and nothing was written of its end.
            current.undecided = Some(self.now.mono);
        }
    }
}
