//! A sandbox that this process knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use himalia_sandbox::{Isolation, SandboxExit, SandboxId};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::observe::{End, Observed, observe};

/// One sandbox, from the call that makes its pod until that is gone.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: SandboxId,
    pub(crate) isolation: Isolation,
    /// What the watch last saw.
    pub(crate) observed: watch::Sender<Observed>,
    /// The pod as it was last seen.
    pub(crate) last: Mutex<Option<Pod>>,
    /// Set once, when nothing of it is left.
    pub(crate) exit: watch::Sender<Option<SandboxExit>>,
    pub(crate) stopping: AtomicBool,
    /// A task sees to its end already.
    ending: AtomicBool,
    oom_kills: AtomicU64,
}

impl Member {
    pub(crate) fn new(id: SandboxId, isolation: Isolation) -> Arc<Self> {
        Arc::new(Self {
            id,
            isolation,
            observed: watch::Sender::new(Observed::Waiting(None)),
            last: Mutex::default(),
            exit: watch::Sender::new(None),
            stopping: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            oom_kills: AtomicU64::new(0),
        })
    }

    /// The pod changed. An end is final.
    pub(crate) fn see(&self, pod: Pod) {
        let observed = observe(&pod);
        *self.last.lock() = Some(pod);
        self.set(observed);
    }

    pub(crate) fn set(&self, observed: Observed) {
        self.observed.send_if_modified(|before| {
            let changes = !matches!(before, Observed::Ended(_)) && *before != observed;
            if changes {
                *before = observed;
            }
            changes
        });
    }

    /// How it ended, if it has.
    pub(crate) fn end(&self) -> Option<End> {
        match &*self.observed.borrow() {
            Observed::Ended(end) => Some(end.clone()),
            _ => None,
        }
    }

    /// True for the one caller that sees to its end.
    pub(crate) fn begin_ending(&self) -> bool {
        !self.ending.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn count_oom(&self) {
        self.oom_kills.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn oom_kills(&self) -> u64 {
        self.oom_kills.load(Ordering::Relaxed)
    }
}
