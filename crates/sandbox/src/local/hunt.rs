//! Finding and ending every process of a sandbox.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::noted::{NotedProcess, Record};
use crate::host::MARK_VARIABLE;
use crate::host::proc::{Process, ProcessId, has_variable};

/// Longest time from SIGKILL to the end of the processes.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two looks at the processes that were killed.
const PAUSE: Duration = Duration::from_millis(4);
/// So many pauses after a kill, `/proc` is searched again, even if a killed process has not ended.
const PAUSES: u32 = 5;

/// The signs by which processes of one sandbox are known.
#[derive(Debug)]
pub(super) struct Hunt {
    shim: Option<ProcessId>,
    /// Sessions and process groups with the process that gave them their number.
    sessions: Vec<ProcessId>,
    groups: Vec<ProcessId>,
    variable: String,
    /// Program and argument of a shim whose process id was never written down.
    unknown_shim: Option<(Vec<u8>, Vec<u8>)>,
    /// All processes ever matched, so that a process is still found after its parent died.
    known: HashSet<ProcessId>,
    /// Processes without the mark. Each environment is read once: a new process of the sandbox has the mark from its beginning.
    unmarked: HashSet<ProcessId>,
}

/// Processes that were left after [`PATIENCE`].
#[derive(Debug)]
pub(super) struct Survivors(pub(super) usize);

impl Hunt {
    /// `program` and `gateway_dir` are those of the shim's command line.
    pub(super) fn new(record: &Record, program: &Path, gateway_dir: &Path) -> Self {
        use std::os::unix::ffi::OsStrExt as _;
        let noted = record.details.noted.iter();
        let leaders = |led: fn(&NotedProcess) -> i32| {
            // Only numbers that name the process itself: all others belong to the shim or to unrelated processes.
            noted
                .clone()
                .filter(move |n| led(n) == n.process.pid)
                .map(|n| n.process)
                .chain(record.shim)
                .collect()
        };
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_owned();
        Self {
            shim: record.shim,
            sessions: leaders(|noted| noted.session),
            groups: leaders(|noted| noted.group),
            variable: format!("{MARK_VARIABLE}={}", record.mark),
            unknown_shim: record
                .shim
                .is_none()
                .then(|| (bytes(program), bytes(gateway_dir))),
            known: record
                .details
                .noted
                .iter()
                .map(|noted| noted.process)
                .chain(record.shim)
                .collect(),
            unmarked: HashSet::new(),
        }
    }

    /// Kills all processes of the sandbox, those below the shim before the shim: while it lives, halted, their
    /// family tree stays whole. Returns how many there were besides the shim. Blocks for at most 10 s.
    pub(super) fn kill(&mut self) -> Result<usize, Survivors> {
        let begun = Instant::now();
        let mut killed = HashSet::new();
        if let Some(shim) = self.shim {
            // Halted, so that it starts nothing in place of what ends.
            let _ = shim.signal(Signal::STOP);
        }
        loop {
            let mut targets = self.find(&Process::all().unwrap_or_default());
            if targets.is_empty() {
                return Ok(killed.iter().filter(|id| Some(**id) != self.shim).count());
            }
            // The shim is spared while others live, but not for ever.
            if targets.iter().any(|id| Some(*id) != self.shim) && begun.elapsed() < PATIENCE / 4 {
                targets.retain(|id| Some(*id) != self.shim);
            }
            for id in &targets {
                killed.insert(*id);
                if let Err(error) = id.signal(Signal::KILL) {
                    tracing::warn!(pid = id.pid, %error, "cannot kill a process of a sandbox");
                }
            }
            if begun.elapsed() >= PATIENCE {
                return Err(Survivors(targets.len()));
            }
            // One look at these is cheap, a search of `/proc` is not.
            for _ in 0..PAUSES {
                std::thread::sleep(PAUSE);
                if targets.iter().all(|id| id.find().is_none()) {
                    break;
                }
            }
        }
    }

    /// The living processes of the sandbox among `all`.
    pub(super) fn find(&mut self, all: &[Process]) -> Vec<ProcessId> {
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        // A number whose leader is another process now was given anew: it says nothing any more.
        let still = |leader: &&ProcessId| {
            !all.iter()
                .any(|process| process.id.pid == leader.pid && process.id != **leader)
        };
        let sessions: HashSet<i32> = self.sessions.iter().filter(still).map(|id| id.pid).collect();
        let groups: HashSet<i32> = self.groups.iter().filter(still).map(|id| id.pid).collect();
        let mut ours: HashSet<i32> = HashSet::new();
        for process in all
            .iter()
            .filter(|process| process.id.pid != own && process.id.pid != 1)
        {
            if self.known.contains(&process.id)
                || sessions.contains(&process.session)
                || groups.contains(&process.group)
                || self.is_unknown_shim(process)
                || self.is_marked(process)
            {
                ours.insert(process.id.pid);
            }
        }
        // Children of ours are ours, to any depth.
        loop {
            let before = ours.len();
            let below = all
                .iter()
                .filter(|process| ours.contains(&process.parent) && process.id.pid != own);
            let below: Vec<i32> = below.map(|process| process.id.pid).collect();
            ours.extend(below);
            if ours.len() == before {
                break;
            }
        }
        let living = all
            .iter()
            .filter(|process| ours.contains(&process.id.pid) && !process.ended);
        let living: Vec<ProcessId> = living.map(|process| process.id).collect();
        self.known.extend(living.iter().copied());
        living
    }

    fn is_unknown_shim(&self, process: &Process) -> bool {
        let words = self.unknown_shim.as_ref();
        words.is_some_and(|(program, dir)| process.runs(program, dir))
    }

    fn is_marked(&mut self, process: &Process) -> bool {
        if self.unmarked.contains(&process.id) {
            return false;
        }
        let environment = process.environment();
        let marked = has_variable(&environment, &self.variable);
        // It is empty for a moment of an exec.
        if !marked && !environment.is_empty() {
            self.unmarked.insert(process.id);
        }
        marked
    }
}
