//! The questions that are open: who waits, until when, and how many there may be.

use himalia_shim_protocol::RequestId;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, build};

use super::question::{Question, Reply};
use crate::event::{Answer, CommandError, Effect, Request};
use crate::requests::kind::RequestKind;
use crate::requests::state::Requests;
use crate::synthetic::ENGINE_SESSION;

/// Questions on one channel that a kernel has at a time; an additional one is refused. On shell also those count that no
/// caller waits for any more, as long as the kernel may still come to them.
pub(super) const MAX_OPEN: usize = 8;
/// Time within which the reply may come after the idle below its question, in microseconds: the two have sockets of their own.
pub(super) const REPLY_WAIT: u64 = 1_000_000;

#[derive(Debug)]
struct Open {
    id: RequestId,
    channel: Channel,
    /// `None`: no caller waits any more.
    waiter: Option<u64>,
    /// Monotonic.
    due: u64,
    idle: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: Vec<Open>,
    /// Outcomes that are not given yet.
    outcomes: Vec<(u64, Result<Answer, CommandError>)>,
}

/// The result of the end of waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExpiredWaits {
    /// There is room for requests.
    pub(super) made_room: bool,
    /// The kernel has said nothing to a question on its control channel.
    pub(super) on_control: bool,
}

/// A question as a message to the kernel.
pub(super) fn request(question: &Question) -> Request {
    let channel = question.channel;
    let parts = build::message(ENGINE_SESSION, question.msg_type, None, &question.content);
    Request::ours(0, RequestKind::Question, Frame::new(channel, &parts))
}

impl Questions {
    /// True if one more may be asked on the channel. Forgets those that no caller waits for and that the kernel will not come to.
    pub(super) fn has_room(&mut self, channel: Channel, requests: &Requests) -> bool {
        let blocks = |id| {
            requests
                .get(id)
                .is_some_and(|entry| !entry.idle && !entry.overtaken)
        };
        self.open
            .retain(|one| one.waiter.is_some() || (one.channel == Channel::Shell && blocks(one.id)));
        let full = channel == Channel::Shell && requests.is_full();
        !full && self.open.iter().filter(|one| one.channel == channel).count() < MAX_OPEN
    }

    /// One was asked, under this number.
    pub(super) fn add(&mut self, id: RequestId, waiter: u64, question: &Question, mono: u64) {
        self.open.push(Open {
            id,
            channel: question.channel,
            waiter: Some(waiter),
            due: mono.saturating_add(question.wait),
            idle: false,
        });
    }

    fn conclude(&mut self, id: RequestId, outcome: impl FnOnce() -> Result<Answer, CommandError>) {
        let Some(at) = self.open.iter().position(|one| one.id == id) else {
            return;
        };
        if let Some(waiter) = self.open.swap_remove(at).waiter {
            self.outcomes.push((waiter, outcome()));
        }
    }

    /// The reply to a question came.
    pub(crate) fn replied(&mut self, id: RequestId, frame: &Frame) {
        self.conclude(id, || {
            Ok(Answer::Replied(Box::new(Reply {
                content: frame.share(frame.content()),
                buffers: frame.buffers().map(|buffer| frame.share(buffer)).collect(),
            })))
        });
    }

    /// The kernel is idle below a question.
    pub(crate) fn idle(&mut self, id: RequestId, mono: u64) {
        if let Some(one) = self.open.iter_mut().find(|one| one.id == id) {
            one.idle = true;
            one.due = one.due.min(mono.saturating_add(REPLY_WAIT));
        }
    }

    /// A question will not get to the kernel.
    pub(crate) fn failed(&mut self, id: RequestId, error: CommandError) {
        self.conclude(id, || Err(error));
    }

    /// The process that had them is gone.
    pub(crate) fn lost(&mut self) {
        for one in self.open.drain(..) {
            if let Some(waiter) = one.waiter {
                self.outcomes.push((waiter, Err(CommandError::NotRunning)));
            }
        }
    }

    /// When the first one expires, monotonic microseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let waited = self.open.iter().filter(|one| one.waiter.is_some());
        waited.map(|one| one.due).min()
    }

    /// No reply is waited for any more where the time has expired.
    pub(super) fn expire(&mut self, mono: u64, requests: &mut Requests) -> ExpiredWaits {
        let mut expired = ExpiredWaits::default();
        for one in &mut self.open {
            if one.due > mono {
                continue;
            }
            let Some(waiter) = one.waiter.take() else { continue };
            let error = if one.idle {
                expired.made_room |= requests.forget(one.id);
                CommandError::NotKnown
            } else {
                expired.on_control |= one.channel == Channel::Control;
                CommandError::NoAnswer
            };
            self.outcomes.push((waiter, Err(error)));
        }
        expired
    }

    /// Gives the outcomes to those who asked.
    pub(crate) fn give(&mut self, out: &mut Vec<Effect>) {
        out.extend(
            self.outcomes
                .drain(..)
                .map(|(waiter, outcome)| Effect::Done(waiter, outcome)),
        );
    }
}
