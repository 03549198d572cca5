//! Questions of the engine itself that one reply answers: what variables there are, how code may be completed.
//!
//! Nothing of them is shown to clients, counts as activity or is asked again. A question is in the journal before it is sent, like
//! every request; of its reply the journal has that it came, without its body. Whoever asked is told
//! - the reply;
//! - [`CommandError::NotKnown`], when the kernel went idle below the question and no reply followed within [`REPLY_WAIT`]:
//!   so do kernels that do not know a type;
//! - [`CommandError::NoAnswer`], when its time is over;
//! - [`CommandError::NotRunning`], when the process ended before.

use bytes::Bytes;
use himalia_shim_protocol::RequestId;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, build};
use serde_json::Value;

use super::core::Core;
use super::event::{Answer, CommandError, Effect, Request};
use super::exit::Ordered;
use super::held::Held;
use super::ledger::{Ledger, RequestKind};
use super::life::Phase;
use super::synthetic::ENGINE_SESSION;

/// Questions on one channel that a kernel has at a time; a further one is refused. On shell also those count that nobody
/// waits for any more, as long as the kernel may still come to them.
pub(crate) const MAX_ASKED: usize = 8;
/// How long the reply may come after the idle below its question, microseconds: the two have sockets of their own.
pub(super) const REPLY_WAIT: u64 = 1_000_000;

/// A question to the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Shell or control.
    pub channel: Channel,
    /// Its `msg_type`.
    pub msg_type: &'static str,
    /// Its content.
    pub content: Value,
    /// How long the reply is waited for, microseconds.
    pub wait: u64,
}

/// What the kernel said. Neither part was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The content, JSON as the kernel wrote it.
    pub content: Bytes,
    /// The buffers.
    pub buffers: Vec<Bytes>,
}

#[derive(Debug)]
struct Asked {
    id: RequestId,
    channel: Channel,
    /// `None`: nobody waits any more.
    waiter: Option<u64>,
    /// Monotonic.
    due: u64,
    idle: bool,
}

/// All questions that are open.
#[derive(Debug, Default)]
pub(super) struct Questions {
    asked: Vec<Asked>,
    /// Outcomes that are not given yet.
    settled: Vec<(u64, Result<Answer, CommandError>)>,
}

impl Questions {
    /// Forgets those that nobody waits for and that the kernel will not come to.
    fn tidy(&mut self, ledger: &Ledger) {
        let blocks = |id| {
            ledger
                .get(id)
                .is_some_and(|entry| !entry.idle && !entry.overtaken)
        };
        self.asked
            .retain(|one| one.waiter.is_some() || (one.channel == Channel::Shell && blocks(one.id)));
    }

    fn count(&self, channel: Channel) -> usize {
        self.asked.iter().filter(|one| one.channel == channel).count()
    }

    fn settle(&mut self, id: RequestId, outcome: impl FnOnce() -> Result<Answer, CommandError>) {
        let Some(at) = self.asked.iter().position(|one| one.id == id) else {
            return;
        };
        if let Some(waiter) = self.asked.swap_remove(at).waiter {
            self.settled.push((waiter, outcome()));
        }
    }

    /// The reply to a question came.
    pub(super) fn replied(&mut self, id: RequestId, frame: &Frame) {
        self.settle(id, || {
            Ok(Answer::Replied(Box::new(Reply {
                content: frame.share(frame.content()),
                buffers: frame.buffers().map(|buffer| frame.share(buffer)).collect(),
            })))
        });
    }

    /// The kernel is idle below a question.
    pub(super) fn idle(&mut self, id: RequestId, mono: u64) {
        if let Some(one) = self.asked.iter_mut().find(|one| one.id == id) {
            one.idle = true;
            one.due = one.due.min(mono.saturating_add(REPLY_WAIT));
        }
    }

    /// A question will not get to the kernel.
    pub(super) fn failed(&mut self, id: RequestId, error: CommandError) {
        self.settle(id, || Err(error));
    }

    /// The process that had them is gone.
    pub(super) fn lost(&mut self) {
        for one in self.asked.drain(..) {
            if let Some(waiter) = one.waiter {
                self.settled.push((waiter, Err(CommandError::NotRunning)));
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        let waited = self.asked.iter().filter(|one| one.waiter.is_some());
        waited.map(|one| one.due).min()
    }

    /// Gives the outcomes to those who asked.
    pub(super) fn give(&mut self, out: &mut Vec<Effect>) {
        out.extend(
            self.settled
                .drain(..)
                .map(|(waiter, outcome)| Effect::Done(waiter, outcome)),
        );
    }
}

impl Core {
    /// Asks the kernel.
    pub(super) fn ask(&mut self, waiter: u64, question: &Question) -> Ordered {
        if self.life.phase != Phase::Running || self.life.exit.is_some() {
            return Err(CommandError::NotRunning);
        }
        if self.writes.failing() {
            return Err(CommandError::DiskFailing);
        }
        let channel = question.channel;
        self.questions.tidy(&self.ledger);
        let full = channel == Channel::Shell && self.ledger.is_full();
        if full || self.questions.count(channel) >= MAX_ASKED {
            return Err(CommandError::TooManyQuestions);
        }
        let parts = build::message(ENGINE_SESSION, question.msg_type, None, &question.content);
        let request = Request::ours(0, RequestKind::Question, Frame::new(channel, &parts));
        let Ok(id) = self.admit(Held { request, again: 0 }) else {
            return Err(CommandError::Refused(
                "the sandbox holds too much already".to_owned(),
            ));
        };
        self.questions.asked.push(Asked {
            id,
            channel,
            waiter: Some(waiter),
            due: self.now.mono.saturating_add(question.wait),
            idle: false,
        });
        Ok(false)
    }

    /// Answers those whose time is over.
    pub(super) fn limit_questions(&mut self) {
        let now = self.now.mono;
        let Questions { asked, settled } = &mut self.questions;
        for one in asked {
            if one.due > now {
                continue;
            }
            let Some(waiter) = one.waiter.take() else { continue };
            let error = if one.idle {
                self.ledger.remove(one.id);
                CommandError::NotKnown
            } else {
                CommandError::NoAnswer
            };
            settled.push((waiter, Err(error)));
        }
    }
}
