//! Events of an execution, in order.

use himalia_kernel::StopReason;
use himalia_outcome::{Failure, Input, Output};
use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

use crate::{ExecutionKernel, ExecutionResult, PromptInfo, StuckExecution};

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct ExecutionEvent {
    /// Number of the record in the kernel's log; of text that came in several, the last one.
    pub seq: u64,
    /// When it was stored, UTC.
    pub at: OffsetDateTime,
    pub kind: ExecutionEventKind,
}

/// Kinds of events. Serialised, the word is the member `event`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ExecutionEventKind {
    /// It waits; so many executions have to end before. Comes again when that changes.
    Queued {
        /// Number of executions that have to end before.
        position: u32,
    },
    /// The kernel begins with it.
    Started(ExecutionKernel),
    /// Text on standard output, as it was printed: control characters included.
    Stdout {
        /// The text.
        text: String,
    },
    /// Text on standard error, as it was printed.
    Stderr {
        /// The text.
        text: String,
    },
    /// A display.
    Display(Output),
    /// The value of the code's last expression.
    Result(Output),
    /// Another content for a display.
    UpdateDisplay(Output),
    /// All output so far is cleared: now, or when the next output comes.
    ClearOutput {
        /// When the next output comes.
        wait: bool,
    },
    /// It waits for input.
    InputRequest(Input),
    /// A person is asked something on its behalf, or that has ended.
    Prompt(Box<PromptInfo>),
    /// It raised, or a script failed. Not `error`: a browser gives an event of that name to the handler of connection errors.
    #[serde(rename = "exception")]
    Error(Failure),
    /// It is being interrupted.
    Stopping {
        /// `interrupt` or `timeout`.
        reason: StopReason,
    },
    /// The timeout has passed, and the execution continues.
    Detached,
    /// It, or the execution that it waits for, ignores interrupts.
    Stuck(StuckExecution),
    /// Something is missing here.
    Gap {
        /// One line.
        text: String,
    },
    /// It has ended; the last event.
    Done {
        /// Result of the execution.
        result: Box<ExecutionResult>,
    },
}

impl ExecutionEvent {
    /// Adds `next` to this one if both are text of one stream; otherwise gives it back.
    pub(super) fn join(&mut self, next: Self) -> Option<Self> {
        let Self { seq, at, kind } = next;
        let kind = self.kind.join(kind);
        if kind.is_none() {
            (self.seq, self.at) = (seq, at);
        }
        kind.map(|kind| Self { seq, at, kind })
    }
}

impl ExecutionEventKind {
    /// The word of the event.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Queued { .. } => "queued",
            Self::Started(_) => "started",
            Self::Stdout { .. } => "stdout",
            Self::Stderr { .. } => "stderr",
            Self::Display(_) => "display",
            Self::Result(_) => "result",
            Self::UpdateDisplay(_) => "update_display",
            Self::ClearOutput { .. } => "clear_output",
            Self::InputRequest(_) => "input_request",
            Self::Prompt(_) => "prompt",
            Self::Error(_) => "exception",
            Self::Stopping { .. } => "stopping",
            Self::Detached => "detached",
            Self::Stuck(_) => "stuck",
            Self::Gap { .. } => "gap",
            Self::Done { .. } => "done",
        }
    }

    fn join(&mut self, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Stdout { text }, Self::Stdout { text: more })
            | (Self::Stderr { text }, Self::Stderr { text: more }) => {
                text.push_str(&more);
                None
            }
            (_, next) => Some(next),
        }
    }
}
