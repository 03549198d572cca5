//! A caller starts, interrupts, restarts, revives or stops a kernel.

use himalia_shim_protocol::{Command as ShimCommand, KernelSpec, Start, Stop};

use super::phase::Phase;
use super::waiters::WaitCondition;
use crate::core::Core;
use crate::event::{Answer, CommandError, CommandResult, Effect};
use crate::executions::records::StopReason;

/// Beyond its grace, how long a stop may take before the sandbox is killed as a whole, microseconds.
const STOP_SLACK: u64 = 5_000_000;

impl Core {
    /// Starts the first process, or the first one in a new sandbox.
    pub(crate) fn start(&mut self, waiter: u64, spec: KernelSpec, out: &mut Vec<Effect>) -> CommandResult {
        if !self.life.may_start() {
            return Err(CommandError::Superseded);
        }
        let id = self.order(&ShimCommand::Start(Box::new(Start { spec })), out)?;
        self.life.starting();
        self.changed = true;
        self.life.waiters.add(waiter, WaitCondition::Process(id));
        Ok(false)
    }

    /// Interrupts what runs, once the kernel is ready.
    pub(crate) fn interrupt(&mut self, waiter: u64, out: &mut Vec<Effect>) -> CommandResult {
        match self.life.phase {
            Phase::Running if self.readiness.is_ready() => {
                self.order(&ShimCommand::Interrupt, out)?;
                self.begin_stop(StopReason::Interrupt, false);
                Ok(true)
            }
            // A signal would end a process that is still importing.
            Phase::Running | Phase::Starting | Phase::Restarting => {
                self.life.waiters.add(waiter, WaitCondition::Ready);
                Ok(false)
            }
            _ => Err(CommandError::NotRunning),
        }
    }

    /// Interrupts for those who waited until the kernel was ready.
    pub(super) fn interrupt_waiting(&mut self, out: &mut Vec<Effect>) {
        let is_ready = |what| what == WaitCondition::Ready;
        let ready = self.readiness.is_ready() && self.life.phase == Phase::Running;
        if ready && self.life.waiters.any(is_ready) {
            let result = self.order(&ShimCommand::Interrupt, out).map(|_| Answer::Done);
            self.life.waiters.answer(is_ready, &result, out);
        }
    }

    /// Replaces the process.
    pub(crate) fn restart(&mut self, waiter: u64, out: &mut Vec<Effect>) -> CommandResult {
        if !self.life.may_restart() {
            return Err(CommandError::NotRunning);
        }
        if let Some(id) = self.life.restart_under_way() {
            // Its process is the answer to this one too.
            self.life.waiters.add(waiter, WaitCondition::Process(id));
            return Ok(false);
        }
        let stop = Stop {
            grace_ms: self.settings.grace_ms,
        };
        let id = self.order(&ShimCommand::Restart(stop), out)?;
        // A polite stop begins with an interrupt: what runs may end by it before its process does.
        self.begin_stop(StopReason::Interrupt, false);
        self.life.restarting();
        self.changed = true;
        self.life.waiters.add(waiter, WaitCondition::Process(id));
        Ok(false)
    }

    /// A caller wants the kernel to have a process.
    pub(crate) fn revive_for_caller(&mut self, waiter: u64, out: &mut Vec<Effect>) -> CommandResult {
        let process = match self.life.phase {
            Phase::Ended | Phase::Stopping => return Err(CommandError::NotRunning),
            Phase::Dead if !self.rules.revive => return Err(CommandError::KernelDead(self.life.cause())),
            Phase::Dead if self.life.sandbox_gone => {
                return Err(CommandError::SandboxLost(self.life.cause()));
            }
            Phase::Dead => Some(self.revive(out).ok_or(CommandError::NotRunning)?),
            Phase::New | Phase::Starting | Phase::Running | Phase::Restarting => {
                self.life.waiters.awaited_process()
            }
        };
        if let Some(id) = process {
            self.life.waiters.add(waiter, WaitCondition::Process(id));
        }
        Ok(process.is_none())
    }

    /// Ends the kernel. Answered at once: the end is seen when the kernel has ended.
    pub(crate) fn stop(&mut self, cause: &'static str, out: &mut Vec<Effect>) {
        match self.life.phase {
            Phase::Ended | Phase::Stopping => {}
            Phase::New | Phase::Dead => self.end_kernel(cause, out),
            Phase::Starting | Phase::Running | Phase::Restarting => {
                let stop = Stop {
                    grace_ms: self.settings.grace_ms,
                };
                if !self.outbox.takes_commands() || self.order(&ShimCommand::Stop(stop), out).is_err() {
                    // Its sandbox is ended as a whole.
                    self.end_kernel(cause, out);
                    return;
                }
                self.life.fail_waiters(out);
                self.begin_stop(StopReason::Interrupt, false);
                self.life.stopping(cause, self.stop_deadline());
                self.changed = true;
            }
        }
    }

    /// When a stop that begins now has ended at the latest, monotonic microseconds.
    pub(crate) fn stop_deadline(&self) -> u64 {
        self.now.mono + self.settings.grace_ms.saturating_mul(1000) + STOP_SLACK
    }
}
