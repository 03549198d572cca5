//! From a journal back to a kernel's state: a checkpoint and the records after it.
//!
//! Folding reads the records' fixed fields; bodies are parsed for the few lifecycle records, for the names of variables in replies, and
//! for the subshells of executions.

use std::sync::Arc;

use himalia_journal::Record;
use himalia_model::ExecutionState;
use himalia_shim_protocol::PerLane;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits};

use super::core::{Core, Settings};
use super::event::Timestamp;
use super::life::records::LifecycleRecord;
use super::messages::{subshell_of, word};
use super::meta::{RecordKind, RecordMeta};
use super::requests::kind::RequestKind;
use super::shim::outbox::Outbox;

/// Links of a sandbox that has said nothing yet.
const NO_LINKS: PerLane<u64> = PerLane { now: 0, data: 0 };

impl Core {
    /// Rebuilds a kernel from its journal. `read` gets a record by its number, for requests that are older than
    /// `since`. A checkpoint that cannot be read is an error: the journal is from a later version, or not ours.
    pub fn recover(
        settings: Settings,
        now: Timestamp,
        checkpoint: Option<&[u8]>,
        since: &[Arc<Record>],
        read: impl FnMut(u64) -> Option<Arc<Record>>,
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
                    let kind = core.requests.fold_request(record, &meta);
                    if kind == Some(RequestKind::Shutdown) {
                        core.life.shutdown_requested();
                    }
                    core.executions.fold_input(record, &meta);
                    core.fold_question_answer(record, &meta);
                }
                RecordKind::Message => {
                    core.fold_message(record, &meta);
                    core.executions.fold_message(record, &meta);
                    core.fold_question(record, &meta);
                    if meta.channel == Some(Channel::Iopub) && !meta.synthetic {
                        last_output = Some(record);
                    }
                }
                RecordKind::Lifecycle => {
                    if core.fold_lifecycle(record) {
                        stored = NO_LINKS;
                    }
                }
                RecordKind::Gap => {
                    if meta.channel.is_some() {
                        core.requests.output_lost();
                    }
                }
                RecordKind::Network => core.fold_connection(record),
                RecordKind::Prompt => core.fold_prompt(record, &meta),
                RecordKind::ToolCall => core.fold_tool_call(record, &meta),
                RecordKind::Returned => core.fold_returned(record, &meta),
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
        core.requests.read_carried(read);
        core.life.adopt(now.mono);
        core.resume_executions();
        core.requests.resume_lost(now.mono);
        core.end_left_tool_calls();
        Ok(core)
    }

    fn fold_message(&mut self, record: &Record, meta: &RecordMeta) {
        let id = meta.request_id();
        let reply = self.requests.fold_message(record, meta);
        if meta.word & word::TOUCH != 0 {
            self.activity.touch(record.at_micros);
        }
        if let Some(state) = word::to_state(meta.word) {
            self.activity.state = state;
        }
        if meta.word & word::BEGAN != 0 {
            let frame = Frame::parse(record.body.clone(), &Limits::KERNEL).ok();
            let subshell = frame.as_ref().and_then(subshell_of);
            self.stopwatch.began(id, record.at_micros, subshell.as_deref());
        }
        let replied = reply.is_some_and(|reply| reply.kind == RequestKind::Execute);
        if replied || meta.word & word::IDLE != 0 {
            self.stopwatch.ended(id);
        }
        if replied && let Ok(frame) = Frame::parse(record.body.clone(), &Limits::KERNEL) {
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
            self.stopwatch.reset();
            self.requests.fold_process_ended();
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
            LifecycleRecord::Carried { requests } => self.requests.fold_carried(requests),
            LifecycleRecord::Refused { record, again, .. } => self.requests.fold_refused(record, again),
            _ => {}
        }
        false
    }
}

fn session_of(record: &Record) -> Option<String> {
    let frame = Frame::parse(record.body.clone(), &Limits::KERNEL).ok()?;
    Some(frame.peek().ok()?.session.into_owned())
}
