//! Native executions: one at a time to the kernel, to their end, whatever that is.
//!
//! - [`queue`]: those that wait, the one that was sent, the latest that ended; who may submit, and whose turn it is;
//! - [`progress`]: from the submission to the end;
//! - [`control`]: what is done to the one that runs: its time, interrupts, answers;
//! - [`records`]: what the log has of them, and `recovery` reads it back;
//! - [`names`]: which variables are in a process, so that its end can say what was lost.
//!
//! [`queue::Executions`] knows nothing of requests, links and processes. What is here connects it with them.

pub(super) mod brief;
pub(super) mod control;
mod current;
pub(super) mod names;
pub(super) mod observed;
pub(super) mod progress;
pub(super) mod queue;
mod queued;
pub(super) mod records;
mod recovery;

#[cfg(test)]
mod caller_tests;
#[cfg(test)]
mod end_tests;
#[cfg(test)]
mod tests;

use himalia_shim_protocol::{Command as ShimCommand, RefusalKind};
use himalia_wire::Channel;

use super::core::Core;
use super::event::{Answer, CommandError, CommandResult, Effect};
use super::life::Phase;
use super::log::Log;
use super::time_limit::TIMED_OUT;
use control::DueAction;
use progress::{Ends, RESTART, VERDICT_WAIT};
use queue::{Executions, KeyLookup};
use queued::QueuedExecution;
use records::{End, ReplacedExecution, StopReason, Submission};

/// Time that the first execution waits for a kernel that does not answer, in microseconds; then it is sent all the same.
const READY_WAIT: u64 = 60_000_000;

impl Core {
    /// The executions, and where their ends are written.
    fn executions_and_ends(&mut self) -> (&mut Executions, Ends<'_>) {
        let log = Log::new(&mut self.writes, self.settings.kernel, self.life.incarnation());
        let names = &self.names;
        let wall = self.now.wall;
        (&mut self.executions, Ends { log, names, wall })
    }

    /// Accepts an execution, or says why not. Answered when it is in the journal.
    pub(super) fn submit(
        &mut self,
        waiter: u64,
        submission: Submission,
        out: &mut Vec<Effect>,
    ) -> CommandResult {
        match self.executions.known(&submission) {
            KeyLookup::Nothing => {}
            KeyLookup::Other => return Err(CommandError::KeyReused),
            KeyLookup::Same(seq) => {
                let answer = Answer::Submitted { seq, repeated: true };
                out.push(Effect::Done(waiter, Ok(answer)));
                return Ok(false);
            }
            KeyLookup::Writing(at) => {
                self.executions.join(at, waiter);
                return Ok(false);
            }
        }
        self.may_submit(&submission)?;
        let (executions, mut ends) = self.executions_and_ends();
        executions.submit(waiter, submission, &mut ends.log);
        Ok(false)
    }

    fn may_submit(&self, submission: &Submission) -> Result<(), CommandError> {
        match self.life.phase() {
            Phase::Ended | Phase::Stopping => return Err(CommandError::NotRunning),
            Phase::Dead if !self.rules.revive => return Err(CommandError::KernelDead(self.life.cause())),
            _ => {}
        }
        // The process that it would run in.
        let now = self.life.incarnation() + u32::from(!self.life.runs());
        if let Some(expected) = submission.expect_incarnation.filter(|expected| *expected != now) {
            return Err(CommandError::Incarnation { expected, now });
        }
        let failures = self.executions.failures();
        if submission.max_failures.is_some_and(|most| failures >= most) {
            return Err(CommandError::FailureLimit(failures));
        }
        if self.writes.failing() {
            return Err(CommandError::DiskFailing);
        }
        if !self.executions.has_room(submission) {
            return Err(CommandError::QueueFull(self.executions.ahead()));
        }
        if self.life.phase() == Phase::Dead && self.life.sandbox_is_gone() {
            return Err(CommandError::SandboxLost(self.life.cause()));
        }
        Ok(())
    }

    /// Sends the next execution if it is its turn, and starts the kernel for it if it is dead and may be.
    pub(super) fn next_execution(&mut self, out: &mut Vec<Effect>) {
        while self.executions.wants_to_send() {
            if self.life.phase() == Phase::Dead {
                self.revive(out);
                if self.life.phase() == Phase::Dead {
                    // Accepted in the moment of its death.
                    self.executions_lost(&self.life.cause());
                }
                return;
            }
            if !self.reaches_process() || self.ready_wait().is_some() {
                return;
            }
            let Some(queued) = self.executions.take_next() else {
                return;
            };
            let expected = queued.submission.expect_incarnation;
            if expected.is_some_and(|expected| expected != self.life.incarnation()) {
                let cause = Some(self.reason_or_restart());
                let (executions, mut ends) = self.executions_and_ends();
                executions.end(&queued, End::KernelDied, cause, false, &mut ends);
                continue;
            }
            self.send_execution(queued);
        }
    }

    fn send_execution(&mut self, queued: QueuedExecution) {
        let before = self.life.replaced(self.executions.last_incarnation());
        let replaced = before.map(|before| ReplacedExecution {
            variables_lost: self.names.of(before.incarnation),
            ..before
        });
        let incarnation = self.life.incarnation();
        let (executions, mut ends) = self.executions_and_ends();
        let request = executions.send(queued, incarnation, replaced, &mut ends);
        self.request(request);
    }

