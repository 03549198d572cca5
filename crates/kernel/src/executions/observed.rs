//! Observations of executions, for metrics.

use std::time::Duration;

use himalia_metrics::Kernels;
use himalia_model::KernelId;
use himalia_traces::Traces;

use super::records::End;
use crate::trace::Step;

/// Events that wait to be counted; more are not counted. A round has a handful.
const MAX_OBSERVED: usize = 1024;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Observation {
    /// One was sent for the first time, so many microseconds after its submission.
    Sent { waited: u64 },
    /// One has ended, so many microseconds after it was sent, if this gateway sent it, and of this caller.
    Ended {
        status: End,
        took: Option<u64>,
        caller: String,
    },
    /// A span of an execution that is traced.
    Step(Step),
}

impl Observation {
    /// Counts it, or records it as a span of this kernel.
    pub(crate) fn tell(self, metrics: &Kernels, traces: &Traces, kernel: KernelId) {
        match self {
            Self::Step(step) => traces.record(step.record(kernel)),
            Self::Sent { waited } => metrics.execution_sent(Duration::from_micros(waited)),
            Self::Ended { status, took, .. } => {
                metrics.execution_ended(status.as_str(), took.map(Duration::from_micros));
            }
        }
    }

    /// Adds it to those that wait.
    pub(crate) fn push_to(self, waiting: &mut Vec<Self>) {
        if waiting.len() < MAX_OBSERVED {
            waiting.push(self);
        }
    }
}
