//! Requests of clients and of the engine: from the mailbox to the shim, and their replies back.
//!
//! | step | where |
//! |---|---|
//! | The actor takes it from the mailbox while there is room | [`state::Requests::has_room`] |
//! | It waits for a process, or for a pause to end | [`backlog`] |
//! | It is numbered, and its record goes to the journal, without a password that it has | `admit`, here; [`secrets`] |
//! | Its record is stored, so it is sent, until the shim has accepted it | `Core::written`, [`Outbox`] |
//! | The disk refuses its record: it waits again | `take_back`, here |
//! | The shim refuses it: it is sent again, or ends | [`refusal`] |
//! | Reply and idle come: `messages.rs` asks which request they are for | [`kind`], [`ledger`], [`parent`] |
//! | Its process, its sandbox or its gateway ends before | [`state`], [`carried`], [`lost`], [`lost_answers`] |
//! | The next gateway reads it from the journal | [`checkpoint`], [`recovery`] |
//!
//! [`state::Requests`] knows where each of them is; what is here connects it with journal and link.
//!
//! [`Outbox`]: super::shim::outbox::Outbox

pub(super) mod backlog;
mod carried;
pub(super) mod checkpoint;
pub(super) mod kind;
pub(super) mod ledger;
mod lost;
mod lost_answers;
mod parent;
mod recovery;
mod refusal;
mod secrets;
pub(super) mod state;

use himalia_journal::NewRecord;
use himalia_shim_protocol::RequestId;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits, build};

use super::core::Core;
use super::event::{CommandError, Effect, Request};
use super::executions::records::execution_of;
use super::meta::{RecordKind, RecordMeta};
use super::synthetic::ENGINE_SESSION;
use super::writes::Next;
use backlog::HeldRequest;
use kind::{RequestKind, lane_of};
use ledger::Entry;

impl Core {
    /// A request: sent once it is in the journal, or kept until there is a process that could take it.
    pub(super) fn request(&mut self, mut request: Request) {
        if request.channel() == Channel::Stdin && !self.requests.is_answer(&request) {
            tracing::debug!("a message on stdin answers no open question");
            return;
        }
        if let Some(trace) = &mut request.trace {
            trace.received(self.now.wall);
        }
        self.requests.backlog.push_last(HeldRequest::new(request));
        self.release();
    }

    /// Takes up held requests, in order, as far as that is possible now.
    pub(super) fn release(&mut self) {
        while self.life.runs() && self.outbox.greeted() && !self.writes.failing() {
            let shell = !self.requests.is_full() && !self.disk.is_unsure(self.requests.executes());
            let Some(held) = self.requests.backlog.pop(shell) else {
                return;
            };
            if let Some(found) = self.disk.refuses(&held.request) {
                self.refuse_for_disk(&held, &found);
                continue;
            }
            if let Err(held) = self.admit(held) {
                self.requests.backlog.put_back(held);
                return;
            }
        }
    }

    /// Numbers a request and writes its record. Gives it back when the shim holds too much already.
    pub(super) fn admit(&mut self, held: HeldRequest) -> Result<RequestId, HeldRequest> {
        let HeldRequest { request, again } = held;
        let lane = lane_of(request.channel());
        let Ok(id) = self.outbox.message(lane, request.frame.bytes().clone()) else {
            return Err(HeldRequest { request, again });
        };
        let redacted = request.channel() == Channel::Stdin && self.requests.secret_asked;
        let mut meta = RecordMeta {
            kernel: self.settings.kernel,
            channel: Some(request.channel()),
            redacted,
            hidden: request.owner == 0,
            incarnation: self.life.incarnation(),
            owner: request.owner,
            link: again,
            word: request.kind as u32,
            ..RecordMeta::default()
        };
        meta.set_request_id(id);
        if request.kind == RequestKind::Shutdown {
            self.life.shutdown_requested();
        }
        let (owner, is_stdin) = (request.owner, request.channel() == Channel::Stdin);
        if !is_stdin {
            self.requests.ledger.insert(id, Entry::new(0, &request));
        }
        let record = NewRecord {
            kind: RecordKind::Request as u8,
            meta: meta.encode(),
            body: if redacted {
                secrets::without_answer(&request.frame).into_bytes()
            } else {
                request.frame.into_bytes()
            },
        };
        let next = match execution_of(owner) {
            Some(execution) if is_stdin => Next::SendAnswer { lane, id, execution },
            _ => Next::Send(lane, id),
        };
        self.writes.push(record, next);
        Ok(id)
    }

    /// The disk refused a batch: its requests wait again, unnumbered, before all others. Executions and prompts in it are refused.
    pub(super) fn take_back(&mut self, batch: Vec<NewRecord>, out: &mut Vec<Effect>) {
        let taken = self.writes.failed(self.now.mono, batch);
        for (then, record) in taken.into_iter().rev() {
            let (lane, id) = match then {
                Next::Send(lane, id) | Next::SendAnswer { lane, id, .. } => (lane, id),
                Next::Submitted(waiter) => {
                    self.executions.not_submitted(waiter, out);
                    continue;
                }
                Next::Prompted(waiter) => {
                    self.prompts.not_written(waiter, out);
                    continue;
                }
                Next::ToolCall { waiter, call } => {
                    self.tool_call_not_begun(waiter, call, out);
                    continue;
                }
                _ => continue,
            };
            let frame = self.outbox.give_up(lane, id, out);
            let meta = RecordMeta::decode(&record.meta);
            let entry = self.requests.ledger.remove(id);
            let parent = entry.as_ref().map_or(0, |entry| entry.parent);
            let trace = entry
                .and_then(|entry| entry.way)
                .map(|way| Box::new(way.traced()));
            let kind = RequestKind::from_word(meta.word);
            if kind == RequestKind::Question {
                self.questions.failed(id, CommandError::DiskFailing);
            }
            // The message itself: its record may lack something.
            let frame = Frame::parse(frame.unwrap_or(record.body), &Limits::KERNEL);
            let (Ok(frame), false) = (frame, kind.is_engines()) else {
                continue;
            };
            let request = Request {
                owner: meta.owner,
                kind,
                parent,
                frame,
                trace,
            };
            self.requests.backlog.put_back(HeldRequest {
                request,
                again: meta.link,
            });
        }
    }

    /// Asks the kernel what it is, on control and on shell.
    pub(super) fn probe(&mut self) {
        self.readiness.probed(self.now.mono);
        for channel in [Channel::Control, Channel::Shell] {
            let frame = Frame::new(channel, &build::kernel_info_request(ENGINE_SESSION));
            let request = Request::ours(0, RequestKind::Probe, frame);
            // Refused when the shim holds too much: a later probe tries again.
            let _ = self.admit(HeldRequest::new(request));
        }
    }

    /// Ends the pauses whose time has come.
    pub(super) fn end_pauses(&mut self, _: &mut Vec<Effect>) {
        self.writes.end_pause(self.now.mono);
        self.requests.backlog.end_pauses(self.now.mono);
        self.release();
    }

    /// When the next pause ends, monotonic microseconds.
    pub(super) fn pauses_end(&self) -> Option<u64> {
        let pauses = [self.writes.retry_at(), self.requests.backlog.pause_ends()];
        pauses.into_iter().flatten().min()
    }
}
