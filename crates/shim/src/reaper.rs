use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use himalia_shim_protocol::Cause;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, wait, waitid};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::proc_tree;

/// Ends of children that were not watched yet: this many are kept …
const UNKNOWN_MAX: usize = 256;
/// … for this long.
const UNKNOWN_KEPT: Duration = Duration::from_secs(30);
/// For a process that was forked twice to become our child.
const REPARENT: Duration = Duration::from_secs(2);

/// End of a watched process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    /// Exit code or signal.
    pub(crate) cause: Cause,
    /// CPU time that it and its reaped children had used, milliseconds.
    pub(crate) cpu_ms: Option<u64>,
}

/// The one place that waits for children. Orphans of the sandbox are reaped here too.
#[derive(Debug, Default)]
pub(crate) struct Reaper {
    watched: RefCell<HashMap<i32, oneshot::Sender<Death>>>,
    /// Children that ended before it was said that they are kernels; oldest first.
    unknown: RefCell<VecDeque<(i32, Death, Instant)>>,
}

impl Reaper {
    /// Tells when a process that was just spawned ends. Must be called in the same poll as its spawn, before the next
    /// [`Reaper::reap`].
    pub(crate) fn watch(&self, pid: Pid) -> oneshot::Receiver<Death> {
        let pid = pid.as_raw_nonzero().get();
        // The number is in use again.
        self.unknown.borrow_mut().retain(|(other, ..)| *other != pid);
        let (sender, receiver) = oneshot::channel();
        self.watched.borrow_mut().insert(pid, sender);
        receiver
    }

    /// Watches a process that another process has forked twice, so that it is, or is about to be, our child. It may have
    /// ended already. `None` when it is not our child, or another kernel.
    pub(crate) async fn adopt(&self, pid: Pid) -> Option<oneshot::Receiver<Death>> {
        let begin = Instant::now();
        loop {
            let raw = pid.as_raw_nonzero().get();
            if self.watched.borrow().contains_key(&raw) {
                return None;
            }
            let child = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if waitid(WaitId::Pid(pid), child).is_ok() {
                return Some(self.watch(pid));
            }
            if let Some(death) = self.take_unknown(raw) {
                let (sender, receiver) = oneshot::channel();
                let _ = sender.send(death);
                return Some(receiver);
            }
            if begin.elapsed() > REPARENT {
                return None;
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    fn take_unknown(&self, pid: i32) -> Option<Death> {
        let mut unknown = self.unknown.borrow_mut();
        let at = unknown.iter().position(|(other, ..)| *other == pid)?;
        let (_, death, since) = unknown.remove(at)?;
        (since.elapsed() < UNKNOWN_KEPT).then_some(death)
    }

    /// The watched processes that have not been reaped.
    pub(crate) fn watched(&self) -> HashSet<i32> {
        self.watched.borrow().keys().copied().collect()
    }

    /// Reaps everything that has ended. One SIGCHLD may stand for many children.
    pub(crate) fn reap(&self) {
        let used = self.cpu_of_zombies();
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get();
            let cause = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Cause::Exit { code },
                (None, Some(signal)) => Cause::Signal { signal },
                (None, None) => Cause::Unknown,
            };
            let death = Death {
                cause,
                cpu_ms: used.get(&pid).copied(),
            };
            if let Some(sender) = self.watched.borrow_mut().remove(&pid) {
                // The kernel's actor may be gone: then it does not matter.
                let _ = sender.send(death);
            } else {
                self.keep_unknown(pid, death);
            }
        }
    }

    fn keep_unknown(&self, pid: i32, death: Death) {
        let mut unknown = self.unknown.borrow_mut();
        while unknown.len() >= UNKNOWN_MAX
            || unknown
                .front()
                .is_some_and(|(.., since)| since.elapsed() >= UNKNOWN_KEPT)
        {
            unknown.pop_front();
        }
        unknown.push_back((pid, death, Instant::now()));
    }

    /// Processor time of ended processes that wait to be reaped; unavailable after that.
    fn cpu_of_zombies(&self) -> HashMap<i32, u64> {
        let watched = self.watched.borrow();
        let zombies = watched
            .keys()
            .filter_map(|pid| proc_tree::read(*pid))
            .filter(|process| process.zombie);
        zombies.map(|process| (process.pid, process.cpu_ms)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn death(code: i32) -> Death {
        Death {
            cause: Cause::Exit { code },
            cpu_ms: None,
        }
    }

    fn pid(raw: i32) -> Pid {
        Pid::from_raw(raw).unwrap()
    }

    #[tokio::test]
    async fn an_end_that_came_before_the_adoption_is_told() {
        let reaper = Reaper::default();
        reaper.keep_unknown(i32::MAX - 1, death(7));
        let end = reaper.adopt(pid(i32::MAX - 1)).await.unwrap().await.unwrap();
        assert_eq!(end.cause, Cause::Exit { code: 7 });
        // It is reported once, and what is no child of ours is not adopted.
        assert!(reaper.adopt(pid(i32::MAX - 1)).await.is_none());
        assert!(reaper.adopt(pid(1)).await.is_none());
    }

    #[tokio::test]
    async fn ends_of_unknown_children_are_bounded_and_forgotten() {
        let reaper = Reaper::default();
        for raw in 1..=1000 {
            reaper.keep_unknown(raw, death(0));
        }
        assert_eq!(reaper.unknown.borrow().len(), UNKNOWN_MAX);
        assert!(reaper.take_unknown(1).is_none());
        assert!(reaper.take_unknown(1000).is_some());
        for (.., since) in &mut *reaper.unknown.borrow_mut() {
            *since -= UNKNOWN_KEPT;
        }
        assert!(reaper.take_unknown(999).is_none());
        reaper.keep_unknown(2000, death(0));
        assert_eq!(reaper.unknown.borrow().len(), 1);
        // A new process with the number of an old one has its own end.
        let _receiver = reaper.watch(pid(2000));
        assert!(reaper.take_unknown(2000).is_none());
    }
}
