//! Processes of this host, as `/proc` shows them.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

use himalia_proc::Stat;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use crate::Usage;

/// Bytes of an environment or a command line that are read.
const MAX_STRINGS: u64 = 2 << 20;

/// A process that cannot be mistaken for a later one with the same number: pid and start time.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    /// Clock ticks since boot (`proc(5)`, stat field 22).
    pub(crate) start: u64,
}

/// A process of this host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// It has ended and waits for its parent.
    pub(crate) ended: bool,
    /// User and system time, in clock ticks.
    pub(crate) cpu_ticks: u64,
}

impl ProcessId {
    /// The process, if it still lives.
    pub(crate) fn find(self) -> Option<Process> {
        Process::read(self.pid).filter(|process| process.id == self && !process.ended)
    }

    /// Sends a signal to this very process. One that is gone is no error.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<()> {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return Ok(());
        };
        let result = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            // The descriptor holds the number, so what is checked now is what is signalled.
            Ok(fd) if self.find().is_some() => rustix::process::pidfd_send_signal(&fd, signal),
            Ok(_) | Err(Errno::SRCH) => return Ok(()),
            // No pidfd here (gVisor, old kernels): a reused number between these two lines would be hit.
            Err(_) if self.find().is_some() => rustix::process::kill_process(pid, signal),
            Err(_) => return Ok(()),
        };
        match result {
            Err(Errno::SRCH) => Ok(()),
            other => Ok(other?),
        }
    }

    /// A descriptor that becomes readable when it ends; `None` where the kernel has none.
    pub(crate) fn pidfd(self) -> Option<OwnedFd> {
        let fd = rustix::process::pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        (Process::read(self.pid)?.id == self).then_some(fd)
    }
}

impl Process {
    /// One process, ended or not.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        Stat::read(pid).map(Self::from)
    }

    /// Every process that can be seen.
    pub(crate) fn all() -> io::Result<Vec<Self>> {
        Ok(Stat::all()?.map(Self::from).collect())
    }

    /// Environment at the time of the last exec: entries `NAME=value`, each with a NUL behind it. Empty where it cannot be read.
    pub(crate) fn environment(&self) -> Vec<u8> {
        self.strings("environ")
    }

    /// Returns true if the command line has `program` as its first or (for a script) second word, and `argument`.
    pub(crate) fn runs(&self, program: &[u8], argument: &[u8]) -> bool {
        let line = self.strings("cmdline");
        let mut words = line.split(|byte| *byte == 0);
        words.by_ref().take(2).any(|word| word == program)
            && line.split(|byte| *byte == 0).any(|word| word == argument)
    }

    /// Resident memory, in bytes.
    pub(crate) fn rss_bytes(&self) -> u64 {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.id.pid)).unwrap_or_default();
        let pages: u64 = statm
            .split(' ')
            .nth(1)
            .and_then(|field| field.parse().ok())
            .unwrap_or(0);
        pages * rustix::param::page_size() as u64
    }

    /// Fields of `/proc/<pid>/<file>`, which has lines `name: number kB`, added up in bytes; `None` if it cannot be read.
    pub(crate) fn memory_fields(&self, file: &str, names: &[&str]) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/{file}", self.id.pid)).ok()?;
        let kilobytes = text.lines().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            names.contains(&name).then_some(())?;
            value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        });
        Some(kilobytes.fold(0, u64::saturating_add).saturating_mul(1024))
    }

    fn strings(&self, file: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        // What cannot be read (not ours, just gone) is empty.
        if let Ok(file) = File::open(format!("/proc/{}/{file}", self.id.pid)) {
            let _ = file.take(MAX_STRINGS).read_to_end(&mut bytes);
        }
        bytes
    }
}

/// Returns true if [`Process::environment`] has this `NAME=value`.
pub(crate) fn has_variable(environment: &[u8], variable: &str) -> bool {
    environment
        .split(|byte| *byte == 0)
        .any(|entry| entry == variable.as_bytes())
}

/// Resident memory of these, in bytes; shared pages count in each.
pub(crate) fn resident(processes: &[Process]) -> u64 {
    processes
        .iter()
        .map(Process::rss_bytes)
        .fold(0, u64::saturating_add)
}

