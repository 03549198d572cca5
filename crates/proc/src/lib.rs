//! Processes, as `/proc/<pid>/stat` shows them.
//!
//! A process chooses its own name, with any bytes except NUL. So the line is read as bytes, the fields are counted from the last
//! `)`, and the name is not kept.

mod slice;

use std::{fs, io};

pub use slice::with_long_slice;

/// Fields of `proc_pid_stat(5)` for one process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stat {
    /// Process id.
    pub pid: i32,
    /// The parent's process id.
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// When the process started, in clock ticks since boot. With the pid it identifies a process permanently.
    pub started: u64,
    /// The process has ended, and its parent has not reaped it.
    pub ended: bool,
    /// User and system time of the process, in clock ticks.
    pub cpu_ticks: u64,
    /// User and system time of its reaped children, in clock ticks.
    pub children_cpu_ticks: u64,
    /// Resident memory, in pages.
    pub resident_pages: u64,
}

impl Stat {
    /// Reads one process; `None` if there is no such process.
    pub fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads all visible processes.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn all() -> io::Result<impl Iterator<Item = Self>> {
        let entries = fs::read_dir("/proc")?;
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        Ok(pids.filter_map(Self::read))
    }

    /// Parses the content of the file.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let name = line.iter().position(|byte| *byte == b'(')?;
        let end = line.iter().rposition(|byte| *byte == b')')?;
        let text = |bytes| std::str::from_utf8(bytes).ok();
        let pid = text(line.get(..name)?)?.trim().parse().ok()?;
        let fields: Vec<&str> = text(line.get(end + 1..)?)?.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let id = |index: usize| fields.get(index)?.parse::<i32>().ok();
        Some(Self {
            pid,
            parent: id(1)?,
            group: id(2)?,
            session: id(3)?,
            started: number(19)?,
            ended: matches!(*fields.first()?, "Z" | "X" | "x"),
            cpu_ticks: number(11)?.saturating_add(number(12)?),
            children_cpu_ticks: number(13)?.saturating_add(number(14)?),
            resident_pages: number(21)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Stat;

    #[test]
    fn a_name_cannot_confuse_the_fields() {
        for name in [&b"a"[..], b"a) S 1 1) (b", b"a) b (c", b"a\xff\xfe)", b"", b"\n"] {
            let line = [
                b"42 (",
                name,
                b") S 1 40 39 0 -1 4194304 9 0 0 0 100 50 25 20 20 0 1 0 777 1000 3 184467",
            ]
            .concat();
            let expected = Stat {
                pid: 42,
                parent: 1,
                group: 40,
                session: 39,
                started: 777,
                ended: false,
                cpu_ticks: 150,
                children_cpu_ticks: 45,
                resident_pages: 3,
            };
            assert_eq!(Stat::parse(&line), Some(expected), "{name:?}");
        }
    }

    #[test]
    fn an_incomplete_line_is_refused() {
        for line in ["", "42", "42 (x", "7 (a) R 1", "x (a) R 1", ")", "7 )a("] {
            assert_eq!(Stat::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn this_process_is_among_all() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let own = Stat::read(pid).unwrap();
        assert!(!own.ended && own.resident_pages > 0);
        assert!(
            Stat::all()
                .unwrap()
                .any(|other| (other.pid, other.started) == (pid, own.started))
        );
    }
}
