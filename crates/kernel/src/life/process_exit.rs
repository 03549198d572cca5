//! A kernel's process ends: what becomes of its requests and executions, and whether there is a next one.
//!
//! A death waits until the process's last output is here and its cause is known (`exited`, `complete_exit`). Then a crash
//! is followed by the next process (`process_crashed`), or there were too many and the kernel is dead (`kernel_died`): a
//! caller can start it again. What was asked for ends the kernel (`end_kernel`).

use himalia_shim_protocol::{Command as ShimCommand, KernelExited, Lane, Stop};

use super::phase::Phase;
use super::records::{ENDED_FROM_OUTSIDE, LifecycleRecord, StopBy};
use crate::core::Core;
use crate::event::Effect;
use crate::executions::progress::RESTART;

impl Core {
    /// A process has ended.
    pub(crate) fn exited(&mut self, exited: KernelExited, out: &mut Vec<Effect>) {
        if exited.incarnation < self.life.incarnation {
            return;
        }
        if self.life.exited(exited, self.now.mono) {
            out.push(Effect::CheckMemory);
        }
        self.after_data(Lane::Data, out);
    }

    /// Something of the data lane arrived: a death may have waited for it; so may interrupts for readiness.
    pub(crate) fn after_data(&mut self, lane: Lane, out: &mut Vec<Effect>) {
        if lane == Lane::Data {
            self.complete_exit_if_known(out);
        }
        if !self.life.waiters.is_empty() {
            self.interrupt_waiting(out);
        }
    }

    /// Notes if memory was the cause of a death. `false` also if that cannot be found out.
    pub(crate) fn memory_checked(&mut self, killed: bool, out: &mut Vec<Effect>) {
        if self.life.memory_checked(killed) {
            self.complete_exit_if_known(out);
        }
    }

    /// Waits no longer for the output of a process that ended, for the cause of its death, or for the end of a stop.
    pub(crate) fn expire_life(&mut self, out: &mut Vec<Effect>) {
        let now = self.now.mono;
        let due = |at: Option<u64>| at.is_some_and(|at| at <= now);
        if due(self.life.exit.as_ref().map(|exit| exit.deadline)) {
            self.complete_exit(out);
        }
        if due(self.life.exit.as_ref().and_then(|exit| exit.memory)) {
            self.memory_checked(false, out);
        }
        if due(self.life.stop_deadline) {
            self.end_kernel("killed_by_user", out);
        }
    }

    fn complete_exit_if_known(&mut self, out: &mut Vec<Effect>) {
        let received = self.outbox.received(Lane::Data);
        if self.life.exit_is_complete(received, self.stopwatch.is_stopping()) {
            self.complete_exit(out);
        }
    }

    /// A process has ended, if one has, and its output is complete, as far as it will come.
    pub(super) fn complete_exit(&mut self, out: &mut Vec<Effect>) {
        let Some(exit) = self.life.exit.take() else {
            return;
        };
        let (asked, stopped) = (exit.exited.asked, exit.stopped);
        self.stopwatch.reset();
        self.questions.lost();
        match self.life.phase {
            _ if !asked => self.executions_lost(&exit.cause()),
            Phase::Stopping => self.executions_lost(&self.life.cause()),
            _ if self.life.written_off => {}
            _ if stopped == Some(StopBy::Outside) => self.executions_lost(ENDED_FROM_OUTSIDE),
            _ => self.executions_lost(RESTART),
        }
        self.requests.process_ended(&self.outbox, self.now.mono);
        self.changed = true;
        match self.life.phase {
            Phase::Running | Phase::Starting if self.life.asked_to_end => {
                self.end_kernel("killed_by_user", out);
            }
            // What comes next is the end of the sandbox.
            Phase::Running | Phase::Starting if stopped == Some(StopBy::Outside) => {}
            // Asked for by an earlier gateway; what comes next says whether it was a restart.
            Phase::Running if asked => self.life.phase = Phase::Restarting,
            Phase::Running | Phase::Starting => self.process_crashed(exit.cause(), out),
            Phase::New | Phase::Restarting | Phase::Stopping | Phase::Dead | Phase::Ended => {}
        }
        if let Some(by) = stopped {
            self.stop_completed(by, out);
        }
    }

    /// Ends the kernel's process, as the rules for a crash say.
    pub(crate) fn end_process(&mut self, cause: String, out: &mut Vec<Effect>) {
        self.stopwatch.reset();
        self.process_crashed(cause, out);
        self.life.written_off = true;
        if self.life.phase == Phase::Dead {
            // It was not replaced, so it still runs.
            let ordered = self.order(&ShimCommand::Stop(Stop { grace_ms: 0 }), out);
            self.stopwatch.stopping(ordered.is_ok());
        }
    }

    /// Ends the kernel's process, whatever the rules for a crash say, and starts the next one.
    pub(crate) fn restart_process(&mut self, cause: &str, out: &mut Vec<Effect>) {
        self.stopwatch.reset();
        self.executions_lost(cause);
        self.life.written_off = true;
        self.restart_after(cause, out);
    }

    /// A process ended without having been asked to: starts the next one, or gives up.
    pub(super) fn process_crashed(&mut self, cause: String, out: &mut Vec<Effect>) {
        self.executions_lost(&cause);
        if self.life.count_crash(self.now.mono, self.rules.restart_limit) {
            self.restart_after(&cause, out);
        } else {
            self.kernel_died(cause, out);
        }
    }

    /// The kernel is dead but can be restarted by a caller while its sandbox lives.
    pub(super) fn kernel_died(&mut self, cause: String, out: &mut Vec<Effect>) {
        self.executions_lost(&cause);
        self.questions.lost();
        if self.life.phase != Phase::Dead {
            self.decide(&LifecycleRecord::Dead {
                cause: cause.clone(),
                over: false,
            });
            self.say("dead");
        }
        self.life.died(cause);
        self.requests.lose_accepted(&self.outbox, self.now.mono);
        self.changed = true;
        self.life.fail_waiters(out);
    }

    /// The kernel ends: no client can have it any more.
    pub(crate) fn end_kernel(&mut self, cause: &str, out: &mut Vec<Effect>) {
        if self.life.phase == Phase::Ended {
            return;
        }
        self.executions_lost(cause);
        self.questions.lost();
        self.decide(&LifecycleRecord::Dead {
            cause: cause.to_owned(),
            over: true,
        });
        if self.life.phase != Phase::Dead {
            self.say("dead");
        }
        self.life.ended(cause);
        self.requests.forget_waiting();
        self.changed = true;
        out.push(Effect::Ended { forget: true });
        self.life.fail_waiters(out);
    }

    pub(crate) fn stop_completed(&mut self, by: StopBy, out: &mut Vec<Effect>) {
        if self.life.stop_completed(by) {
            self.complete_exit_if_known(out);
            return;
        }
        let ours = self.stopwatch.stopped();
        match self.life.phase {
            Phase::Ended => {}
            Phase::Stopping => self.end_kernel(&self.life.cause(), out),
            // The shim starts nothing any more.
            _ if by == StopBy::Outside => {
                tracing::warn!("a sandbox was ended from outside");
                self.sandbox_gone(ENDED_FROM_OUTSIDE.to_owned(), out);
            }
            // An earlier gateway had asked for the end.
            Phase::Restarting | Phase::Running if !ours && !self.life.is_awaited() => {
                self.end_kernel("killed_by_user", out);
            }
            _ => {}
        }
    }
}
