//! Messages of the kernel: numbered by the shim, journaled with what was learnt from their headers.

use std::borrow::Cow;

use bytes::Bytes;
use himalia_journal::NewRecord;
use himalia_model::ExecutionState;
use himalia_outcome::ReplyStatus;
use himalia_shim_protocol::{Lane, Origin};
use himalia_wire::header::HeaderPeek;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits, header};

use super::core::Core;
use super::event::Effect;
use super::executions::records::execution_of;
use super::meta::{RecordKind, RecordMeta};
use super::prompts::prompt::Prompt;
use super::requests::kind::{RequestKind, lane_of, parent_key};
use super::requests::ledger::Progress;
use super::writes::Next;

/// Bits of a message record's `word`: all that recovery needs to know of a message.
pub mod word {
    use himalia_model::ExecutionState;

    /// The request that the message belongs to is done with it: reply and idle have both been seen.
    pub const DONE: u32 = 1;
    pub const IDLE: u32 = 2;
    pub const REPLY: u32 = 4;
    /// It counts as activity.
    pub const TOUCH: u32 = 8;
    /// A reply to the engine's own question whether the kernel is ready.
    pub const PROBE: u32 = 16;
    /// The kernel is busy with its request, which counts as activity.
    pub const WORKS: u32 = 8192;
    /// The kernel begins to work on its request, which is an execution.
    pub const BEGAN: u32 = 32;
    /// The reply to a native execution says that it never ran.
    pub const ABORTED: u32 = 64;
    /// The reply to a native execution says that it raised.
    pub const RAISED: u32 = 128;
    /// A reply to a question of the engine's. Its record has no body.
    pub const ANSWER: u32 = 2048;
    /// A question for a password.
    pub const SECRET: u32 = 4096;
    const STATE_SHIFT: u32 = 8;

    /// The execution state after the message, in bits 8 to 10.
    pub fn of_state(state: ExecutionState) -> u32 {
        let code = match state {
            ExecutionState::Starting => 1,
            ExecutionState::Idle => 2,
            ExecutionState::Busy => 3,
            _ => 0,
        };
        code << STATE_SHIFT
    }

    /// Reads it back; `None` if the message did not change it.
    pub fn to_state(word: u32) -> Option<ExecutionState> {
        match (word >> STATE_SHIFT) & 7 {
            1 => Some(ExecutionState::Starting),
            2 => Some(ExecutionState::Idle),
            3 => Some(ExecutionState::Busy),
            _ => None,
        }
    }
}

/// The execution whose `input()` asks by a message of the kernel with these fields.
pub(super) fn asking_execution(meta: &RecordMeta) -> Option<u64> {
    let asks = meta.channel == Some(Channel::Stdin) && !meta.synthetic;
    asks.then(|| execution_of(meta.owner)).flatten()
}

/// The subshell whose request a message of the kernel has as its parent; `None` for the main shell.
pub(super) fn subshell_of(frame: &Frame) -> Option<Cow<'_, str>> {
    header::string_field(frame.parent_header(), "subshell_id")
}

