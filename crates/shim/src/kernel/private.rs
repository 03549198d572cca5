use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::time::Duration;

use himalia_wire::{Channel, Parts, header};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::random::random_u64;

/// Own requests of one kernel that are not answered.
const WAITING_MAX: usize = 64;
/// Most bytes of an answer that is looked at.
const ANSWER_BYTES: usize = 256 * 1024;
/// After the last answer, for what a kernel says about it.
const LINGER: Duration = Duration::from_secs(5);

/// The shim's own conversation with a kernel, of which the gateway sees nothing: its requests have a wire session of
/// their own, and what answers them is taken out.
#[derive(Debug)]
pub(super) struct Private {
    session: String,
    waiting: RefCell<HashMap<String, WaitingReply>>,
    linger: Cell<Option<Instant>>,
}

#[derive(Debug)]
struct WaitingReply {
    answer: oneshot::Sender<Value>,
    /// Reply so far; complete when no part is missing.
    reply: Option<Value>,
    idle: bool,
}

impl Private {
    pub(super) fn new() -> io::Result<Self> {
        // Random, so that no client's session is taken for it.
        let (high, low) = (random_u64()?, random_u64()?);
        Ok(Self {
            session: format!("himalia-shim-{high:016x}{low:016x}"),
            waiting: RefCell::default(),
            linger: Cell::default(),
        })
    }

    /// The wire session of the requests.
    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// The session to look for in what the kernel says; `None` while there is nothing to look for.
    pub(super) fn expected(&self) -> Option<&str> {
        let lingers = self.linger.get().is_some_and(|until| Instant::now() < until);
        (lingers || !self.waiting.borrow().is_empty()).then_some(&self.session)
    }

    /// Waits for the reply to a request that is about to be sent, with `idle` also for the kernel to say that it is
    /// done. `None` when too many are unanswered.
    pub(super) fn expect(&self, request: &Parts, idle: bool) -> Option<oneshot::Receiver<Value>> {
        let id = header::peek(&request.header).ok()?.msg_id.into_owned();
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= WAITING_MAX {
            return None;
        }
        let (answer, receiver) = oneshot::channel();
        let entry = WaitingReply {
            answer,
            reply: None,
            idle: !idle,
        };
        waiting.insert(id, entry);
        Some(receiver)
    }

    /// Takes in what the kernel says to us. Gives the content of a reply that no task waits for any more.
    pub(super) fn take(&self, channel: Channel, parts: &Parts) -> Option<Value> {
        self.linger.set(Some(Instant::now() + LINGER));
        let id = header::peek_parent(&parts.parent_header)
            .ok()??
            .msg_id
            .into_owned();
        let mut waiting = self.waiting.borrow_mut();
        let entry = waiting.get_mut(&id)?;
        match channel {
            Channel::Shell | Channel::Control if parts.content.len() <= ANSWER_BYTES => {
                entry.reply = Some(serde_json::from_slice(&parts.content).unwrap_or_default());
            }
            Channel::Shell | Channel::Control => entry.reply = Some(Value::Null),
            Channel::Iopub => {
                entry.idle |= header::execution_state(&parts.content).as_deref() == Some("idle");
            }
            Channel::Stdin => {}
        }
        if entry.reply.is_none() || !entry.idle {
            return None;
        }
        let WaitingReply { answer, reply, .. } = waiting.remove(&id)?;
        answer.send(reply?).err()
    }

    /// The process is gone: nothing will be answered.
    pub(super) fn clear(&self) {
        self.waiting.borrow_mut().clear();
        self.linger.set(None);
    }
}

/// Does a message of the kernel answer one of `session`?
pub(super) fn is_for(session: &str, parts: &Parts) -> bool {
    header::peek_parent(&parts.parent_header)
        .ok()
        .flatten()
        .is_some_and(|parent| parent.session == session)
}

#[cfg(test)]
mod tests {
    use super::*;
    use himalia_wire::build;
    use serde_json::json;

    fn answer(request: &Parts, msg_type: &str, content: &Value) -> Parts {
        build::message("kernel", msg_type, Some(&request.header), content)
    }

    #[tokio::test]
    async fn a_reply_reaches_its_request_and_no_other() {
        let private = Private::new().unwrap();
        assert_eq!(private.expected(), None);
        let request = build::message(private.session(), "x_request", None, &json!({}));
        let foreign = build::message("client", "x_request", None, &json!({}));
        let mut reply = private.expect(&request, true).unwrap();
        assert_eq!(private.expected(), Some(private.session()));
        let done = answer(&request, "x_reply", &json!({"n": 1}));
        assert!(is_for(private.session(), &done));
        assert!(!is_for(
            private.session(),
            &answer(&foreign, "x_reply", &json!({}))
        ));
        private.take(Channel::Control, &done);
        assert!(reply.try_recv().is_err(), "not idle yet");
        let busy = answer(&request, "status", &json!({"execution_state": "busy"}));
        private.take(Channel::Iopub, &busy);
        let idle = answer(&request, "status", &json!({"execution_state": "idle"}));
        private.take(Channel::Iopub, &idle);
        assert_eq!(reply.await.unwrap()["n"], 1);
        // What comes a little later is still ours.
        assert!(private.expected().is_some());
        private.linger.set(Some(Instant::now()));
        assert_eq!(private.expected(), None);
    }

    #[tokio::test]
    async fn a_reply_that_comes_too_late_is_given_back_and_the_unanswered_are_bounded() {
        let private = Private::new().unwrap();
        let request = build::message(private.session(), "x_request", None, &json!({}));
        drop(private.expect(&request, false).unwrap());
        let done = answer(&request, "x_reply", &json!({"pid": 7}));
        assert_eq!(private.take(Channel::Control, &done).unwrap()["pid"], 7);
        let requests = std::iter::repeat_with(|| build::message(private.session(), "x", None, &json!({})));
        let kept: Vec<_> = requests
            .take(100)
            .map_while(|request| private.expect(&request, false))
            .collect();
        assert_eq!(kept.len(), WAITING_MAX);
        private.clear();
        for mut reply in kept {
            assert!(matches!(
                reply.try_recv(),
                Err(oneshot::error::TryRecvError::Closed)
            ));
        }
    }
}
