//! Claim, fork, additional links and file streams: what else a caller has the kernel or its sandbox do.

use himalia_shim_protocol::{
    AddLink, Bound, Command as ShimCommand, Fork, ForkFailed, KernelForked, LinkAdded, Open,
};

use crate::core::Core;
use crate::event::{Answer, Claim, CommandError, CommandResult, Effect};
use crate::life::Phase;
use crate::life::waiters::WaitCondition;

impl Core {
    /// The kernel, which waited in a pool, gets its user.
    pub(super) fn claim(&mut self, waiter: u64, claim: Claim, out: &mut Vec<Effect>) -> CommandResult {
        if self.life.phase() != Phase::Running {
            return Err(CommandError::NotRunning);
        }
        self.set_rules(claim.rules);
        self.activity.touch(self.now.wall);
        self.changed = true;
        let Some(bind) = claim.bind else { return Ok(true) };
        let id = self.order(&ShimCommand::Bind(Box::new(bind)), out)?;
        self.life.waiters().add(waiter, WaitCondition::Bound(id));
        Ok(false)
    }

    pub(crate) fn bound(&mut self, bound: Bound, out: &mut Vec<Effect>) {
        let result = if bound.ok {
            Ok(Answer::Done)
        } else {
            Err(CommandError::NotBound(bound.reason))
        };
        self.answer(WaitCondition::Bound(bound.request), &result, out);
    }

    pub(super) fn fork(&mut self, waiter: u64, fork: Box<Fork>, out: &mut Vec<Effect>) -> CommandResult {
        if !self.life.runs() {
            return Err(CommandError::NotRunning);
        }
        let id = self.order(&ShimCommand::Fork(fork), out)?;
        self.life.waiters().add(waiter, WaitCondition::Branch(id));
        Ok(false)
    }

    pub(crate) fn forked(&mut self, forked: KernelForked, out: &mut Vec<Effect>) {
        let branch = WaitCondition::Branch(forked.request);
        self.answer(branch, &Ok(Answer::Forked(Box::new(forked))), out);
    }

    pub(crate) fn fork_failed(&mut self, failed: ForkFailed, out: &mut Vec<Effect>) {
        let branch = WaitCondition::Branch(failed.request);
        self.answer(branch, &Err(CommandError::ForkFailed(Box::new(failed))), out);
    }

    pub(super) fn add_link(&mut self, waiter: u64, socket: String, out: &mut Vec<Effect>) -> CommandResult {
        if !self.life.has_sandbox() {
            return Err(CommandError::NotRunning);
        }
        let id = self.order(&ShimCommand::AddLink(AddLink { socket }), out)?;
        self.life.waiters().add(waiter, WaitCondition::Link(id));
        Ok(false)
    }

    pub(crate) fn link_added(&mut self, added: LinkAdded, out: &mut Vec<Effect>) {
        self.answer(WaitCondition::Link(added.request), &Ok(Answer::Done), out);
    }

    pub(super) fn open_stream(&mut self, open: Open, out: &mut Vec<Effect>) -> CommandResult {
        if !self.life.has_sandbox() {
            return Err(CommandError::NotRunning);
        }
        self.order(&ShimCommand::Open(Box::new(open)), out)?;
        Ok(true)
    }

    fn answer(
        &mut self,
        awaited: WaitCondition,
        result: &Result<Answer, CommandError>,
        out: &mut Vec<Effect>,
    ) {
        self.life.waiters().answer(|what| what == awaited, result, out);
    }
}
