//! A kernel that waited is claimed; a kernel is forked; a branch is taken up; a further link or a stream is opened.

use himalia_shim_protocol::{
    AddLink, Bound, Command as ShimCommand, Fork, ForkFailed, Forked, LinkAdded, Open,
};

use super::core::{Core, Settings};
use super::event::{Answer, Claim, CommandError, Effect, Now};
use super::exit::Ordered;
use super::life::{Awaited, Phase};
use super::lifecycle::LifecycleRecord;

impl Core {
    /// A kernel whose process runs already: a branch, as the shim has made it. Its link is still to come.
    pub fn branch(settings: Settings, now: Now) -> Self {
        let mut core = Self::new(settings, now);
        core.take_running(1);
        core
    }

    /// A process runs that nobody here has seen start.
    pub(super) fn take_running(&mut self, incarnation: u32) {
        self.life.phase = Phase::Running;
        self.life.incarnation = incarnation;
        self.life.since = self.now.mono;
        // What a later gateway learns it from.
        self.decide(&LifecycleRecord::Started { incarnation });
        self.changed = true;
    }

    /// The version that the sandbox speaks, as negotiated for the connection that has just come.
    pub(crate) fn set_protocol(&mut self, version: u16) {
        self.outbox.set_protocol(version);
    }

    /// Whether the sandbox has ended.
    pub(crate) fn sandbox_is_gone(&self) -> bool {
        self.life.sandbox_gone
    }

    pub(super) fn claim(&mut self, waiter: u64, claim: Claim, out: &mut Vec<Effect>) -> Ordered {
        if self.life.phase != Phase::Running {
            return Err(CommandError::NotRunning);
        }
        self.set_rules(claim.rules);
        self.activity.touch(self.now.wall);
        self.changed = true;
        let Some(bind) = claim.bind else { return Ok(true) };
        let id = self.order(&ShimCommand::Bind(Box::new(bind)), out)?;
        self.wait(waiter, Awaited::Bound(id));
        Ok(false)
    }

    pub(super) fn bound(&mut self, bound: Bound, out: &mut Vec<Effect>) {
        let waiting = self.life.take(|what| what == Awaited::Bound(bound.request));
        let result = if bound.ok {
            Ok(Answer::Done)
        } else {
            Err(CommandError::NotBound(bound.reason))
        };
        out.extend(
            waiting
                .into_iter()
                .map(|token| Effect::Done(token, result.clone())),
        );
    }

    pub(super) fn fork(&mut self, waiter: u64, fork: Box<Fork>, out: &mut Vec<Effect>) -> Ordered {
        if self.life.phase != Phase::Running || self.life.exit.is_some() {
            return Err(CommandError::NotRunning);
        }
        let id = self.order(&ShimCommand::Fork(fork), out)?;
        self.wait(waiter, Awaited::Branch(id));
        Ok(false)
    }

    /// Whether there is a sandbox, with files in it.
    pub(super) fn has_files(&self) -> bool {
        !self.life.sandbox_gone
            && matches!(
                self.life.phase,
                Phase::Starting | Phase::Running | Phase::Restarting | Phase::Dead
            )
    }

    pub(super) fn open_stream(&mut self, open: Open, out: &mut Vec<Effect>) -> Ordered {
        if !self.has_files() {
            return Err(CommandError::NotRunning);
        }
        self.order(&ShimCommand::Open(Box::new(open)), out)?;
        Ok(true)
    }

    pub(super) fn add_link(&mut self, waiter: u64, socket: String, out: &mut Vec<Effect>) -> Ordered {
        if !self.has_files() {
            return Err(CommandError::NotRunning);
        }
        let id = self.order(&ShimCommand::AddLink(AddLink { socket }), out)?;
        self.wait(waiter, Awaited::Link(id));
        Ok(false)
    }

    pub(super) fn link_added(&mut self, added: LinkAdded, out: &mut Vec<Effect>) {
        let waiting = self.life.take(|what| what == Awaited::Link(added.request));
        let done = |token| Effect::Done(token, Ok(Answer::Done));
        out.extend(waiting.into_iter().map(done));
    }

    pub(super) fn forked(&mut self, forked: Forked, out: &mut Vec<Effect>) {
        let waiting = self.life.take(|what| what == Awaited::Branch(forked.request));
        let answer = Answer::Forked(Box::new(forked));
        out.extend(
            waiting
                .into_iter()
                .map(|token| Effect::Done(token, Ok(answer.clone()))),
        );
    }

    pub(super) fn fork_failed(&mut self, failed: ForkFailed, out: &mut Vec<Effect>) {
        let waiting = self.life.take(|what| what == Awaited::Branch(failed.request));
        let error = CommandError::ForkFailed(Box::new(failed));
        out.extend(
            waiting
                .into_iter()
                .map(|token| Effect::Done(token, Err(error.clone()))),
        );
    }
}
