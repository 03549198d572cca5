//! Orders of callers, and deaths.

use himalia_journal::NewRecord;
use himalia_shim_protocol::{
    Cause, Command as ShimCommand, Exited, KernelSpec, KernelState, Lane, PendingFull, RequestId, Start, Stop,
};
use himalia_wire::Channel;

use super::core::Core;
use super::event::{Answer, CommandError, Effect};
use super::execution_records::StopReason;
use super::life::{Awaited, FLUSH_WAIT, MEMORY_WAIT, PendingExit, Phase, STABLE};
use super::lifecycle::LifecycleRecord;
use super::meta::{RecordKind, RecordMeta};
use super::sandbox_end::{StopBy, TOLD_TO_END};
use super::synthetic;
use super::writes::Next;

/// Beyond its grace, how long a stop may take before the sandbox is killed as a whole, microseconds.
const STOP_SLACK: u64 = 5_000_000;

/// Signal 9, whatever the architecture.
const SIGKILL: i32 = 9;

/// `Ok(true)`: done already; `Ok(false)`: answered later.
pub(super) type Ordered = Result<bool, CommandError>;

impl Core {
    pub(super) fn start(&mut self, waiter: u64, spec: KernelSpec, out: &mut Vec<Effect>) -> Ordered {
        let moving = self.life.moving && self.life.phase == Phase::Restarting && !self.life.is_awaited();
        if self.life.phase != Phase::New && !moving {
            return Err(CommandError::Superseded);
        }
        let id = self.order(&ShimCommand::Start(Box::new(Start { spec })), out)?;
        if !moving {
            self.life.phase = Phase::Starting;
        }
        self.changed = true;
        self.wait(waiter, Awaited::Process(id));
        Ok(false)
    }

    pub(super) fn interrupt(&mut self, waiter: u64, out: &mut Vec<Effect>) -> Ordered {
        match self.life.phase {
            Phase::Running if self.readiness.is_ready() => {
                self.order(&ShimCommand::Interrupt, out)?;
                self.begin_stop(StopReason::Interrupt, false);
                Ok(true)
            }
            // A signal would end a process that is still importing.
            Phase::Running | Phase::Starting | Phase::Restarting => {
                self.wait(waiter, Awaited::Ready);
                Ok(false)
            }
            _ => Err(CommandError::NotRunning),
        }
    }

    /// Interrupts for those who waited until the kernel was ready.
    pub(super) fn interrupt_waiting(&mut self, out: &mut Vec<Effect>) {
        if !self.readiness.is_ready() || self.life.phase != Phase::Running {
            return;
        }
        let waiting = self.life.take(|what| what == Awaited::Ready);
        if waiting.is_empty() {
            return;
        }
        let result = self.order(&ShimCommand::Interrupt, out).map(|_| Answer::Done);
        out.extend(
            waiting
                .into_iter()
                .map(|token| Effect::Done(token, result.clone())),
        );
    }

    pub(super) fn restart(&mut self, waiter: u64, out: &mut Vec<Effect>) -> Ordered {
        // A new sandbox is started, not restarted.
        if self.life.sandbox_gone || self.life.moving && !self.life.is_awaited() {
            return Err(CommandError::NotRunning);
        }
        match self.life.phase {
            Phase::Running | Phase::Restarting | Phase::Dead => {}
            _ => return Err(CommandError::NotRunning),
        }
        if self.life.phase == Phase::Restarting {
            // One is under way: its process is the answer to this one too.
            if let Some(id) = self.life.awaited_process() {
                self.wait(waiter, Awaited::Process(id));
                return Ok(false);
            }
        }
        let stop = Stop {
            grace_ms: self.settings.grace_ms,
        };
        let id = self.order(&ShimCommand::Restart(stop), out)?;
        // A polite stop begins with an interrupt: what runs may end by it before its process does.
        self.begin_stop(StopReason::Interrupt, false);
        self.life.phase = Phase::Restarting;
        self.life.crashes = 0;
        self.changed = true;
        self.wait(waiter, Awaited::Process(id));
        Ok(false)
    }

    /// Starts the next process after a death. The order's request, if it was given.
    pub(super) fn order_restart(&mut self, out: &mut Vec<Effect>) -> Option<RequestId> {
        let ordered = self.order(&ShimCommand::Restart(Stop { grace_ms: 0 }), out);
        if ordered.is_err() {
            self.dead("the sandbox takes no orders".to_owned(), out);
        }
        ordered.ok()
    }