/// Resource use of these.
pub(crate) fn usage<'a>(processes: impl Iterator<Item = &'a Process>) -> Usage {
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    processes.fold(Usage::default(), |sum, process| Usage {
        processes: sum.processes + 1,
        rss_bytes: sum.rss_bytes.saturating_add(process.rss_bytes()),
        cpu_millis: sum
            .cpu_millis
            .saturating_add(process.cpu_ticks.saturating_mul(1000) / ticks_per_second),
    })
}

/// The living processes at and below `root`, to any depth, among `all`. In a PID namespace that is everything below its
/// first process.
pub(crate) fn family(all: &[Process], root: ProcessId) -> Vec<Process> {
    Tree::of(all).family([root])
}

/// All processes, for the families of many of them.
pub(crate) struct Tree<'a> {
    by_number: HashMap<i32, &'a Process>,
    children: HashMap<i32, Vec<&'a Process>>,
}

impl<'a> Tree<'a> {
    pub(crate) fn of(all: &'a [Process]) -> Self {
        let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
        for process in all {
            children.entry(process.parent).or_default().push(process);
        }
        Self {
            by_number: all.iter().map(|process| (process.id.pid, process)).collect(),
            children,
        }
    }

    /// As [`family`], of several: each process once.
    pub(crate) fn family(&self, roots: impl IntoIterator<Item = ProcessId>) -> Vec<Process> {
        let (mut family, mut seen, mut next) = (Vec::new(), HashSet::new(), 0);
        for root in roots {
            let first = self.by_number.get(&root.pid).filter(|process| process.id == root);
            family.extend(first.filter(|_| seen.insert(root.pid)).map(|process| **process));
        }
        while next < family.len() {
            let of: &Process = &family[next];
            let below = self.children.get(&of.id.pid);
            // What was read at different moments could seem to be a circle.
            let new = below
                .into_iter()
                .flatten()
                .filter(|process| seen.insert(process.id.pid));
            family.extend(new.map(|process| **process));
            next += 1;
        }
        family.retain(|process| !process.ended);
        family
    }
}

impl From<Stat> for Process {
    fn from(stat: Stat) -> Self {
        Self {
            id: ProcessId {
                pid: stat.pid,
                start: stat.started,
            },
            parent: stat.parent,
            group: stat.group,
            session: stat.session,
            ended: stat.ended,
            cpu_ticks: stat.cpu_ticks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_everything_below() {
        let process = |pid: i32, parent: i32| {
            let line = format!("{pid} (a) S {parent} 1 1 0 -1 0 1 0 0 0 1 2 0 0 20 0 1 0 {pid} 1 1");
            Process::from(Stat::parse(line.as_bytes()).unwrap())
        };
        let all =
            [(1, 0), (7, 1), (8, 7), (9, 8), (10, 1), (11, 7)].map(|(pid, parent)| process(pid, parent));
        let pids = |root: i32, start: u64| -> Vec<i32> {
            let family = family(&all, ProcessId { pid: root, start });
            family.iter().map(|process| process.id.pid).collect()
        };
        assert_eq!(pids(7, 7), [7, 8, 11, 9]);
        assert_eq!(pids(10, 10), [10]);
        let tree = Tree::of(&all);
        let both = tree.family([ProcessId { pid: 8, start: 8 }, ProcessId { pid: 7, start: 7 }]);
        assert_eq!(both.len(), 4, "each process once");
        // The number belongs to another process now.
        assert_eq!(pids(7, 6), [] as [i32; 0]);
        assert_eq!(
            super::family(&[process(5, 5)], ProcessId { pid: 5, start: 5 }).len(),
            1
        );
    }

    #[test]
    fn this_process_is_found_and_another_start_time_is_not() {
        let me = Process::read(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(me.id.find().is_some());
        assert!(
            ProcessId {
                start: me.id.start + 1,
                ..me.id
            }
            .find()
            .is_none()
        );
        assert!(me.id.pidfd().is_some());
        assert!(me.rss_bytes() > 0);
        assert!(Process::all().unwrap().iter().any(|process| process.id == me.id));
    }
}
