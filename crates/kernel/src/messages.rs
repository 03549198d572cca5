//! Messages of the kernel: numbered by the shim, journaled with what was learnt from their headers.

use bytes::Bytes;
use himalia_journal::NewRecord;
use himalia_model::ExecutionState;
use himalia_outcome::Replied;
use himalia_shim_protocol::{Lane, Origin, RequestId};
use himalia_wire::header::HeaderPeek;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits, header};

use super::activity::tracked;
use super::core::Core;
use super::event::Effect;
use super::executions::records::execution_of;
use super::ledger::{Progress, RequestKind, parent_key};
use super::meta::{RecordKind, RecordMeta};
use super::secrets;
use super::synthetic::ENGINE_SESSION;
use super::writes::Next;

/// Bits of a message record's `word`: all that recovery needs to know of a message.
pub mod word {
    use himalia_model::ExecutionState;

    /// The request that the message belongs to is done with it: reply and idle have both been seen.
    pub const DONE: u32 = 1;
    /// The idle of its request.
    pub const IDLE: u32 = 2;
    /// A reply.
    pub const REPLY: u32 = 4;
    /// It counts as activity.
    pub const TOUCH: u32 = 8;
    /// A reply to the engine's own question whether the kernel is ready.
    pub const PROBE: u32 = 16;
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

/// What is known of the parent of the latest iopub message. Floods have one parent, byte for byte.
#[derive(Debug)]
pub(super) struct IopubParent {
    pub(super) raw: Box<[u8]>,
    tracked: bool,
    hidden: bool,
    key: Option<u64>,
    request: Option<RequestId>,
    /// Of a native execution; otherwise 0: iopub is for all.
    owner: u64,
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
            Ok(frame) if (frame.channel() == Channel::Control) == (lane == Lane::Now) => {
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
                let record = NewRecord {
                    kind: RecordKind::Message as u8,
                    meta: meta.encode(),
                    body: if is_answer {
                        Bytes::new()
                    } else {
                        frame.into_bytes()
                    },
                };
                self.writes.push(record, Next::Stored(lane, link));
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
        if self
            .iopub_parent
            .as_ref()
            .is_none_or(|parent| *parent.raw != *frame.parent_header())
        {
            self.iopub_parent = Some(self.parent(frame)?);
        }
        let Some(parent) = &self.iopub_parent else {
            return Ok(());
        };
        let (parent_tracked, key) = (parent.tracked, parent.key);
        meta.hidden = parent.hidden;
        meta.owner = parent.owner;
        let native = execution_of(parent.owner);
        put_request(meta, parent.request);
        let is_status = header.msg_type == "status";
        let status = if is_status {
            header::execution_state(frame.content())
        } else {
            None
        };
        if origin.incarnation == self.life.incarnation() {
            let before = self.activity;
            self.activity
                .iopub(&header.msg_type, parent_tracked, status.as_deref(), wall);
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
            && let Some(id) = key.and_then(|key| self.ledger.find(key, true))
            && self.execution_began(id)
        {
            put_request(meta, Some(id));
            meta.word |= word::BEGAN;
            if let Some(seq) = native {
                self.native_began(seq);
            }
        }
        if status.as_deref() == Some("idle")
            && let Some(id) = key.and_then(|key| self.ledger.find(key, true))
            && let Some(progress) = self.ledger.idle(id)
        {
            if self.stopwatch.ended(id) {
                self.disk.execution_ended(self.now.mono);
            }
            if progress.kind == RequestKind::Question {
                self.questions.idle(id, self.now.mono);
            }
            put_request(meta, Some(id));
            meta.word |= word::IDLE | (u32::from(progress.done) * word::DONE);
            if let Some(seq) = native.filter(|_| progress.done) {
                self.native_done(seq);
            }
        }
        Ok(())
    }

    fn parent(&self, frame: &Frame) -> Result<IopubParent, String> {
        let peek = frame.peek_parent().map_err(|error| error.to_string())?;
        let key = peek
            .as_ref()
            .map(|parent| parent_key(&parent.msg_id, &parent.session));
        let request = key.and_then(|key| self.ledger.find(key, true));
        let owner = request
            .and_then(|id| self.ledger.get(id))
            .map_or(0, |entry| entry.owner);
        let hidden = peek
            .as_ref()
            .is_some_and(|parent| parent.session == ENGINE_SESSION);
        Ok(IopubParent {
            // Kept for the next comparison: a copy, so that no read buffer is pinned.
            raw: frame.parent_header().into(),
            // What the engine asks is no activity, whatever it asks.
            tracked: !hidden && peek.as_ref().is_none_or(|parent| tracked(&parent.msg_type)),
            hidden,
            key,
            request,
            owner: if execution_of(owner).is_some() { owner } else { 0 },
        })
    }

    fn observe_answer(
        &mut self,
        header: &HeaderPeek<'_>,
        frame: &Frame,
        origin: Origin,
        meta: &mut RecordMeta,
    ) -> Result<(), String> {
        let channel = meta.channel;
        if channel == Some(Channel::Stdin) {
            self.secret_asked = header.msg_type == "input_request" && secrets::asks_for_one(frame.content());
            meta.word |= u32::from(self.secret_asked) * word::SECRET;
        }
        let parent = frame.peek_parent().map_err(|error| error.to_string())?;
        let key = parent.map(|parent| parent_key(&parent.msg_id, &parent.session));
        let id = self.answered(channel, &header.msg_type, key, origin.answers);
        let Some(id) = id else { return Ok(()) };
        put_request(meta, Some(id));
        let Some(entry) = self.ledger.get(id) else {
            return Ok(());
        };
        meta.owner = entry.owner;
        meta.hidden = entry.owner == 0;
        let native = execution_of(entry.owner);
        if let Some(seq) = native.filter(|_| header.msg_type == "input_request") {
            self.native_asked(seq, frame.header());
        }
        if channel == Some(Channel::Stdin) || !header.msg_type.ends_with("_reply") {
            return Ok(());
        }
        let Some(Progress { kind, done, .. }) = self.ledger.replied(id) else {
            return Ok(());
        };
        meta.word = word::REPLY | (u32::from(done) * word::DONE);
        if kind == RequestKind::Execute {
            self.disk.execution_ended(self.now.mono);
            self.names.replied(origin.incarnation, frame.metadata());
        }
        if kind == RequestKind::Question {
            meta.word |= word::ANSWER;
            self.questions.replied(id, frame);
        }
        if let Some(seq) = native {
            let status = header::reply_status(frame.content());
            let replied = Replied::from_status(status.as_deref().unwrap_or_default());
            meta.word |= match replied {
                Replied::Ok => 0,
                Replied::Error => word::RAISED,
                Replied::Aborted => word::ABORTED,
            };
            self.native_replied(seq, replied);
            if done {
                self.native_done(seq);
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

    /// The open request that a message belongs to. The parent decides, since clients go by it: the identity, which kernels echo, only
    /// tells requests of the same parent apart. A reply that no open request waits for belongs to no client: it is kept in the log, changes
    /// nothing, and is shown to no client.
    fn answered(
        &self,
        channel: Option<Channel>,
        msg_type: &str,
        parent: Option<u64>,
        identity: Option<RequestId>,
    ) -> Option<RequestId> {
        let by_parent = || parent.and_then(|key| self.ledger.find(key, false));
        if channel == Some(Channel::Stdin) {
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

    /// The kernel has answered and its output is heard.
    pub(super) fn became_ready(&mut self) {
        // Without this an unused restarted kernel would seem to be starting for ever.
        if self.activity.state == ExecutionState::Starting {
            self.activity.state = ExecutionState::Idle;
        }
        self.changed = true;
    }
}

fn put_request(meta: &mut RecordMeta, id: Option<RequestId>) {
    if let Some(id) = id {
        meta.request = id.number;
        meta.epoch = u32::try_from(id.epoch).unwrap_or(u32::MAX);
    }
}
