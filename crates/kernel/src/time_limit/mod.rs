//! The limit on the time of every execution, native or of a client: it is interrupted twice, then its process is ended. An execution in
//! a subshell is not interrupted, since that would interrupt the main shell. Its process ends at the same time.

pub(super) mod stopwatch;
#[cfg(test)]
pub(super) mod tests;

use himalia_shim_protocol::{Command as ShimCommand, RequestId};

use super::core::Core;
use super::event::Effect;
use super::executions::records::{StopReason, execution_of};
use super::life::records::LifecycleRecord;
use super::rules::Rules;
use stopwatch::Step;

/// The cause of death of a process that did not stop in time.
pub const TIMED_OUT: &str = "execution_timeout";

impl Core {
    /// Sets the rules from now on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
        self.stopwatch.limit(rules.execution, self.now);
        self.disk.set(rules.watch_disk, self.now.mono);
    }

    /// The kernel works on an execution now. Time counts from here, not from when the request was sent: it may have waited
    /// behind others.
    pub(super) fn execution_began(&mut self, id: RequestId, subshell: Option<&str>) {
        self.stopwatch.began(id, self.now.wall, subshell);
        self.stopwatch.limit_new(self.rules.execution, self.now);
    }

    /// When the limit is exceeded, monotonic microseconds. Without a connection the end of the execution may not be known.
    pub(super) fn time_limit_deadline(&self) -> Option<u64> {
        self.stopwatch.deadline().filter(|_| self.outbox.greeted())
    }

    /// Does something about an execution that takes too long.
    pub(super) fn limit_time(&mut self, out: &mut Vec<Effect>) {
        let now = self.now.mono;
        if self.time_limit_deadline().is_none_or(|due| due > now) {
            return;
        }
        if !self.life.runs() {
            self.stopwatch.reset();
            return;
        }
        let Some((id, step)) = self.stopwatch.next_step(now) else {
            return;
        };
        let name = match step {
            Step::Interrupt => "interrupt",
            Step::Kill => "kill",
        };
        self.decide(&LifecycleRecord::ExecutionLimit {
            step: name.to_owned(),
        });
        let entry = self.requests.get(id);
        if entry.is_some_and(|entry| execution_of(entry.owner).is_some()) {
            self.begin_stop(StopReason::Timeout, false);
        }
        match step {
            // Refused when too much waits for the shim: the next step comes all the same.
            Step::Interrupt => drop(self.order(&ShimCommand::Interrupt, out)),
            Step::Kill => self.end_process(TIMED_OUT.to_owned(), out),
        }
    }
}
