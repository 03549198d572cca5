//! Processes below the shim, as `/proc` shows them. Where `/proc` is not mounted all lists are empty.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::time::Duration;

use himalia_proc::Stat;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Most processes that are looked at.
const PROCESSES_MAX: usize = 65_536;
/// Longest time in which the shim tries to kill the remaining processes of a kernel.
const SWEEP: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Clock ticks after boot; with the pid it names the process for ever.
    pub(crate) started: u64,
    /// It has ended and waits for its parent.
    pub(crate) zombie: bool,
    /// CPU time of it and its reaped children, milliseconds.
    pub(crate) cpu_ms: u64,
    /// Resident memory, bytes.
    pub(crate) rss: u64,
}

/// Reads one process; `None` when there is no such.
pub(crate) fn read(pid: i32) -> Option<Process> {
    Stat::read(pid).map(Process::from)
}

impl From<Stat> for Process {
    fn from(stat: Stat) -> Self {
        let ticks = stat.cpu_ticks.saturating_add(stat.children_cpu_ticks);
        Self {
            pid: stat.pid,
            parent: stat.parent,
            group: stat.group,
            session: stat.session,
            started: stat.started,
            zombie: stat.ended,
            cpu_ms: ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1),
            rss: stat
                .resident_pages
                .saturating_mul(rustix::param::page_size() as u64),
        }
    }
}

/// All processes that can be seen.
fn all() -> Vec<Process> {
    let stats = Stat::all().into_iter().flatten();
    stats.take(PROCESSES_MAX).map(Process::from).collect()
}

/// The processes below `root`, without it; those in `except` and everything below them are left out.
pub(crate) fn below(root: i32, except: &HashSet<i32>) -> Vec<Process> {
    let all = all();
    let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
    for process in &all {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            if !except.contains(&child.pid) {
                open.push(child.pid);
                found.push(*child);
            }
        }
    }
    found
}

/// A process and everything below it, found through `/proc/<pid>/task/*/children` (a scan of all processes would cost
/// each shim of a host what the whole host runs).
pub(crate) fn tree(root: i32) -> Vec<Process> {
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        let Some(process) = read(pid) else { continue };
        found.push(process);
        if found.len() >= PROCESSES_MAX {
            break;
        }
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            open.extend(
                children
                    .split_ascii_whitespace()
                    .filter_map(|child| child.parse::<i32>().ok()),
            );
        }
    }
    found
}

/// Kills what `victims` names, again and again, until it names none or two seconds have passed. Says how many
/// processes were killed and how many are left.
pub(crate) async fn sweep(mut victims: impl FnMut() -> Vec<Process>) -> (u32, u32) {
    let end = tokio::time::Instant::now() + SWEEP;
    let mut killed = HashSet::new();
    loop {
        let left: Vec<Process> = victims().into_iter().filter(|process| !process.zombie).collect();
        if left.is_empty() || tokio::time::Instant::now() >= end {
            let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            return (
                count(killed.len() - left.len().min(killed.len())),
                count(left.len()),
            );
        }
        // Groups first: a signal to a group reaches also what is being forked in it.
        for group in left.iter().map(|process| process.group).collect::<BTreeSet<_>>() {
            let leader_is_ours = left
                .iter()
                .any(|process| process.group == group && process.pid == group);
            if let Some(group) = Pid::from_raw(group).filter(|_| leader_is_ours) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        for process in &left {
            killed.insert((process.pid, process.started));
            if let Some(pid) = Pid::from_raw(process.pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_memory_have_their_units() {
        let line = b"42 (a) b (c) S 1 40 39 0 -1 4194304 9 0 0 0 100 50 25 25 20 0 1 0 777 1000 3 184467";
        let process = Process::from(Stat::parse(line).unwrap());
        assert_eq!(
            (process.pid, process.parent, process.group, process.session),
            (42, 1, 40, 39)
        );
        assert_eq!((process.started, process.zombie), (777, false));
        assert_eq!(process.cpu_ms, 200_000 / rustix::param::clock_ticks_per_second());
        assert_eq!(process.rss, 3 * rustix::param::page_size() as u64);
    }

    #[test]
    fn we_are_in_our_own_tree() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(tree(own).first().map(|process| process.pid), Some(own));
        assert!(
            below(own, &HashSet::new())
                .iter()
                .all(|process| process.pid != own)
        );
    }
}
