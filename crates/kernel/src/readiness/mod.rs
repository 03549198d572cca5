//! Checks that a kernel process can be used, and that it answers at all.
//!
//! It can be used when it has answered a `kernel_info_request`, and one of its iopub messages has arrived, so that
//! nothing published later can be missed (JEP 65, or the older nudge). One that is busy still answers heartbeats: its
//! heartbeat has a thread of its own.
//!
//! [`state::Readiness`] knows what a process has answered; what is here asks it again, and writes down what follows.

pub(super) mod state;
#[cfg(test)]
mod tests;

use super::core::Core;
use super::event::Effect;
use super::life::Phase;

impl Core {
    /// Asks the process again whether it is there.
    pub(super) fn probe_again(&mut self, _: &mut Vec<Effect>) {
        if self.probe_deadline().is_some_and(|at| at <= self.now.mono) {
            self.probe();
        }
    }

    /// When that is due, monotonic microseconds.
    pub(super) fn probe_deadline(&self) -> Option<u64> {
        let probes = self.life.phase() == Phase::Running && self.outbox.greeted();
        self.readiness.deadline().filter(|_| probes)
    }

    /// Notes, and puts into the log, that the kernel has stopped answering, or answers again.
    pub(super) fn judge_readiness(&mut self) {
        let runs = self.life.runs();
        let Some(record) = self.readiness.judge(runs, self.now.wall) else {
            return;
        };
        self.changed = true;
        // The end of a process says enough.
        if runs {
            self.decide(&record);
        }
    }
}
