//! A process starts, or could not be started; the engine starts the next one.

use himalia_model::ExecutionState;
use himalia_shim_protocol::{Command as ShimCommand, KernelStarted, RequestId, StartFailed, Stop};

use super::phase::Phase;
use super::records::LifecycleRecord;
use super::waiters::WaitCondition;
use crate::core::{Core, Settings};
use crate::event::{Answer, CommandError, Effect, Request, Timestamp};
use crate::requests::kind::RequestKind;

impl Core {
    pub(crate) fn started(&mut self, started: &KernelStarted, out: &mut Vec<Effect>) {
        if started.incarnation <= self.life.incarnation {
            return;
        }
        // If the end of the one before is known, its last output comes under its own incarnation.
        self.complete_exit(out);
        self.life.started(started.incarnation, self.now.mono);
        self.activity.state = ExecutionState::Starting;
        self.activity.touch(self.now.wall);
        self.readiness.process_started();
        self.requests.process_started();
        self.stopwatch.reset();
        self.disk.process_started();
        out.push(Effect::ProcessStarted(started.pid, started.path));
        self.life
            .waiters
            .answer(WaitCondition::is_process, &Ok(Answer::Done), out);
        if self.outbox.greeted() {
            self.probe();
        }
        self.release();
    }

    /// A process could not be started.
    pub(crate) fn start_failed(&mut self, failed: &StartFailed, out: &mut Vec<Effect>) {
        let error = CommandError::StartFailed {
            reason: failed.reason.clone(),
            stderr: failed.stderr.clone(),
        };
        let this = WaitCondition::Process(failed.request);
        self.life.ordered = None;
        let asked = self.life.waiters.answer(|what| what == this, &Err(error), out);
        match self.life.phase {
            Phase::Starting => self.end_kernel("start_failed", out),
            Phase::Restarting if self.life.moving => {
                self.give_up_sandbox(format!("start_failed: {}", failed.reason), out);
            }
            Phase::Restarting if asked => {
                self.kernel_died(format!("restart failed: {}", failed.reason), out);
            }
            Phase::Restarting => self.process_crashed(failed.reason.clone(), out),
            _ => {}
        }
    }

    /// A kernel whose process runs already: a branch, as the shim has made it. Its link is still to come.
    pub fn branch(settings: Settings, now: Timestamp) -> Self {
        let mut core = Self::new(settings, now);
        core.take_running(1);
        core
    }

    /// A process runs whose start was not seen here.
    pub(crate) fn take_running(&mut self, incarnation: u32) {
        self.life.take_running(incarnation, self.now.mono);
        // What a later gateway learns it from.
        self.decide(&LifecycleRecord::Started { incarnation });
        self.changed = true;
    }

    /// An execution for a dead kernel starts its next process, where the rules say so. The request waits for it.
    pub(crate) fn revive_for(&mut self, request: &Request, out: &mut Vec<Effect>) {
        if request.kind == RequestKind::Execute {
            self.revive(out);
        }
    }

    /// Starts the next process of a dead kernel, where the rules say so. Asks for a sandbox first, if that is gone.
    /// The command's request, if one was given.
    pub(crate) fn revive(&mut self, out: &mut Vec<Effect>) -> Option<RequestId> {
        if !self.rules.revive || self.life.phase != Phase::Dead {
            return None;
        }
        if self.life.sandbox_gone {
            out.push(Effect::WantSandbox);
            return None;
        }
        self.life.revive();
        self.restart_after(&self.life.cause(), out)
    }

    /// Starts the next process, and says so.
    pub(super) fn restart_after(&mut self, cause: &str, out: &mut Vec<Effect>) -> Option<RequestId> {
        self.decide(&LifecycleRecord::Restarting {
            cause: cause.to_owned(),
            crashes: self.life.crashes,
        });
        self.say("restarting");
        self.life.restarting_after(cause);
        self.changed = true;
        self.order_restart(out)
    }

    /// Starts the next process after a death. The command's request, if it was given.
    pub(crate) fn order_restart(&mut self, out: &mut Vec<Effect>) -> Option<RequestId> {
        let ordered = self.order(&ShimCommand::Restart(Stop { grace_ms: 0 }), out);
        if ordered.is_err() {
            self.kernel_died("the sandbox takes no orders".to_owned(), out);
        }
        self.life.ordered = ordered.ok();
        self.life.ordered
    }
}
