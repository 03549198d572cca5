//! A native execution, and the message that asks the kernel for it.

use himalia_model::{OPERATOR, TraceContext};
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Parts, build};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::brief::{Brief, title};
use super::records::{End, Submission, owner_of};
use crate::event::Request;
use crate::requests::kind::RequestKind;
use crate::trace::{self, TracedRequest};

/// `header.session` of the requests. Unlike the engine's own, what they cause is shown to all clients.
pub(super) const EXECUTION_SESSION: &str = "himalia-execution";

/// An execution that waits, or was sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct QueuedExecution {
    pub(super) seq: u64,
    pub(super) at_micros: u64,
    pub(super) submission: Submission,
    /// Times that it was sent.
    pub(super) attempts: u32,
    /// Place in the queue.
    pub(super) turn: u64,
    /// Hash of its code.
    pub(super) code: u64,
    /// Hash of all that is asked, where there is a key.
    pub(super) print: u64,
}

fn digest(bytes: &[u8]) -> u64 {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    u64::from_le_bytes(std::array::from_fn(|at| digest[at]))
}

impl Submission {
    /// Fingerprint of the work: without the client's name, the trace and the wait.
    pub(super) fn fingerprint(&self) -> u64 {
        let asked = Self {
            text_chars: 0,
            client: None,
            trace: None,
            ..self.clone()
        };
        digest(&serde_json::to_vec(&asked).unwrap_or_default())
    }

    /// Between whom the kernel's time is shared: the callers, and those clients of the operator that name themselves. What a
    /// tenant's client calls itself gives its caller no more.
    pub(super) fn party(&self) -> (&str, Option<&str>) {
        let client = self.client.as_deref().filter(|_| self.caller == OPERATOR);
        (&self.caller, client)
    }
}

impl QueuedExecution {
    pub(super) fn new(seq: u64, at_micros: u64, submission: Submission, turn: u64) -> Self {
        let code = digest(submission.language.cell(&submission.code).as_bytes());
        let print = submission.key.as_ref().map_or(0, |_| submission.fingerprint());
        Self {
            seq,
            at_micros,
            submission,
            attempts: 0,
            turn,
            code,
            print,
        }
    }

    pub(super) fn brief(&self, end: Option<End>, running: bool, incarnation: u32) -> Brief {
        let submission = &self.submission;
        Brief {
            seq: self.seq,
            at_micros: self.at_micros,
            end,
            running,
            title: title(&submission.code),
            language: submission.language,
            incarnation,
            caller: submission.caller.clone(),
            client: submission.client.clone(),
            failed: false,
            code: self.code,
            key: submission.key.clone().map(|key| (key, self.print)),
            metadata: submission.metadata.clone(),
        }
    }

    /// As a message to the kernel.
    pub(super) fn request(&self) -> Request {
        let submission = &self.submission;
        let content = json!({
            "code": submission.language.cell(&submission.code),
            "silent": false,
            "store_history": submission.store_history,
            "user_expressions": {},
            "allow_stdin": submission.allow_stdin,
            "stop_on_error": false,
        });
        let mut parts = build::message(EXECUTION_SESSION, "execute_request", None, &content);
        let caller = submission.trace.filter(TraceContext::is_sampled);
        let trace = caller.map(|caller| {
            Box::new(TracedRequest::of_execution(
                trace::of_execution(caller, self.seq),
                self.attempts,
            ))
        });
        let mut metadata = Map::new();
        if let Some(traced) = &trace {
            metadata.insert("traceparent".to_owned(), traced.kernel().to_string().into());
        }
        if !submission.env.is_empty() || submission.cwd.is_some() {
            // As `himalia_kernel` reads it (`scope.py`).
            let scope = json!({ "env": submission.env, "cwd": submission.cwd });
            metadata.insert("himalia".to_owned(), scope);
        }
        if !metadata.is_empty() {
            parts.metadata = Value::Object(metadata).to_string().into();
        }
        Request {
            trace,
            ..message(self.seq, Channel::Shell, RequestKind::Execute, &parts)
        }
    }
}

/// A message to the kernel on behalf of an execution.
pub(super) fn message(seq: u64, channel: Channel, kind: RequestKind, parts: &Parts) -> Request {
    Request::ours(owner_of(seq), kind, Frame::new(channel, parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_a_longer_answer_is_the_same_request() {
        let submission = |code: &str, text_chars: u64| -> Submission {
            let asked = json!({"code": code, "timeout_ms": null, "on_timeout": "interrupt", "text_chars": text_chars,
                "allow_stdin": false, "store_history": true, "expect_incarnation": null, "key": "k", "caller": "ada"});
            serde_json::from_value(asked).unwrap()
        };
        let (short, long) = (submission("x", 10), submission("x", 1000));
        assert_eq!(long.fingerprint(), short.fingerprint());
        assert_ne!(submission("y", 10).fingerprint(), short.fingerprint());
    }
}