    /// True if there is a process that an execution could be sent to now.
    fn reaches_process(&self) -> bool {
        self.life.runs() && self.outbox.greeted() && !self.writes.failing()
    }

    /// Until when the next execution waits for the kernel to be ready.
    fn ready_wait(&self) -> Option<u64> {
        let until = self.life.since().saturating_add(READY_WAIT);
        (!self.readiness.is_ready() && self.now.mono < until).then_some(until)
    }

    /// When something is due that has to do with executions.
    pub(super) fn execution_deadline(&self) -> Option<u64> {
        let waits = self.executions.wants_to_send() && self.reaches_process();
        let ready = self.ready_wait().filter(|_| waits);
        [self.executions.deadline(), ready].into_iter().flatten().min()
    }

    /// It was answered in the kernel's place, and did not run.
    pub(super) fn native_not_taken(&mut self, seq: u64) {
        let (executions, mut ends) = self.executions_and_ends();
        executions.end_unrun(seq, End::Error, None, &mut ends);
    }

    /// Ends the one that is done, once the record of its last message is on its way.
    pub(super) fn finish_execution(&mut self) {
        let restarts = self.life.phase() == Phase::Restarting;
        let (executions, mut ends) = self.executions_and_ends();
        executions.finish(restarts, &mut ends);
    }

    /// The process has ended, and with it all executions that have not, unless it is not known yet whether it had them.
    pub(super) fn executions_lost(&mut self, cause: &str) {
        let (on_its_way, mono) = (self.execution_is_on_its_way(), self.now.mono);
        let unknown = on_its_way && !self.life.sandbox_is_gone();
        let (executions, mut ends) = self.executions_and_ends();
        if let Some(owner) = executions.lost(cause, unknown, mono, &mut ends) {
            self.requests.forget_waiting_of(owner);
        }
    }

    fn execution_is_on_its_way(&self) -> bool {
        let owner = self.executions.current_owner();
        owner.is_some_and(|owner| self.requests.is_on_its_way(owner, &self.outbox))
    }

    /// Applies the time limit to the execution that was sent.
    pub(super) fn limit_current(&mut self, out: &mut Vec<Effect>) {
        let mono = self.now.mono;
        let (executions, mut ends) = self.executions_and_ends();
        match executions.limit(mono, &mut ends.log).filter(|_| self.life.runs()) {
            // Refused when too much waits for the shim: the next one comes all the same.
            Some(DueAction::Interrupt) => drop(self.order(&ShimCommand::Interrupt, out)),
            Some(DueAction::Restart) => self.restart_process(TIMED_OUT, out),
            Some(DueAction::Kill) => self.end_process(TIMED_OUT.to_owned(), out),
            None => {}
        }
        if !self.executions.is_undecided(mono) {
            return;
        }
        if self.execution_is_on_its_way() {
            self.executions.decide_at(mono.saturating_add(VERDICT_WAIT));
            return;
        }
        let cause = self.reason_or_restart();
        let (executions, mut ends) = self.executions_and_ends();
        executions.give_up(cause, &mut ends);
    }

    fn reason_or_restart(&self) -> String {
        self.life.reason().unwrap_or(RESTART).to_owned()
    }

    /// The shim took the request and will not do it.
    pub(super) fn execution_refused(&mut self, seq: u64, kind: RefusalKind, reason: &str) {
        let Some(incarnation) = self.executions.sent_to(seq) else {
            return;
        };
        let lost = incarnation != self.life.incarnation() || self.life.phase() != Phase::Running;
        let (status, cause) = match kind {
            RefusalKind::NotRunning if lost => (End::KernelDied, self.life.cause()),
            RefusalKind::Never => (End::Error, reason.to_owned()),
            RefusalKind::Full | RefusalKind::NotRunning => {
                self.requests.pause_after(kind, Channel::Shell, self.now.mono);
                return self.executions.send_again();
            }
        };
        let (executions, mut ends) = self.executions_and_ends();
        executions.end_unrun(seq, status, Some(cause), &mut ends);
    }

    /// Stops an execution. `false` if it has ended.
    pub(super) fn stop_execution(&mut self, seq: u64, out: &mut Vec<Effect>) -> bool {
        let (executions, mut ends) = self.executions_and_ends();
        if executions.cancel(seq, &mut ends) {
            return true;
        }
        let is_current = self.executions.sent_to(seq).is_some();
        if is_current {
            self.begin_stop(StopReason::Interrupt, true);
            self.limit_current(out);
        }
        is_current
    }

    /// The kernel is interrupted, for whatever reason: what is stopped is distinguished from what fails. With `repeat` it is
    /// interrupted again until it ends.
    pub(super) fn begin_stop(&mut self, reason: StopReason, repeat: bool) {
        let mono = self.now.mono;
        let (executions, mut ends) = self.executions_and_ends();
        executions.begin_stop(reason, repeat, mono, &mut ends.log);
    }

    /// All records are read: times are monotonic from here on, and what an end cut short is brought to its end.
    pub(super) fn resume_executions(&mut self) {
        self.executions.shift(self.now.wall, self.now.mono);
        self.finish_execution();
        let Some(owner) = self.executions.current_owner() else {
            return;
        };
        let open = self.requests.is_open(owner);
        if !open && !self.requests.is_lost(owner) {
            // Its request was refused, or never written: it did not run.
            self.executions.send_again();
        } else if !open {
            // Its process has ended, and nothing was written of its end.
            self.executions.decide_at(self.now.mono);
        }
    }
}
