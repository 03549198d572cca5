//! A call that is in the log.

use std::sync::Arc;

use himalia_kernel::{Callee, Command, Handle, ToolCallBegin, ToolCallEnd, ToolOutcome};
use tokio::time::Instant;

/// A call that is in the log and has no end there yet. One that is dropped without an end has an unknown outcome.
pub(crate) struct BegunCall {
    handle: Arc<Handle>,
    /// Number in the log.
    pub(crate) call: u64,
    callee: Callee,
    pub(crate) tool: String,
    began: Instant,
    ended: bool,
}

/// Reason why a call has no reply: a code, and a line.
pub(crate) type Reason<'a> = (&'a str, &'a str);

impl BegunCall {
    /// The log has its begin.
    pub(crate) fn new(handle: &Arc<Handle>, call: u64, what: &ToolCallBegin) -> Self {
        Self {
            handle: Arc::clone(handle),
            call,
            callee: what.callee,
            tool: what.tool.clone(),
            began: Instant::now(),
            ended: false,
        }
    }

    /// The record of an end.
    pub(crate) fn end(&self, outcome: ToolOutcome, reason: Option<Reason<'_>>) -> ToolCallEnd {
        ToolCallEnd {
            callee: self.callee,
            tool: self.tool.clone(),
            outcome,
            code: reason.map(|(code, _)| code.to_owned()),
            reason: reason.map(|(_, text)| text.to_owned()),
            reply: None,
            reply_bytes: 0,
            duration_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            model_use: None,
        }
    }

    /// The record of the end of a call whose caller has gone.
    pub(crate) fn left(&self) -> ToolCallEnd {
        self.end(
            ToolOutcome::Unknown,
            Some((
                "outcome_unknown",
                "the caller has gone before the reply; whether it was done is unknown",
            )),
        )
    }

    /// Writes its end into the log.
    pub(crate) async fn write(mut self, end: ToolCallEnd) {
        self.ended = true;
        // A kernel that has ended has no log to write to.
        let _ = self
            .handle
            .order(Command::EndToolCall(self.call, Box::new(end)))
            .await;
    }
}

impl Drop for BegunCall {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let end = self.left();
        let (handle, call) = (Arc::clone(&self.handle), self.call);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { handle.order(Command::EndToolCall(call, Box::new(end))).await });
        }
    }
}
