//! The life of a kernel: which process it has, and what is being done to it.

use himalia_shim_protocol::{Exited, RequestId};
use serde::{Deserialize, Serialize};

use super::executions::records::{Replaced, SandboxLoss};
use super::lifecycle::StopBy;

/// What is being done to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No process was asked for yet.
    New,
    /// The first process was asked for.
    Starting,
    /// A process runs.
    Running,
    /// The next process was asked for.
    Restarting,
    /// The end was asked for.
    Stopping,
    /// It ended and nobody had asked for that. It can be restarted while its sandbox lives.
    Dead,
    /// It is over.
    Over,
}

/// How long a death by SIGKILL waits to be known for want of memory, microseconds, at most.
pub const MEMORY_WAIT: u64 = 2_000_000;
/// A restart by the engine resets its count after a process lived this long (jupyter's `stable_start_time`), micros.
pub(super) const STABLE: u64 = 10_000_000;
/// How long a death waits for the output before it, microseconds.
pub(super) const FLUSH_WAIT: u64 = 5_000_000;

#[derive(Debug)]
pub(super) struct Life {
    pub(super) phase: Phase,
    /// Of the present or last process; 0 before the first.
    pub(super) incarnation: u32,
    /// When that process was seen to start, monotonic.
    pub(super) since: u64,
    /// Automatic restarts in a row.
    pub(super) crashes: u32,
    /// A client has told this incarnation to end.
    pub(super) told_to_end: bool,
    /// A process has ended, its output is not complete yet.
    pub(super) exit: Option<PendingExit>,
    /// Why the kernel is in its state, where that needs saying.
    pub(super) reason: Option<String>,
    /// A sandbox that is gone cannot start anything.
    pub(super) sandbox_gone: bool,
    /// It is in a new sandbox, which has not started a process yet.
    pub(super) moving: bool,
    /// Processes in the sandboxes before this one: a shim counts its own from 1.
    pub(super) processes_before: u32,
    /// What was lost with the sandbox before, until it is said to the next execution.
    pub(super) loss: Option<SandboxLoss>,
    pub(super) waiters: Vec<Waiter>,
    /// The present stop is over at this time at the latest, monotonic.
    pub(super) stop_deadline: Option<u64>,
}

#[derive(Debug)]
pub(super) struct PendingExit {
    pub(super) exited: Exited,
    pub(super) deadline: u64,
    /// The stop that it belongs to is complete.
    pub(super) stopped: Option<StopBy>,
    /// Until when it is waited for to know whether memory was the cause.
    pub(super) memory: Option<u64>,
    /// It was.
    pub(super) oom: bool,
}

impl PendingExit {
    pub(super) fn new(exited: Exited, deadline: u64) -> Self {
        Self {
            exited,
            deadline,
            stopped: None,
            memory: None,
            oom: false,
        }
    }

    /// The cause of death.
    pub(super) fn cause(&self) -> String {
        if self.oom {
            "oom".to_owned()
        } else {
            cause_text(&self.exited)
        }
    }
}

/// A caller that waits for the end of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) token: u64,
    pub(super) what: Awaited,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// The next process, started by this request.
    Process(RequestId),
    /// Readiness, to be interrupted then.
    Ready,
    /// That the kernel was told what it was claimed with, by this request.
    Bound(RequestId),
    /// A branch, made by this request.
    Branch(RequestId),
    /// A link, opened by this request.
    Link(RequestId),
}

impl Awaited {
    /// The request whose end is awaited.
    pub(super) fn request(self) -> Option<RequestId> {
        match self {
            Self::Process(id) | Self::Bound(id) | Self::Branch(id) | Self::Link(id) => Some(id),
            Self::Ready => None,
        }
    }
}

