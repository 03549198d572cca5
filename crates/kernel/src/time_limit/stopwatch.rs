//! The execution under way, by whomever it was asked for, and how long it has been.

use himalia_shim_protocol::RequestId;

use crate::event::Now;

/// From one step to the next, microseconds: an interrupt, another one, the end of the process.
const STEP_INTERVAL: u64 = 5_000_000;
/// Interrupts before the process is ended.
const INTERRUPTS: u8 = 2;

/// What is done about an execution that takes too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Interrupt,
    Kill,
}

/// The execution under way.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    running: Option<Timed>,
    /// The stop of a process that was not replaced is under way: its end is not the kernel's.
    stopping: bool,
}

#[derive(Debug)]
struct Timed {
    id: RequestId,
    /// Microseconds since 1970.
    began: u64,
    /// When the next step is due, monotonic; `None` without a limit.
    due: Option<u64>,
    interrupts: u8,
}

impl Stopwatch {
    /// The kernel works on a request since this time, microseconds since 1970. A limit is set by [`Self::limit`].
    pub(crate) fn began(&mut self, id: RequestId, began: u64) {
        self.running = Some(Timed {
            id,
            began,
            due: None,
            interrupts: 0,
        });
    }

    /// A request is done. `true` if it was the one under way.
    pub(crate) fn ended(&mut self, id: RequestId) -> bool {
        self.running.take_if(|timed| timed.id == id).is_some()
    }

    /// The process is another one.
    pub(crate) fn reset(&mut self) {
        self.running = None;
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The execution under way and since when, microseconds since 1970.
    pub(crate) fn running(&self) -> Option<(RequestId, u64)> {
        self.running.as_ref().map(|timed| (timed.id, timed.began))
    }

    /// Nothing is done before this time, monotonic.
    pub(crate) fn not_before(&mut self, mono: u64) {
        if let Some(due) = self.running.as_mut().and_then(|timed| timed.due.as_mut()) {
            *due = mono.max(*due);
        }
    }

    /// A stop was asked for a process that was not replaced.
    pub(crate) fn stopping(&mut self, ordered: bool) {
        self.stopping = ordered;
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    pub(super) fn limit(&mut self, limit: Option<u64>, now: Now) {
        let Some(timed) = &mut self.running else { return };
        timed.due = limit.map(|limit| {
            let passed = now.wall.saturating_sub(timed.began);
            now.mono.saturating_add(limit.saturating_sub(passed))
        });
    }

    /// A stop is complete. `true` if it was the one that an execution without end had asked for.
    pub(crate) fn stopped(&mut self) -> bool {
        std::mem::take(&mut self.stopping)
    }

    /// When the next step is due, monotonic microseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.running.as_ref().and_then(|timed| timed.due)
    }

    /// What is to be done about a request that takes too long; the next step comes after a while.
    pub(super) fn next_step(&mut self, mono: u64) -> Option<(RequestId, Step)> {
        let timed = self.running.as_mut()?;
        timed.due = Some(mono + STEP_INTERVAL);
        timed.interrupts += 1;
        let kill = timed.interrupts > INTERRUPTS;
        Some((timed.id, if kill { Step::Kill } else { Step::Interrupt }))
    }
}
