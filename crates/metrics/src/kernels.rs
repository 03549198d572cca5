//! Kernels and their executions.

use std::time::Duration;

use crate::describe::{Catalog, Counter, Counters, Histogram};

/// Executions, messages and losses of all kernels.
#[derive(Debug)]
pub struct Kernels {
    executions: Counters<1>,
    queued: Histogram,
    ran: Histogram,
    /// Bytes of messages to kernels.
    pub bytes_in: Counter,
    /// Bytes of messages of kernels.
    pub bytes_out: Counter,
    /// Messages that a sandbox had to drop, as marks in logs.
    pub dropped: Counter,
    /// Times that a reader of a log found that records were not kept any more.
    pub missed: Counter,
    /// Processes of kernels that were killed because they ran out of memory.
    pub out_of_memory: Counter,
}

/// Ends of executions.
const OUTCOMES: [[&str; 1]; 6] = [
    ["ok"],
    ["error"],
    ["timeout"],
    ["interrupted"],
    ["kernel_died"],
    ["oom_killed"],
];

impl Kernels {
    pub(crate) fn new(catalog: &mut Catalog) -> Self {
        let executions = catalog.counters(
            "himalia_executions_total",
            "Native executions that have ended, by outcome",
            ["outcome"],
            &OUTCOMES,
        );
        let queued = catalog.long_histogram(
            "himalia_execution_queue_seconds",
            "From the submission of a native execution to its first sending to the kernel",
        );
        let ran = catalog.long_histogram(
            "himalia_execution_seconds",
            "From the sending of a native execution to its end",
        );
        let bytes = catalog.counters(
            "himalia_kernel_bytes_total",
            "Bytes of messages of kernels, by direction: in (to the kernel), out",
            ["direction"],
            &[["in"], ["out"]],
        );
        let gaps = catalog.counters(
            "himalia_gaps_total",
            "Losses of output, by kind: dropped (by a sandbox), missed (by a reader, because the log was cut)",
            ["kind"],
            &[["dropped"], ["missed"]],
        );
        Self {
            executions,
            queued,
            ran,
            bytes_in: bytes.of(["in"]),
            bytes_out: bytes.of(["out"]),
            dropped: gaps.of(["dropped"]),
            missed: gaps.of(["missed"]),
            out_of_memory: catalog.counter(
                "himalia_kernel_out_of_memory_total",
                "Processes of kernels that were killed because they ran out of memory",
            ),
        }
    }

    /// An execution was sent to its kernel for the first time, so long after it was submitted.
    pub fn execution_sent(&self, waited: Duration) {
        self.queued.observe(waited);
    }

    /// An execution has ended with this outcome, so long after it was sent; `None` if it was not, or by an earlier gateway.
    pub fn execution_ended(&self, outcome: &'static str, took: Option<Duration>) {
        self.executions.inc([outcome]);
        if let Some(took) = took {
            self.ran.observe(took);
        }
    }
}
