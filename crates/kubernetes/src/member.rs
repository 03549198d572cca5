//! A sandbox that this process knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use himalia_provisioner::{Isolation, SandboxExit, SandboxId};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::observe::{End, PodPhase, observe};

/// One sandbox, from the call that makes its pod until that is gone.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: SandboxId,
    pub(crate) isolation: Isolation,
    /// Last state that the watch saw.
    pub(crate) observed: watch::Sender<PodPhase>,
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
            observed: watch::Sender::new(PodPhase::Waiting(None)),
            last: Mutex::default(),
            exit: watch::Sender::new(None),
            stopping: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            oom_kills: AtomicU64::new(0),
        })
    }

    /// The pod changed. An end is final.
    pub(crate) fn see(&self, pod: Pod) {
        self.keep(&mut self.last.lock(), pod);
    }

    /// The pod was made, and was like this then: what was seen of it meanwhile is newer, and may be the last that is seen for long.
    pub(crate) fn made(&self, pod: Pod) {
        let mut last = self.last.lock();
        if last.is_none() {
            self.keep(&mut last, pod);
        }
    }

    fn keep(&self, last: &mut Option<Pod>, pod: Pod) {
        let observed = observe(&pod);
        *last = Some(pod);
        self.set(observed);
    }

    pub(crate) fn set(&self, observed: PodPhase) {
        self.observed.send_if_modified(|before| {
            let changes = !matches!(before, PodPhase::Ended(_)) && *before != observed;
            if changes {
                *before = observed;
            }
            changes
        });
    }

    /// End of the pod, if it has ended.
    pub(crate) fn end(&self) -> Option<End> {
        match &*self.observed.borrow() {
            PodPhase::Ended(end) => Some(end.clone()),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_response_to_the_creation_of_a_pod_is_older_than_what_was_seen() {
        let pod = |status: serde_json::Value| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": "a"}, "status": status})).unwrap()
        };
        let waits = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "no node"}]});
        let member = Member::new(SandboxId::generate().unwrap(), Isolation::Container);
        member.made(pod(json!({"phase": "Pending"})));
        assert_eq!(*member.observed.borrow(), PodPhase::Waiting(None));
        member.see(pod(waits));
        member.made(pod(json!({"phase": "Pending"})));
        assert!(matches!(&*member.observed.borrow(), PodPhase::Waiting(Some(_))));
    }
}