    /// Answered at once: the end is seen when the kernel is over.
    pub(super) fn stop(&mut self, cause: &'static str, out: &mut Vec<Effect>) {
        match self.life.phase {
            Phase::Over | Phase::Stopping => {}
            Phase::New | Phase::Dead => self.over(cause, out),
            Phase::Starting | Phase::Running | Phase::Restarting => {
                let stop = Stop {
                    grace_ms: self.settings.grace_ms,
                };
                let connected = self.outbox.connected(Lane::Now) && self.outbox.greeted();
                if !connected || self.order(&ShimCommand::Stop(stop), out).is_err() {
                    // Its sandbox is ended as a whole.
                    self.over(cause, out);
                    return;
                }
                self.fail_waiters(out);
                self.begin_stop(StopReason::Interrupt, false);
                self.life.phase = Phase::Stopping;
                self.life.reason = Some(cause.to_owned());
                self.life.stop_deadline = Some(self.stop_deadline());
                self.changed = true;
            }
        }
    }

    /// When a stop that begins now is over at the latest, monotonic microseconds.
    pub(super) fn stop_deadline(&self) -> u64 {
        self.now.mono + self.settings.grace_ms.saturating_mul(1000) + STOP_SLACK
    }

    pub(super) fn order(
        &mut self,
        command: &ShimCommand,
        out: &mut Vec<Effect>,
    ) -> Result<RequestId, CommandError> {
        self.outbox.command(command, out).map_err(|full| match full {
            PendingFull::Version { .. } => CommandError::Unsupported(full.to_string()),
            _ => CommandError::Refused(full.to_string()),
        })
    }

    pub(super) fn exited(&mut self, exited: Exited, out: &mut Vec<Effect>) {
        if exited.incarnation < self.life.incarnation {
            return;
        }
        self.met = (KernelState::Exited, exited.incarnation);
        let mut exit = PendingExit::new(exited, self.now.mono + FLUSH_WAIT);
        let lives = matches!(self.life.phase, Phase::Running | Phase::Starting) && !self.life.told_to_end;
        if lives && !exit.exited.asked && exit.exited.cause == (Cause::Signal { signal: SIGKILL }) {
            exit.memory = Some(self.now.mono + MEMORY_WAIT);
            out.push(Effect::CheckMemory);
        }
        self.life.exit = Some(exit);
        self.after_data(Lane::Data, out);
    }

    /// Something of the data lane arrived: a death may have waited for it; so may interrupts for readiness.
    pub(super) fn after_data(&mut self, lane: Lane, out: &mut Vec<Effect>) {
        if lane == Lane::Data && self.death_is_complete() {
            self.settle_exit(out);
        }
        if !self.life.waiters.is_empty() {
            self.interrupt_waiting(out);
        }
    }

    /// Whether a process has ended, its output is here, and its cause is known.
    pub(super) fn death_is_complete(&self) -> bool {
        let complete = |exit: &PendingExit| {
            let said_why = exit.stopped.is_some() || !self.ends_from_outside(exit);
            said_why && exit.memory.is_none() && self.outbox.received(Lane::Data) >= exit.exited.last_data
        };
        self.life.exit.as_ref().is_some_and(complete)
    }

    /// Whether memory was the cause of a death is known now, or will not be.
    pub(super) fn memory_checked(&mut self, killed: bool, out: &mut Vec<Effect>) {
        let Some(exit) = self.life.exit.as_mut().filter(|exit| exit.memory.is_some()) else {
            return;
        };
        exit.memory = None;
        exit.oom = killed;
        if self.death_is_complete() {
            self.settle_exit(out);
        }
    }

    /// A process has ended and its output is complete, as far as it will come.
    pub(super) fn settle_exit(&mut self, out: &mut Vec<Effect>) {
        let Some(exit) = self.life.exit.take() else {
            return;
        };
        let (asked, stopped) = (exit.exited.asked, exit.stopped);
        self.stopwatch.reset();
        self.questions.lost();
        match self.life.phase {
            _ if !asked => self.executions_lost(&exit.cause()),
            Phase::Stopping => self.executions_lost(&self.life.reason.clone().unwrap_or_default()),
            _ if stopped == Some(StopBy::Outside) => self.executions_lost(TOLD_TO_END),
            _ => self.executions_lost("restart"),
        }
        self.forget_accepted();
        self.iopub_parent = None;
        self.changed = true;
        match self.life.phase {
            Phase::Running | Phase::Starting if self.life.told_to_end => self.over("killed_by_user", out),
            // What comes next is the end of the sandbox.
            Phase::Running | Phase::Starting if stopped == Some(StopBy::Outside) => {}
            // Asked for by an earlier gateway; what comes next says whether it was a restart.
            Phase::Running if asked => self.life.phase = Phase::Restarting,
            Phase::Running | Phase::Starting => self.crashed(exit.cause(), out),
            Phase::New | Phase::Restarting | Phase::Stopping | Phase::Dead | Phase::Over => {}
        }
        if let Some(by) = stopped {
            self.stopped(by, out);
        }
    }

