//! A kernel whose sandbox is gone continues in a new one, in the same log: its processes are numbered on, and nothing that
//! the sandbox before may have done is done again.

use super::phase::Phase;
use super::records::LifecycleRecord;
use crate::core::Core;
use crate::event::{Answer, CommandError, Effect};
use crate::executions::records::SandboxLoss;
use crate::rules::Rules;

impl Core {
    /// The kernel has a new sandbox. Its first process is still to be ordered.
    pub(crate) fn new_sandbox(
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
        let cause = self.life.cause();
        self.decide(&LifecycleRecord::NewSandbox {
            cause: cause.clone(),
            processes: self.life.incarnation,
            lost: lost.clone(),
        });
        self.say("restarting");
        self.leave_sandbox();
        self.life.move_in(&cause, lost);
        self.set_rules(rules);
        self.changed = true;
        out.push(Effect::Done(waiter, Ok(Answer::Done)));
    }

    /// Gives up everything that was sent to the sandbox before.
    pub(crate) fn leave_sandbox(&mut self) {
        self.outbox.begin_again();
        self.requests.leave_sandbox(&self.outbox, self.now.mono);
        self.readiness.process_started();
    }
}
