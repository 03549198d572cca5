//! Lifecycle records: events of the shim and decisions of the engine, as JSON bodies.

use himalia_model::Unanswered;
use himalia_shim_protocol::{Event as ShimEvent, KernelExited, KernelStopped};
use serde::{Deserialize, Serialize};

use crate::executions::records::SandboxLoss;
use crate::meta::event_body;

/// Initiator of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopBy {
    /// A request of this gateway, or of an earlier one.
    Gateway,
    /// Not a gateway: the whole sandbox was ended, for example by a container engine that stops, or a host that goes down.
    Outside,
}

impl StopBy {
    /// Without a request it was not a gateway that asked the shim.
    pub(crate) fn of(stopped: &KernelStopped) -> Self {
        if stopped.request.is_some() {
            Self::Gateway
        } else {
            Self::Outside
        }
    }
}

/// The cause of death of a kernel whose sandbox was ended from outside.
pub(crate) const ENDED_FROM_OUTSIDE: &str = "sandbox_lost: it was ended from outside";

/// The body of a lifecycle record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum LifecycleRecord {
    Started {
        incarnation: u32,
    },
    /// A process could not be started.
    StartFailed {
        reason: String,
    },
    /// A process ended.
    Exited(KernelExited),
    /// A stop is complete.
    Stopped {
        killed: u32,
        left: u32,
        by: StopBy,
    },
    /// The shim took a request and did not do it, and will not. `record` is the number of the request's record, 0 if it
    /// has none; with `again` it is sent again, under a new one.
    Refused {
        reason: String,
        record: u64,
        again: bool,
    },
    /// The engine starts the next process after a crash.
    Restarting {
        cause: String,
        crashes: u32,
    },
    /// The sandbox is gone for the cause, and the kernel continues in a new one. Its processes are numbered from `processes` on.
    NewSandbox {
        cause: String,
        processes: u32,
        lost: SandboxLoss,
    },
    /// The kernel is dead; `over` if it was meant to end, so that nothing of it is kept.
    Dead {
        cause: String,
        over: bool,
    },
    /// The kernel has received what it was claimed with, or could not.
    Bound {
        ok: bool,
    },
    /// A branch was made. Process id and directory as the sandbox sees them.
    Forked {
        pid: i32,
        cwd: String,
    },
    /// A branch was not made.
    ForkFailed {
        reason: String,
    },
    /// A link was opened for an additional kernel of the session.
    LinkAdded,
    /// An execution took longer than its limit: what is done about it (`interrupt`, `kill`).
    ExecutionLimit {
        step: String,
    },
    /// The kept files take more space than they may: what is done about it (`refuse` further executions, `interrupt`,
    /// `kill`).
    DiskQuota {
        used_bytes: u64,
        limit_bytes: u64,
        step: String,
    },
    /// The process runs and does not answer: what it leaves unanswered, and what can be done.
    Unresponsive {
        problem: Unanswered,
        advice: String,
    },
    /// It answers again.
    Responsive,
    /// Requests of earlier epochs that the shim never accepted: they are sent again. Journal numbers of their records.
    Carried {
        requests: Vec<u64>,
    },
    /// A record of a later version.
    #[serde(other)]
    Unknown,
}

impl LifecycleRecord {
    /// Record of an event of the shim. Of a refusal also the number of the request's record, and whether it is sent again.
    pub(crate) fn of(event: &ShimEvent, (record, again): (u64, bool)) -> Self {
        match event {
            ShimEvent::Started(started) => Self::Started {
                incarnation: started.incarnation,
            },
            ShimEvent::StartFailed(failed) => Self::StartFailed {
                reason: failed.reason.clone(),
            },
            ShimEvent::Exited(exited) => Self::Exited(exited.clone()),
            ShimEvent::Stopped(stopped) => Self::Stopped {
                killed: stopped.killed,
                left: stopped.left,
                by: StopBy::of(stopped),
            },
            ShimEvent::Bound(bound) => Self::Bound { ok: bound.ok },
            ShimEvent::Forked(forked) => Self::Forked {
                pid: forked.pid,
                cwd: forked.cwd.clone(),
            },
            ShimEvent::ForkFailed(failed) => Self::ForkFailed {
                reason: failed.reason.clone(),
            },
            ShimEvent::LinkAdded(_) => Self::LinkAdded,
            ShimEvent::Refused(refused) => Self::Refused {
                reason: refused.reason.clone(),
                record,
                again,
            },
        }
    }

    pub(crate) fn to_body(&self) -> bytes::Bytes {
        event_body(self)
    }
}

#[cfg(test)]
mod tests {
    use himalia_shim_protocol::Cause;

    use super::*;

    #[test]
    fn records_come_back() {
        let exited = KernelExited {
            incarnation: 2,
            pid: 7,
            cause: Cause::Signal { signal: 9 },
            asked: false,
            detail: String::new(),
            stderr_tail: "x".into(),
            last_data: 12,
            usage: None,
            out_of_memory: false,
        };
        for record in [
            LifecycleRecord::Exited(exited),
            LifecycleRecord::Dead {
                cause: "oom".into(),
                over: true,
            },
            LifecycleRecord::Carried { requests: vec![1, 2] },
            LifecycleRecord::Refused {
                reason: "no".into(),
                record: 3,
                again: true,
            },
        ] {
            assert_eq!(
                serde_json::from_slice::<LifecycleRecord>(&record.to_body()).unwrap(),
                record
            );
        }
        let later = serde_json::from_str::<LifecycleRecord>(r#"{"event":"teleported"}"#).unwrap();
        assert_eq!(later, LifecycleRecord::Unknown);
    }
}
