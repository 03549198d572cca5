//! Measures the memory of a sandbox from `/proc`, if it has no control group.
//!
//! The quick measure counts a page for each process that has it, and so counts too much where processes were forked
//! from one another, or from a zygote. It is enough while it is small. Above half of the limit each page is shared out
//! among those that have it (`Pss`); what is shared with a zygote then counts next to nothing.

use crate::host::proc::{Process, ProcessId};

/// Memory of a sandbox's processes together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Reading {
    /// Memory that is not a file's, in bytes.
    pub(super) bytes: u64,
    /// The process that has most of it.
    pub(super) biggest: Option<ProcessId>,
}

impl Reading {
    /// Measures these processes as well as the limit needs it.
    pub(super) fn take(processes: &[Process], limit: u64) -> Self {
        let first = Self::sum(processes, quick);
        if first.bytes <= limit / 2 {
            return first;
        }
        Self::sum(processes, |process| {
            exact(process).unwrap_or_else(|| quick(process))
        })
    }

    fn sum(processes: &[Process], measure: impl Fn(&Process) -> u64) -> Self {
        let measured: Vec<(u64, ProcessId)> = processes
            .iter()
            .map(|process| (measure(process), process.id))
            .collect();
        Self {
            bytes: measured
                .iter()
                .fold(0, |sum, (bytes, _)| sum.saturating_add(*bytes)),
            biggest: measured.iter().max_by_key(|(bytes, _)| *bytes).map(|(_, id)| *id),
        }
    }
}

/// At least what it has.
fn quick(process: &Process) -> u64 {
    process
        .memory_fields("status", &["RssAnon", "RssShmem", "VmSwap"])
        .unwrap_or(0)
}

/// Proportional memory of the process. `None` on operating system kernels before 5.9, or without permission for its files in `/proc`.
fn exact(process: &Process) -> Option<u64> {
    process.memory_fields("smaps_rollup", &["Pss_Anon", "Pss_Shmem", "SwapPss"])
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A Python process that holds so many mebibytes, or the same ones in two processes.
    fn holder(code: &str) -> Child {
        let mut child = Command::new("/usr/bin/python3")
            .args(["-c", code])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }

    fn read(child: &Child, limit: u64) -> Reading {
        let root = Process::read(i32::try_from(child.id()).unwrap()).unwrap();
        let family = crate::host::proc::family(&Process::all().unwrap(), root.id);
        Reading::take(&family, limit)
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn shared_pages_count_once_near_the_limit() {
        let child = holder(
            "import os, sys\nheld = b'x' * (64 << 20)\nif os.fork():\n  print('ready', flush=True)\nsys.stdin.read()",
        );
        let far = read(&child, 1 << 40).bytes;
        assert!(far > 120 << 20, "{far}");
        let near = read(&child, 100 << 20).bytes;
        assert!((64 << 20..100 << 20).contains(&near), "{near}");
        end(child);
    }

    #[test]
    fn the_biggest_process_is_named() {
        let child = holder(
            "import os, sys\nif os.fork():\n  held = b'x' * (64 << 20)\n  print('ready', flush=True)\nsys.stdin.read()",
        );
        let reading = read(&child, 1 << 20);
        assert_eq!(reading.biggest.map(|id| id.pid), i32::try_from(child.id()).ok());
        end(child);
        assert_eq!(
            Reading::take(&[], 1),
            Reading {
                bytes: 0,
                biggest: None
            }
        );
    }
}
