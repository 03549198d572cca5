//! The count of processes that Linux killed because the container ran out of memory, as the container itself sees it.

use std::cell::Cell;
use std::fs;
use std::path::Path;

/// File in control groups of version 2, and of version 1. Both have a line `oom_kill <count>`.
const FILES: &[&str] = &[
    "/sys/fs/cgroup/memory.events",
    "/sys/fs/cgroup/memory/memory.oom_control",
];

/// Counts kills.
#[derive(Debug, Default)]
pub(crate) struct OomKills {
    /// `None`: they are not counted.
    seen: Cell<Option<OomCounts>>,
}

/// The count at the last two looks.
#[derive(Clone, Copy, Debug)]
struct OomCounts {
    older: u64,
    newer: u64,
}

impl OomCounts {
    fn at(count: u64) -> Self {
        Self {
            older: count,
            newer: count,
        }
    }

    /// The count now. Growth is fresh until the second look after it.
    fn look(self, now: u64) -> Self {
        Self {
            older: self.newer,
            newer: now,
        }
    }
}

impl OomKills {
    /// Counts from now on, where there is a count.
    pub(crate) fn counted() -> Self {
        Self {
            seen: Cell::new(read().map(OomCounts::at)),
        }
    }

    /// Looks at the count, so that a kill is not taken for the cause of a death long after it. Every few seconds.
    pub(crate) fn look(&self) {
        if let (Some(seen), Some(now)) = (self.seen.get(), read()) {
            self.seen.set(Some(seen.look(now)));
        }
    }

    /// Returns true if there was a kill that was not attributed to a death yet.
    pub(crate) fn have_grown(&self) -> bool {
        let (Some(seen), Some(now)) = (self.seen.get(), read()) else {
            return false;
        };
        self.seen.set(Some(OomCounts::at(now)));
        now > seen.older
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

    #[test]
    fn a_kill_is_not_the_cause_of_a_death_long_after() {
        // A child is killed for memory, and the kernel lives on.
        let seen = OomCounts::at(4).look(5);
        assert!(5 > seen.older, "one look does not make it old");
        assert_eq!(seen.look(5).older, 5);
    }
}