impl Core {
    /// A message with a link number that is next in its lane. Nothing is learnt from it that its record does not say.
    pub(super) fn message(
        &mut self,
        lane: Lane,
        link: u64,
        origin: Origin,
        bytes: Bytes,
        out: &mut Vec<Effect>,
    ) {
        self.outbox.note_bytes(bytes.len());
        let limits = Limits {
            message_bytes: self.settings.message_bytes,
            ..Limits::KERNEL
        };
        let observed = match Frame::parse(bytes, &limits) {
            Ok(frame) if lane_of(frame.channel()) == lane => {
                let frame = frame.repaired();
                self.observe(&frame, origin).map(|meta| (meta, frame))
            }
            Ok(frame) => Err(format!("{} on lane {lane}", frame.channel())),
            Err(error) => Err(error.to_string()),
        };
        match observed {
            Ok((mut meta, frame)) => {
                meta.lane = Some(lane);
                meta.link = link;
                let is_answer = meta.word & word::ANSWER != 0;
                let asking = asking_execution(&meta);
                if let Some(execution) = asking {
                    let prompt = Prompt::of_input(frame.content());
                    self.prompts.write_question(execution, prompt, meta.incarnation);
                }
                let record = NewRecord {
                    kind: RecordKind::Message as u8,
                    meta: meta.encode(),
                    body: if is_answer {
                        Bytes::new()
                    } else {
                        frame.into_bytes()
                    },
                };
                let next = match asking {
                    Some(_) => Next::Question { lane, link },
                    None => Next::Stored(lane, link),
                };
                self.writes.push(record, next);
                self.finish_execution();
            }
            Err(reason) => {
                tracing::warn!(lane = lane.as_str(), link, %reason, "a message of a kernel is not one");
                self.loss(
                    lane,
                    link,
                    link,
                    origin.incarnation,
                    &format!("malformed: {reason}"),
                );
            }
        }
        self.after_data(lane, out);
    }

    /// Learns what there is to learn from a message and makes its record's fields, from which recovery learns the same.
    fn observe(&mut self, frame: &Frame, origin: Origin) -> Result<RecordMeta, String> {
        let header = frame.peek().map_err(|error| error.to_string())?;
        let mut meta = RecordMeta {
            kernel: self.settings.kernel,
            channel: Some(frame.channel()),
            incarnation: origin.incarnation,
            ..RecordMeta::default()
        };
        if frame.channel() == Channel::Iopub {
            self.observe_iopub(&header, frame, origin, &mut meta)?;
        } else {
            self.observe_answer(&header, frame, origin, &mut meta)?;
        }
        Ok(meta)
    }

    fn observe_iopub(
        &mut self,
        header: &HeaderPeek<'_>,
        frame: &Frame,
        origin: Origin,
        meta: &mut RecordMeta,
    ) -> Result<(), String> {
        let wall = self.now.wall;
        let parent = self.requests.iopub_parent(frame)?;
        let (parent_tracked, key) = (parent.tracked, parent.key);
        meta.hidden = parent.hidden;
        meta.owner = parent.owner;
        let native = execution_of(parent.owner);
        if let Some(id) = parent.request {
            meta.set_request_id(id);
        }
        let is_status = header.msg_type == "status";
        let status = if is_status {
            header::execution_state(frame.content())
        } else {
            None
        };
        if status.as_deref() == Some("busy")
            && parent_tracked
            && origin.incarnation == self.life.incarnation()
            && let Some(id) = key.and_then(|key| self.requests.works_on(key))
        {
            meta.set_request_id(id);
            meta.word |= word::WORKS;
        }
        let idle = if status.as_deref() == Some("idle") {
            key.and_then(|key| self.requests.idle(key))
        } else {
            None
        };
        if origin.incarnation == self.life.incarnation() {
            let before = self.activity;
            let works = self.requests.is_working();
            self.activity
                .iopub(&header.msg_type, parent_tracked, status.as_deref(), works, wall);
            if self.readiness.heard() {
                self.became_ready();
            }
            if before.state != self.activity.state {
                meta.word |= word::of_state(self.activity.state);
                self.changed = true;
            }
            if before.last_micros != self.activity.last_micros {
                meta.word |= word::TOUCH;
            }
            if *self.kernel_session != *header.session && !header.session.is_empty() {
                self.kernel_session = (&*header.session).into();
                self.changed = true;
            }
        }
        if status.as_deref() == Some("busy")
            && origin.incarnation == self.life.incarnation()
            && let Some(id) = key.and_then(|key| self.requests.execution_below(key))
        {
            self.execution_began(id, subshell_of(frame).as_deref());
            self.requests.began(id, self.now.wall);
            meta.set_request_id(id);
            meta.word |= word::BEGAN;
            if let Some(seq) = native {
                self.executions.began(seq, origin.incarnation, self.now.mono);
            }
        }
        if let Some(Progress { id, kind, done, .. }) = idle {
            if self.stopwatch.ended(id) {
                self.disk.execution_ended(self.now.mono);
            }
            if kind == RequestKind::Question {
                self.questions.idle(id, self.now.mono);
            }
            meta.set_request_id(id);
            meta.word |= word::IDLE | (u32::from(done) * word::DONE);
            if let Some(seq) = native.filter(|_| done) {
                self.executions.done(seq);
            }
        }
        Ok(())
    }

