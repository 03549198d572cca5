//! When the space of the files is measured, and what follows from too much of it.

use himalia_model::DiskUse;
use serde::Deserialize;

use crate::event::{Effect, Request};
use crate::requests::kind::RequestKind;

/// In the first line of an execution, in whatever way its language writes comments: it is going to delete files.
pub(super) const FREE_SPACE: &str = "himalia: free space";
/// From one measurement to the next, microseconds: usually, and while the files are above the limit.
const INTERVAL: u64 = 10_000_000;
const INTERVAL_ABOVE: u64 = 2_000_000;
/// From one measurement to one after an execution, so that many short ones do not measure all the time, microseconds.
const APART: u64 = 1_000_000;
/// Time to wait for a measurement, in microseconds. After that the last result holds.
const WAIT: u64 = 30_000_000;
/// Growth above the limit that does not count, bytes: a shell's history, a byte-compiled module.
const TOLERANCE: u64 = 1 << 20;
/// Number of growths that are answered with an interrupt. The next one stops the process.
const INTERRUPTS: u32 = 2;

/// State of a kernel's files against their limit.
#[derive(Debug, Default)]
pub(crate) struct DiskWatch {
    excess: Option<Excess>,
    /// A measurement is under way; until when it is waited for, monotonic.
    asked: Option<u64>,
    /// When the next one is wanted, monotonic; `None` while one is under way and where none is wanted.
    due: Option<u64>,
    /// When the last one came, monotonic.
    measured: u64,
    /// An execution has ended since the last one was begun.
    stale: bool,
}

/// More than there may be.
#[derive(Clone, Copy, Debug)]
struct Excess {
    found: DiskUse,
    /// Above this it has grown, but for [`TOLERANCE`]. Bytes.
    mark: u64,
    /// Number of growths.
    strikes: u32,
}

/// Current work of the kernel when its files have grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// There is no process.
    None,
    /// A process, and no execution.
    Process,
    Execution,
}

/// Remedies for files that have grown above the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Executions are refused, which is all.
    Refuse,
    /// The execution is interrupted.
    Interrupt,
    /// The process is ended.
    Kill,
}

impl Remedy {
    /// As the log has it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Interrupt => "interrupt",
            Self::Kill => "kill",
        }
    }
}

impl DiskWatch {
    /// Sets if the files are watched from now on.
    pub(crate) fn set(&mut self, is_watched: bool, mono: u64) {
        *self = Self {
            due: is_watched.then_some(mono),
            ..Self::default()
        };
    }

    /// An execution has ended, whatever it did.
    pub(crate) fn execution_ended(&mut self, mono: u64) {
        if self.due.is_none() && self.asked.is_none() {
            return;
        }
        self.stale = true;
        let at = if self.excess.is_some() {
            mono
        } else {
            mono.max(self.measured.saturating_add(APART))
        };
        self.due = self.due.map(|due| due.min(at));
    }

    /// Another process: what the one before did is forgiven, but for the files that it left.
    pub(crate) fn process_started(&mut self) {
        if let Some(excess) = &mut self.excess {
            excess.strikes = 0;
            excess.mark = excess.found.used_bytes;
        }
    }

    /// When a measurement is due, or not waited for any more; monotonic microseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.asked.or(self.due)
    }

    /// Asks for a measurement when it is time. `true` if the one before has expired.
    pub(super) fn step(&mut self, mono: u64, out: &mut Vec<Effect>) -> bool {
        let expired = self.asked.is_some_and(|until| until <= mono);
        if expired {
            self.stale = false;
            self.schedule(mono);
        }
        if self.due.is_some_and(|due| due <= mono) {
            self.due = None;
            self.stale = false;
            self.asked = Some(mono.saturating_add(WAIT));
            out.push(Effect::MeasureDisk);
        }
        expired
    }

    /// The answer to [`Effect::MeasureDisk`]; `None` if it could not be measured. What is to be done, if anything.
    pub(super) fn measured(
        &mut self,
        found: Option<DiskUse>,
        mono: u64,
        work: Work,
    ) -> Option<(DiskUse, Remedy)> {
        self.deadline()?;
        let remedy = match found {
            Some(found) if found.is_over() => self.above_limit(found, work).map(|remedy| (found, remedy)),
            Some(_) => {
                self.excess = None;
                None
            }
            None => None,
        };
        self.schedule(mono);
        remedy
    }

    /// A measurement has ended: when the next one is due.
    fn schedule(&mut self, mono: u64) {
        self.asked = None;
        self.measured = mono;
        let pause = match (self.stale, self.excess.is_some()) {
            (true, true) => 0,
            (true, false) => APART,
            (false, true) => INTERVAL_ABOVE,
            (false, false) => INTERVAL,
        };
        self.due = Some(mono.saturating_add(pause));
    }

    fn above_limit(&mut self, found: DiskUse, work: Work) -> Option<Remedy> {
        let used = found.used_bytes;
        let known = self.excess;
        let grown = known.is_none_or(|known| used > known.mark.saturating_add(TOLERANCE));
        let strikes = known.map_or(0, |known| known.strikes) + u32::from(grown);
        self.excess = Some(Excess {
            found,
            mark: match known {
                Some(known) if !grown => known.mark.min(used),
                _ => used,
            },
            strikes,
        });
        if !grown || work == Work::None {
            return None;
        }
        let executes = work == Work::Execution;
        // What grows without an execution is a thread or a process that one has left, which no interrupt reaches.
        let allowed = if executes { INTERRUPTS } else { INTERRUPTS + 1 };
        Some(match strikes {
            strikes if strikes > allowed => Remedy::Kill,
            _ if executes => Remedy::Interrupt,
            _ => Remedy::Refuse,
        })
    }

    /// True if shell requests wait until the free space is measured: finished code may have made room. `executes`: an execution is under way.
    pub(crate) fn is_unsure(&self, executes: bool) -> bool {
        self.excess.is_some() && (self.asked.is_some() || self.stale || executes)
    }

    /// Usage for which a request is refused, if it is.
    pub(crate) fn refuses(&self, request: &Request) -> Option<DiskUse> {
        let excess = self.excess.filter(|_| request.kind == RequestKind::Execute)?;
        let makes_room = Execute::of(request.frame.content()).makes_room();
        (!makes_room).then_some(excess.found)
    }
}

/// Members of an `execute_request` that matter here.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Execute {
    #[serde(default)]
    code: String,
    #[serde(default)]
    pub(super) silent: bool,
}

impl Execute {
    pub(super) fn of(content: &[u8]) -> Self {
        serde_json::from_slice(content).unwrap_or_default()
    }

    fn makes_room(&self) -> bool {
        // A script in Bash begins below its magic.
        let mut lines = self.code.lines().skip_while(|line| *line == "%%bash");
        lines.next().is_some_and(|line| line.contains(FREE_SPACE))
    }
}
