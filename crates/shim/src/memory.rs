//! The count of processes that Linux killed because the container ran out of memory, as the container itself sees it.

use std::cell::Cell;
use std::fs;
use std::path::Path;

/// Where it is with control groups of version 2, and of version 1. Both have a line `oom_kill <count>`.
const FILES: [&str; 2] = [
    "/sys/fs/cgroup/memory.events",
    "/sys/fs/cgroup/memory/memory.oom_control",
];

/// Counts kills.
#[derive(Debug, Default)]
pub(crate) struct OomKills {
    /// At the last look; `None`: they are not counted.
    seen: Cell<Option<u64>>,
}

impl OomKills {
    /// Counts from now on, where there is a count.
    pub(crate) fn counted() -> Self {
        Self {
            seen: Cell::new(read()),
        }
    }

    /// Whether there were more since the last look.
    pub(crate) fn have_grown(&self) -> bool {
        let Some(before) = self.seen.get() else {
            return false;
        };
        let now = read();
        self.seen.set(now.or(Some(before)));
        now.is_some_and(|now| now > before)
    }
}

fn read() -> Option<u64> {
    let mut files = FILES.iter().map(Path::new);
    files.find_map(|file| count(&fs::read_to_string(file).ok()?))
}

fn count(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_have_the_line() {
        assert_eq!(count("low 0\noom 4\noom_kill 3\noom_group_kill 0\n"), Some(3));
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"), Some(2));
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\n"), None);
        assert!(!OomKills::default().have_grown());
    }
}