impl Life {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::New,
            incarnation: 0,
            since: 0,
            crashes: 0,
            told_to_end: false,
            exit: None,
            reason: None,
            sandbox_gone: false,
            moving: false,
            processes_before: 0,
            loss: None,
            waiters: Vec::new(),
            stop_deadline: None,
        }
    }

    /// A process was started: after a crash it stays known why, since the variables are gone; otherwise there is nothing
    /// to say any more. Comes before the phase changes.
    pub(super) fn settle_reason(&mut self) {
        if self.phase != Phase::Restarting || self.crashes == 0 {
            self.reason = None;
        }
    }

    /// When something of it is waited for no longer, monotonic microseconds.
    pub(super) fn deadline(&self) -> Option<u64> {
        let exit = self.exit.as_ref();
        let output = exit.map(|exit| exit.deadline);
        let memory = exit.and_then(|exit| exit.memory);
        [output, memory, self.stop_deadline].into_iter().flatten().min()
    }

    /// The process before, for the first execution in a new one: what was lost with a sandbox is said once. `last` is the
    /// process that the latest execution was sent to, 0 = none was.
    pub(super) fn replaced(&mut self, last: u32) -> Option<Replaced> {
        let sandbox_lost = self.loss.take();
        let replaced = last != 0 && last != self.incarnation || sandbox_lost.is_some();
        replaced.then(|| Replaced {
            // Of a session that has run nothing its last process counts.
            incarnation: if last == 0 { self.processes_before } else { last },
            cause: self.reason.as_ref().map(|reason| {
                reason
                    .strip_prefix("restarted after ")
                    .unwrap_or(reason)
                    .to_owned()
            }),
            variables_lost: None,
            sandbox_lost,
        })
    }

    /// Whether a process runs, as far as is known.
    pub(super) fn runs(&self) -> bool {
        self.phase == Phase::Running && self.exit.is_none()
    }

    /// Whether somebody waits for a process.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited_process().is_some()
    }

    /// The request for the process that somebody waits for.
    pub(super) fn awaited_process(&self) -> Option<RequestId> {
        self.waiters.iter().find_map(|waiter| match waiter.what {
            Awaited::Process(id) => Some(id),
            _ => None,
        })
    }

    /// Takes out the waiters that `which` selects.
    pub(super) fn take(&mut self, which: impl Fn(Awaited) -> bool) -> Vec<u64> {
        let (out, keep) = std::mem::take(&mut self.waiters)
            .into_iter()
            .partition(|waiter| which(waiter.what));
        self.waiters = keep;
        out.into_iter().map(|waiter: Waiter| waiter.token).collect()
    }
}

/// How a cause of death reads.
pub(super) fn cause_text(exited: &Exited) -> String {
    use himalia_shim_protocol::Cause;
    let mut text = match exited.cause {
        Cause::Exit { code } => format!("exit({code})"),
        Cause::Signal { signal } => format!("signal({signal})"),
        Cause::ProtocolAbort => "protocol_abort".to_owned(),
        Cause::Unknown => "unknown".to_owned(),
    };
    let last_line = exited
        .stderr_tail
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty());
    let more = if exited.detail.is_empty() {
        last_line.unwrap_or_default().trim()
    } else {
        &exited.detail
    };
    if !more.is_empty() {
        text.push_str(": ");
        text.extend(more.chars().filter(|char| !char.is_control()).take(MORE_CHARS));
    }
    text
}

/// Characters of a detail, or of the last line of standard error, that a cause carries.
const MORE_CHARS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_stays_known_and_a_restart_that_was_asked_for_ends_that() {
        for (phase, crashes, kept) in [
            (Phase::Restarting, 1, true),
            (Phase::Restarting, 0, false),
            (Phase::Running, 1, false),
            (Phase::Starting, 0, false),
        ] {
            let reason = Some("restarted after exit(3)".to_owned());
            let mut life = Life {
                phase,
                crashes,
                reason,
                ..Life::new()
            };
            life.settle_reason();
            assert_eq!(life.reason.is_some(), kept, "{phase:?} {crashes}");
        }
    }
}
