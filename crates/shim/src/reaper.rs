use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use rustix::process::{Pid, WaitOptions, wait};
use tokio::sync::oneshot;

use himalia_shim_protocol::Cause;

use crate::proc_tree;

/// How a watched process ended.
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
}

impl Reaper {
    /// Tells when the process ends. Must be called in the same poll as its spawn, before the next [`Reaper::reap`].
    pub(crate) fn watch(&self, pid: Pid) -> oneshot::Receiver<Death> {
        let (sender, receiver) = oneshot::channel();
        self.watched
            .borrow_mut()
            .insert(pid.as_raw_nonzero().get(), sender);
        receiver
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
            if let Some(sender) = self.watched.borrow_mut().remove(&pid) {
                // The kernel's actor may be gone: then nobody needs to know.
                let _ = sender.send(Death {
                    cause,
                    cpu_ms: used.get(&pid).copied(),
                });
            }
        }
    }

    /// What watched processes that wait to be reaped have used; gone once they are reaped.
    fn cpu_of_zombies(&self) -> HashMap<i32, u64> {
        let watched = self.watched.borrow();
        let zombies = watched
            .keys()
            .filter_map(|pid| proc_tree::read(*pid))
            .filter(|process| process.zombie);
        zombies.map(|process| (process.pid, process.cpu_ms)).collect()
    }
}
