//! A kernel whose sandbox is gone goes on in a new one, in the same log: its processes are numbered on, and nothing that the
//! sandbox before may have done is done again.

use himalia_shim_protocol::{Event as ShimEvent, Hello, KernelState, PerLane, ToGateway};

use super::core::Core;
use super::event::{Answer, CommandError, Effect};
use super::executions::records::SandboxLoss;
use super::exit::Ordered;
use super::life::{Awaited, Phase};
use super::lifecycle::LifecycleRecord;
use super::rules::Rules;

impl Core {
    /// The kernel has a new sandbox. Its first process is still to be ordered.
    pub(super) fn new_sandbox(
        &mut self,
        waiter: u64,
        rules: Rules,
        lost: SandboxLoss,
        out: &mut Vec<Effect>,
    ) {
        let refused = if self.life.phase != Phase::Dead || !self.life.sandbox_gone {
            Some(CommandError::Superseded)
        } else if !self.writes.is_empty() {
            // Records of the sandbox before are still to be written: their links would be taken for those of this one.
            Some(CommandError::DiskFailing)
        } else {
            None
        };
        if let Some(error) = refused {
            out.push(Effect::Done(waiter, Err(error)));
            return;
        }
        let cause = self.life.reason.clone().unwrap_or_default();
        self.decide(&LifecycleRecord::NewSandbox {
            cause: cause.clone(),
            processes: self.life.incarnation,
            lost: lost.clone(),
        });
        self.say("restarting");
        self.move_in(&cause, lost);
        self.set_rules(rules);
        self.changed = true;
        out.push(Effect::Done(waiter, Ok(Answer::Done)));
    }

    /// The state of a kernel that has just got a new sandbox.
    pub(super) fn move_in(&mut self, cause: &str, lost: SandboxLoss) {
        self.outbox.begin_again();
        // What an earlier gateway had sent to the sandbox before was done there, or is lost with it.
        for carried in [&mut self.carried.now, &mut self.carried.data] {
            carried.retain(|_, carried| carried.confirmed);
        }
        self.forget_accepted();
        self.life.phase = Phase::Restarting;
        self.life.reason = Some(format!("restarted after {cause}"));
        // Above 0, so that it stays known why.
        self.life.crashes = self.life.crashes.max(1);
        self.life.exit = None;
        self.life.told_to_end = false;
        self.life.sandbox_gone = false;
        self.life.moving = true;
        self.life.processes_before = self.life.incarnation;
        // One that nobody was told of yet is said together with this one.
        self.life.loss.get_or_insert_default().add(lost);
        self.readiness.process_started();
        self.met = (KernelState::New, self.life.incarnation);
        self.adopted = false;
    }

    /// The new sandbox is of no use.
    pub(super) fn give_up_sandbox(&mut self, cause: String, out: &mut Vec<Effect>) {
        if std::mem::take(&mut self.life.moving) {
            self.sandbox_gone(cause, out);
        }
    }

    /// Whether this is a new sandbox of an earlier gateway, and the log knows of no process in it.
    pub(super) fn never_used(&self) -> bool {
        self.adopted && self.life.processes_before > 0 && self.life.processes_before == self.life.incarnation
    }

    /// A caller wants the kernel to have a process.
    pub(super) fn revive_for_caller(&mut self, waiter: u64, out: &mut Vec<Effect>) -> Ordered {
        let reason = || self.life.reason.clone().unwrap_or_default();
        let process = match self.life.phase {
            Phase::Over | Phase::Stopping => return Err(CommandError::NotRunning),
            Phase::Dead if !self.rules.revive => return Err(CommandError::KernelDead(reason())),
            Phase::Dead if self.life.sandbox_gone => return Err(CommandError::SandboxLost(reason())),
            Phase::Dead => Some(self.revive(out).ok_or(CommandError::NotRunning)?),
            Phase::New | Phase::Starting | Phase::Running | Phase::Restarting => self.life.awaited_process(),
        };
        if let Some(id) = process {
            self.wait(waiter, Awaited::Process(id));
        }
        Ok(process.is_none())
    }

    /// A frame of the shim with processes numbered as this log numbers them.
    pub(super) fn numbered(&self, mut frame: ToGateway) -> ToGateway {
        let before = self.life.processes_before;
        if before == 0 {
            return frame;
        }
        let incarnation = match &mut frame {
            ToGateway::Message { origin, .. } => &mut origin.incarnation,
            ToGateway::Gap { gap, .. } => &mut gap.incarnation,
            ToGateway::Event { event, .. } => match event {
                ShimEvent::Started(started) => &mut started.incarnation,
                ShimEvent::Exited(exited) => &mut exited.incarnation,
                ShimEvent::Stopped(stopped) => &mut stopped.incarnation,
                ShimEvent::StartFailed(_)
                | ShimEvent::Refused(_)
                | ShimEvent::Bound(_)
                | ShimEvent::Forked(_)
                | ShimEvent::ForkFailed(_)
                | ShimEvent::LinkAdded(_) => return frame,
            },
            ToGateway::Accepted { .. }
            | ToGateway::Heartbeat { .. }
            | ToGateway::Stats { .. }
            | ToGateway::Hello(_) => return frame,
        };
        *incarnation = incarnation.saturating_add(before);
        frame
    }

    /// The process that a hello tells of: what it does, and its number in this log.
    pub(super) fn met_in(&self, hello: &Hello) -> (KernelState, u32) {
        let before = self.life.processes_before;
        let entry = hello.kernel(self.settings.kernel);
        entry.map_or((KernelState::New, before), |entry| {
            (entry.state, entry.incarnation.saturating_add(before))
        })
    }
}

/// Why a new sandbox is given up in which nothing was started.
pub(super) const NEVER_USED: &str = "sandbox_lost: it was never used";

/// Links of a sandbox that has said nothing yet.
pub(super) const NO_LINKS: PerLane<u64> = PerLane { now: 0, data: 0 };