    /// What a process had accepted is lost with it; what is still on its way goes to the next one.
    pub(super) fn forget_accepted(&mut self) {
        let outbox = &self.outbox;
        self.ledger.lose(|id| outbox.is_on_its_way(id));
    }

    /// A process ended that nobody had asked to end: start the next one, or give up.
    pub(super) fn crashed(&mut self, cause: String, out: &mut Vec<Effect>) {
        self.executions_lost(&cause);
        if self.now.mono.saturating_sub(self.life.since) >= STABLE {
            self.life.crashes = 0;
        }
        self.life.crashes += 1;
        if self.life.crashes > self.rules.restart_limit {
            self.dead(cause, out);
            return;
        }
        self.restarting(&cause, out);
    }

    /// Starts the next process, and says so.
    pub(super) fn restarting(&mut self, cause: &str, out: &mut Vec<Effect>) -> Option<RequestId> {
        self.decide(&LifecycleRecord::Restarting {
            cause: cause.to_owned(),
            crashes: self.life.crashes,
        });
        self.say("restarting");
        self.life.phase = Phase::Restarting;
        self.life.reason = Some(format!("restarted after {cause}"));
        self.changed = true;
        self.order_restart(out)
    }

    /// The kernel is dead but can be restarted by a caller while its sandbox lives.
    pub(super) fn dead(&mut self, cause: String, out: &mut Vec<Effect>) {
        self.executions_lost(&cause);
        self.questions.lost();
        if self.life.phase != Phase::Dead {
            self.decide(&LifecycleRecord::Dead {
                cause: cause.clone(),
                over: false,
            });
            self.say("dead");
        }
        self.life.phase = Phase::Dead;
        self.life.moving = false;
        self.life.reason = Some(cause);
        self.forget_accepted();
        self.changed = true;
        self.fail_waiters(out);
    }

    /// The kernel is over: nobody can have it any more.
    pub(super) fn over(&mut self, cause: &str, out: &mut Vec<Effect>) {
        if self.life.phase == Phase::Over {
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
        self.life.phase = Phase::Over;
        self.life.reason = Some(cause.to_owned());
        self.life.stop_deadline = None;
        self.life.exit = None;
        self.held.clear();
        self.changed = true;
        out.push(Effect::Over { forget: true });
        self.fail_waiters(out);
    }

    pub(super) fn fail_waiters(&mut self, out: &mut Vec<Effect>) {
        let error = CommandError::StartFailed {
            reason: self.life.reason.clone().unwrap_or_default(),
            stderr: String::new(),
        };
        for token in self.life.take(|what| matches!(what, Awaited::Process(_))) {
            out.push(Effect::Done(token, Err(error.clone())));
        }
        for token in self.life.take(|_| true) {
            out.push(Effect::Done(token, Err(CommandError::NotRunning)));
        }
    }

    /// A record of what the engine decided.
    pub(super) fn decide(&mut self, decision: &LifecycleRecord) {
        let meta = RecordMeta {
            kernel: self.settings.kernel,
            synthetic: true,
            incarnation: self.life.incarnation,
            ..RecordMeta::default()
        };
        self.push_lifecycle(meta, decision, Next::Nothing);
    }

    /// A status message in the kernel's name, after all output that came before.
    pub(super) fn say(&mut self, state: &str) {
        let body = synthetic::status(&self.kernel_session, state);
        self.push_synthetic(Channel::Iopub, 0, body);
    }

    /// A text for users, in the kernel's name, with the output of what it works on.
    pub(super) fn notice(&mut self, text: &str) {
        let parent = self.iopub_parent.as_ref().map(|parent| parent.raw.clone());
        let body = synthetic::notice(&self.kernel_session, parent.as_deref(), text);
        self.push_synthetic(Channel::Iopub, 0, body);
    }

    /// A message in the kernel's name, for everybody or for the owner of what it answers.
    pub(super) fn push_synthetic(&mut self, channel: Channel, owner: u64, body: bytes::Bytes) {
        let meta = RecordMeta {
            kernel: self.settings.kernel,
            channel: Some(channel),
            synthetic: true,
            incarnation: self.life.incarnation,
            owner,
            ..RecordMeta::default()
        };
        self.writes.push(
            NewRecord {
                kind: RecordKind::Message as u8,
                meta: meta.encode(),
                body,
            },
            Next::Nothing,
        );
    }
}
