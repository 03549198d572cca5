//! A process that has ended, while its last output, or the cause of its death, is still to come.

use himalia_shim_protocol::{Cause, KernelExited};

use super::records::StopBy;

/// Longest time that a death by SIGKILL waits for the check of memory, in microseconds.
pub const MEMORY_WAIT: u64 = 2_000_000;
/// Time that a death waits for the output before it, in microseconds.
const FLUSH_WAIT: u64 = 5_000_000;
/// Characters of a detail, or of the last line of standard error, that a cause carries.
const DETAIL_CHARS: usize = 200;
/// Signal 9, whatever the architecture.
const SIGKILL: i32 = 9;

/// The end of a process that is not dealt with yet.
#[derive(Debug)]
pub(super) struct PendingExit {
    pub(super) exited: KernelExited,
    /// Until when its output is waited for, monotonic.
    pub(super) deadline: u64,
    /// The stop that it belongs to is complete.
    pub(super) stopped: Option<StopBy>,
    /// Until when it is waited for to know whether memory was the cause, monotonic.
    pub(super) memory: Option<u64>,
    pub(super) oom: bool,
}

impl PendingExit {
    pub(super) fn new(exited: KernelExited, mono: u64) -> Self {
        let is_oom = exited.out_of_memory && is_killed(&exited);
        Self {
            exited,
            deadline: mono + FLUSH_WAIT,
            stopped: None,
            memory: None,
            oom: is_oom,
        }
    }

    /// True if it has to be checked if the kernel ran out of memory.
    pub(super) fn may_be_oom(&self) -> bool {
        !self.oom && is_killed(&self.exited)
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

fn is_killed(exited: &KernelExited) -> bool {
    !exited.asked && exited.cause == (Cause::Signal { signal: SIGKILL })
}

/// Text of a cause of death.
fn cause_text(exited: &KernelExited) -> String {
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
        text.extend(more.chars().filter(|char| !char.is_control()).take(DETAIL_CHARS));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(signal: i32, asked: bool) -> PendingExit {
        let exited = KernelExited {
            incarnation: 1,
            pid: 7,
            cause: Cause::Signal { signal },
            asked,
            detail: String::new(),
            stderr_tail: String::new(),
            last_data: 0,
            usage: None,
            out_of_memory: true,
        };
        PendingExit::new(exited, 0)
    }

    #[test]
    fn a_shim_that_counts_explains_a_kill_and_nothing_else() {
        let killed = exit(SIGKILL, false);
        assert!(!killed.may_be_oom(), "nothing is to be found out");
        assert_eq!(killed.cause(), "oom");
        for other in [exit(11, false), exit(SIGKILL, true)] {
            assert_ne!(other.cause(), "oom");
        }
    }
}
