//! What depends on who made a kernel: what follows a crash, how long one execution may take, whether files are watched.

use himalia_shim_protocol::{Command as ShimCommand, RequestId};

use super::core::Core;
use super::event::{Effect, Now, Request};
use super::execution_records::{StopReason, execution_of};
use super::ledger::RequestKind;
use super::life::Phase;
use super::lifecycle::LifecycleRecord;

/// From one rung of the ladder to the next, microseconds: an interrupt, another one, the end of the process.
const RUNG: u64 = 5_000_000;
/// Interrupts before the process is ended.
const INTERRUPTS: u8 = 2;
/// The cause of death of a process that did not stop in time.
const TIMED_OUT: &str = "execution_timeout";

/// Rules for one kernel. They change once at most: when one that waited in a pool is claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Automatic restarts in a row after crashes.
    pub restart_limit: u32,
    /// A dead kernel is started again by the next execution.
    pub revive: bool,
    /// Wall time of one execution, microseconds.
    pub execution: Option<u64>,
    /// The space of its files is limited by a watch.
    pub watch_disk: bool,
}

/// The execution under way.
#[derive(Debug, Default)]
pub(super) struct Stopwatch {
    running: Option<Timed>,
    /// The stop of a process that was not replaced is under way: its end is not the kernel's.
    stopping: bool,
}

#[derive(Debug)]
struct Timed {
    id: RequestId,
    /// Microseconds since 1970.
    began: u64,
    /// When the next rung is due, monotonic; `None` without a limit.
    due: Option<u64>,
    interrupts: u8,
}

impl Stopwatch {
    /// The kernel works on a request since this time, microseconds since 1970. A limit is set by [`Core::set_rules`] and
    /// [`Core::execution_began`].
    pub(super) fn began(&mut self, id: RequestId, began: u64) {
        self.running = Some(Timed {
            id,
            began,
            due: None,
            interrupts: 0,
        });
    }

    /// A request is done. `true` if it was the one under way.
    pub(super) fn ended(&mut self, id: RequestId) -> bool {
        self.running.take_if(|timed| timed.id == id).is_some()
    }

    /// The process is another one.
    pub(super) fn reset(&mut self) {
        self.running = None;
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The execution under way and since when, microseconds since 1970.
    pub(super) fn running(&self) -> Option<(RequestId, u64)> {
        self.running.as_ref().map(|timed| (timed.id, timed.began))
    }

    /// Nothing is done before this time, monotonic.
    pub(super) fn not_before(&mut self, mono: u64) {
        if let Some(due) = self.running.as_mut().and_then(|timed| timed.due.as_mut()) {
            *due = mono.max(*due);
        }
    }

    /// A stop was asked for a process that was not replaced.
    pub(super) fn stopping(&mut self, ordered: bool) {
        self.stopping = ordered;
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping
    }

    fn limit(&mut self, limit: Option<u64>, now: Now) {
        let Some(timed) = &mut self.running else { return };
        timed.due = limit.map(|limit| {
            let passed = now.wall.saturating_sub(timed.began);
            now.mono.saturating_add(limit.saturating_sub(passed))
        });
    }

    /// A stop is complete. `true` if it was the one that an execution without end had asked for.
    pub(super) fn stopped(&mut self) -> bool {
        std::mem::take(&mut self.stopping)
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        self.running.as_ref().and_then(|timed| timed.due)
    }
}

impl Core {
    /// Other rules hold from now on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
        self.stopwatch.limit(rules.execution, self.now);
        self.disk.set(rules.watch_disk, self.now.mono);
    }

    /// The kernel works on a request now. Time counts from here, not from when the request was sent: it may have waited
    /// behind others. `false` if it is not an execution.
    pub(super) fn execution_began(&mut self, id: RequestId) -> bool {
        let is_execution = |kind| kind == RequestKind::Execute;
        if self.ledger.get(id).is_none_or(|entry| !is_execution(entry.kind)) {
            return false;
        }
        self.stopwatch.began(id, self.now.wall);
        self.stopwatch.limit(self.rules.execution, self.now);
        true
    }

    /// The ladder for an execution that takes too long.
    pub(super) fn limit_time(&mut self, out: &mut Vec<Effect>) {
        let now = self.now.mono;
        let due = |timed: &&mut Timed| timed.due.is_some_and(|due| due <= now);
        let Some(timed) = self.stopwatch.running.as_mut().filter(due) else {
            return;
        };
        if !self.outbox.greeted() {
            return;
        }
        if self.life.phase != Phase::Running || self.life.exit.is_some() {
            self.stopwatch.reset();
            return;
        }
        timed.due = Some(now + RUNG);
        timed.interrupts += 1;
        let kill = timed.interrupts > INTERRUPTS;
        let step = if kill { "kill" } else { "interrupt" }.to_owned();
        let id = timed.id;
        self.decide(&LifecycleRecord::ExecutionLimit { step });
        if self
            .ledger
            .get(id)
            .is_some_and(|entry| execution_of(entry.owner).is_some())
        {
            self.begin_stop(StopReason::Timeout, false);
        }
        if !kill {
            // Refused when too much waits for the shim: the next rung comes all the same.
            let _ = self.order(&ShimCommand::Interrupt, out);
            return;
        }
        self.end_process(TIMED_OUT.to_owned(), out);
    }

    /// An execution for a dead kernel starts its next process, where the rules say so. The request waits for it.
    pub(super) fn revive_for(&mut self, request: &Request, out: &mut Vec<Effect>) {
        if request.kind == RequestKind::Execute {
            self.revive(out);
        }
    }

    /// Starts the next process of a dead kernel, where the rules say so. Asks for a sandbox first, if that is gone.
    /// The order's request, if one was given.
    pub(super) fn revive(&mut self, out: &mut Vec<Effect>) -> Option<RequestId> {
        if !self.rules.revive || self.life.phase != Phase::Dead {
            return None;
        }
        if self.life.sandbox_gone {
            out.push(Effect::WantSandbox);
            return None;
        }
        let cause = self.life.reason.clone().unwrap_or_default();
        // Not counted as a crash of its own; above 0, so that it stays known why.
        self.life.crashes = self.life.crashes.max(1);
        self.restarting(&cause, out)
    }
}
