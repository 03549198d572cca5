//! Native executions from their records, as recovery folds them.

use himalia_journal::Record;
use himalia_outcome::ReplyStatus;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits};

use super::current::{Current, Stop};
use super::queue::Executions;
use super::queued::QueuedExecution;
use super::records::{ExecutionRecord, execution_of};
use crate::meta::RecordMeta;
use crate::word;

impl Executions {
    /// A record of an execution. `true` if it was sent.
    pub(crate) fn fold(&mut self, record: &Record, meta: &RecordMeta) -> bool {
        let Ok(event) = serde_json::from_slice::<ExecutionRecord>(&record.body) else {
            return false;
        };
        let seq = execution_of(meta.owner).unwrap_or(record.seq);
        match event {
            ExecutionRecord::Submitted { submission, turn, .. } => {
                self.enqueue(QueuedExecution::new(seq, record.at_micros, submission, turn));
            }
            ExecutionRecord::Sent { attempt, .. } => {
                if self.current(seq).is_some() {
                    self.send_again();
                }
                if let Some(mut queued) = self.take_queued(seq) {
                    queued.attempts = attempt;
                    self.served = self.served.max(queued.turn);
                    self.current = Some(Current::new(queued, meta.incarnation));
                    self.last_incarnation = meta.incarnation;
                }
                return true;
            }
            ExecutionRecord::Stopping { reason } => {
                if let Some(current) = self.current(seq) {
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
                if let Some(current) = self.current(seq) {
                    current.due = None;
                }
            }
            ExecutionRecord::Stuck => {
                if let Some(current) = self.current(seq) {
                    current.stuck = true;
                    current.stop = current.stop.map(|stop| Stop { due: None, ..stop });
                }
            }
            ExecutionRecord::Ended { status, ran, .. } => {
                let queued = match self.current.take_if(|current| current.queued.seq == seq) {
                    Some(current) => Some(current.queued),
                    None => self.take_queued(seq),
                };
                if let Some(queued) = queued {
                    self.ended(&queued, status, meta.incarnation, ran);
                }
            }
            ExecutionRecord::Unknown => {}
        }
        false
    }

    /// A message of the kernel that belongs to an execution.
    pub(crate) fn fold_message(&mut self, record: &Record, meta: &RecordMeta) {
        let Some(current) = execution_of(meta.owner).and_then(|seq| self.current(seq)) else {
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
                word if word & word::ABORTED != 0 => ReplyStatus::Aborted,
                word if word & word::RAISED != 0 => ReplyStatus::Error,
                _ => ReplyStatus::Ok,
            });
        }
        if meta.word & word::DONE != 0 {
            current.done = true;
            if current.aborted {
                self.send_again();
            }
        }
    }

    /// An answer to a question went out.
    pub(crate) fn fold_input(&mut self, record: &Record, meta: &RecordMeta) {
        if meta.channel == Some(Channel::Stdin)
            && let Some(current) = execution_of(meta.owner).and_then(|seq| self.current(seq))
        {
            current.answered(record.at_micros);
        }
    }
}