    fn observe_answer(
        &mut self,
        header: &HeaderPeek<'_>,
        frame: &Frame,
        origin: Origin,
        meta: &mut RecordMeta,
    ) -> Result<(), String> {
        let channel = frame.channel();
        if channel == Channel::Stdin {
            let is_secret = self.requests.note_question(&header.msg_type, frame.content());
            meta.word |= u32::from(is_secret) * word::SECRET;
        }
        let parent = frame.peek_parent().map_err(|error| error.to_string())?;
        let key = parent.map(|parent| parent_key(&parent.msg_id, &parent.session));
        let id = self
            .requests
            .answered(channel, &header.msg_type, key, origin.answers);
        let entry = id.and_then(|id| self.requests.get(id));
        let owner = entry.map_or(0, |entry| entry.owner);
        if channel == Channel::Stdin {
            self.requests.note_asked(header, owner);
        }
        let Some(id) = id else { return Ok(()) };
        meta.set_request_id(id);
        let Some(entry) = self.requests.get(id) else {
            return Ok(());
        };
        meta.owner = entry.owner;
        meta.hidden = entry.owner == 0;
        let native = execution_of(entry.owner);
        if let Some(seq) = native.filter(|_| header.msg_type == "input_request") {
            self.executions.asked(seq, frame.header(), self.now.mono);
        }
        if channel == Channel::Stdin || !header.msg_type.ends_with("_reply") {
            return Ok(());
        }
        self.requests.judge(id, frame.content());
        let Some(Progress { kind, done, .. }) = self.requests.replied(id) else {
            return Ok(());
        };
        if channel == Channel::Control && origin.incarnation == self.life.incarnation() {
            self.readiness.set_control_silent(false);
        }
        meta.word = word::REPLY | (u32::from(done) * word::DONE);
        if kind == RequestKind::Execute {
            self.stopwatch.ended(id);
            self.disk.execution_ended(self.now.mono);
            self.names.replied(origin.incarnation, frame.metadata());
        }
        if kind == RequestKind::Question {
            meta.word |= word::ANSWER;
            self.questions.replied(id, frame);
        }
        if let Some(seq) = native {
            let status = header::reply_status(frame.content());
            let replied = ReplyStatus::from_status(status.as_deref().unwrap_or_default());
            meta.word |= match replied {
                ReplyStatus::Ok => 0,
                ReplyStatus::Error => word::RAISED,
                ReplyStatus::Aborted => word::ABORTED,
            };
            self.executions.replied(seq, replied);
            if done {
                self.executions.done(seq);
            }
        }
        if kind == RequestKind::Probe && origin.incarnation == self.life.incarnation() {
            meta.word |= word::PROBE;
            if self.readiness.replied(self.now.mono) {
                let before = self.activity.state;
                self.became_ready();
                if before != self.activity.state {
                    meta.word |= word::of_state(self.activity.state);
                }
            }
        }
        Ok(())
    }

    /// The kernel has answered and its output is heard.
    pub(super) fn became_ready(&mut self) {
        // Without this an unused restarted kernel would seem to be starting for ever.
        if self.activity.state == ExecutionState::Starting {
            self.activity.state = ExecutionState::Idle;
        }
        self.changed = true;
    }
}
