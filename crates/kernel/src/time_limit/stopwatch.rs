//! The executions under way, by whomever they were asked for, and how long they have been: one in the main shell, and one in each
//! subshell ([JEP 91](https://jupyter.org/enhancement-proposals/91-kernel-subshells/kernel-subshells.html)).

use std::collections::BTreeMap;

use himalia_shim_protocol::RequestId;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;

/// From one step to the next, microseconds: an interrupt, another one, the end of the process.
const STEP_INTERVAL: u64 = 5_000_000;
/// Interrupts before the process is ended.
const INTERRUPTS: u8 = 2;
/// Subshells whose executions are timed. Executions of others have no limit.
const MAX_SUBSHELLS: usize = 64;
/// Bytes of the id of a subshell that is timed.
const MAX_SUBSHELL_ID: usize = 256;

/// Steps against an execution that takes too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Interrupt,
    Kill,
}

/// The executions under way.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    main: Option<TimedExecution>,
    /// The executions by the ids of their subshells.
    subshells: BTreeMap<Box<str>, TimedExecution>,
    /// The stop of a process that was not replaced is under way: its end is not the kernel's.
    stopping: bool,
}

#[derive(Debug)]
struct TimedExecution {
    id: RequestId,
    /// Microseconds since 1970.
    began: u64,
    /// When the next step is due, monotonic; `None` without a limit.
    due: Option<u64>,
    /// Steps that were due. The first ones are interrupts, which are sent for the main shell only: they do not reach subshells.
    steps: u8,
}

/// An execution under way, in a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunningExecution {
    id: RequestId,
    /// Microseconds since 1970.
    began: u64,
    /// `None`: in the main shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subshell: Option<Box<str>>,
}

impl TimedExecution {
    fn limit(&mut self, limit: Option<u64>, now: Timestamp) {
        self.due = limit.map(|limit| {
            let passed = now.wall.saturating_sub(self.began);
            now.mono.saturating_add(limit.saturating_sub(passed))
        });
    }
}

impl Stopwatch {
    /// The kernel works on a request since this time, microseconds since 1970, in its main shell or in the subshell with this id.
    /// A shell works on one at a time. A limit is set by [`Self::limit`].
    pub(crate) fn began(&mut self, id: RequestId, began: u64, subshell: Option<&str>) {
        if self.all().any(|timed| timed.id == id) {
            return;
        }
        let timed = TimedExecution {
            id,
            began,
            due: None,
            steps: 0,
        };
        let Some(subshell) = subshell else {
            self.main = Some(timed);
            return;
        };
        let has_room = self.subshells.len() < MAX_SUBSHELLS || self.subshells.contains_key(subshell);
        if has_room && subshell.len() <= MAX_SUBSHELL_ID {
            self.subshells.insert(subshell.into(), timed);
        }
    }

    /// A request is done. `true` if it was under way.
    pub(crate) fn ended(&mut self, id: RequestId) -> bool {
        let before = self.subshells.len();
        self.subshells.retain(|_, timed| timed.id != id);
        self.main.take_if(|timed| timed.id == id).is_some() || self.subshells.len() < before
    }

    /// The process is another one.
    pub(crate) fn reset(&mut self) {
        self.main = None;
        self.subshells.clear();
    }

    pub(crate) fn is_running(&self) -> bool {
        self.main.is_some() || !self.subshells.is_empty()
    }

    /// The execution under way in the main shell.
    pub(crate) fn running(&self) -> Option<RequestId> {
        self.main.as_ref().map(|timed| timed.id)
    }

    /// For a checkpoint: in the main shell, in subshells.
    pub(crate) fn checkpoint(&self) -> (Option<RunningExecution>, Vec<RunningExecution>) {
        let executing = |timed: &TimedExecution, subshell: Option<&str>| RunningExecution {
            id: timed.id,
            began: timed.began,
            subshell: subshell.map(Box::from),
        };
        let main = self.main.as_ref().map(|timed| executing(timed, None));
        let subshells = self.subshells.iter();
        let subshells = subshells.map(|(subshell, timed)| executing(timed, Some(subshell)));
        (main, subshells.collect())
    }

    /// From a checkpoint.
    pub(crate) fn restore(&mut self, executing: impl IntoIterator<Item = RunningExecution>) {
        for one in executing {
            self.began(one.id, one.began, one.subshell.as_deref());
        }
    }

    fn all(&self) -> impl Iterator<Item = &TimedExecution> {
        self.main.iter().chain(self.subshells.values())
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut TimedExecution> {
        self.main.iter_mut().chain(self.subshells.values_mut())
    }

    /// Takes no step before this time, monotonic.
    pub(crate) fn not_before(&mut self, mono: u64) {
        for due in self.all_mut().filter_map(|timed| timed.due.as_mut()) {
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

    /// Sets the limit of all whose time is not up.
    pub(super) fn limit(&mut self, limit: Option<u64>, now: Timestamp) {
        for timed in self.all_mut().filter(|timed| timed.steps == 0) {
            timed.limit(limit, now);
        }
    }

    /// Sets the limit of those that have none.
    pub(super) fn limit_new(&mut self, limit: Option<u64>, now: Timestamp) {
        for timed in self.all_mut().filter(|timed| timed.due.is_none()) {
            timed.limit(limit, now);
        }
    }

    /// A stop is complete. `true` if it was the one that an execution without end had asked for.
    pub(crate) fn stopped(&mut self) -> bool {
        std::mem::take(&mut self.stopping)
    }

    /// When the next step is due, monotonic microseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.all().filter_map(|timed| timed.due).min()
    }

    /// The next thing to do about a request that takes too long, if it is due; the step after it comes after a while.
    pub(super) fn next_step(&mut self, mono: u64) -> Option<(RequestId, Step)> {
        let in_main = self.running();
        let is_due = |timed: &&mut TimedExecution| timed.due.is_some_and(|due| due <= mono);
        for timed in self.all_mut().filter(is_due) {
            timed.due = Some(mono + STEP_INTERVAL);
            timed.steps += 1;
            if timed.steps > INTERRUPTS {
                return Some((timed.id, Step::Kill));
            }
            if in_main == Some(timed.id) {
                return Some((timed.id, Step::Interrupt));
            }
        }
        None
    }
}
