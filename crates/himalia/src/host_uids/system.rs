//! User ids that the host gives to sandboxes: ids that are mapped here and that no user has for containers of their own.

use std::fs;
use std::ops::RangeInclusive;

use himalia_sandbox::{DEFAULT_HOST_UIDS, LOW_HOST_UIDS, host_uid_parts};

use super::{Range, shown};

/// User ids of this machine.
#[derive(Debug)]
pub(super) struct System {
    /// Range of which gateways reserve parts.
    pub(super) range: Range,
    subordinate: Vec<Subordinate>,
}

/// A range that a user may give to containers of their own, as a line of a file says.
#[derive(Debug)]
struct Subordinate {
    range: RangeInclusive<u64>,
    shown: String,
}

impl System {
    /// Reads the files of this machine. What cannot be read says nothing. Blocks.
    pub(super) fn look() -> Self {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        let maps = ["/proc/self/uid_map", "/proc/self/gid_map"].map(read);
        let files = ["/etc/subuid", "/etc/subgid"].map(|file| (file, read(file)));
        Self::of(&maps, &files)
    }

    pub(super) fn of(maps: &[String], subordinate: &[(&str, String)]) -> Self {
        let has_high = maps.iter().all(|map| is_mapped(map, &DEFAULT_HOST_UIDS));
        let lines = subordinate
            .iter()
            .flat_map(|(file, text)| text.lines().map(move |line| (*file, line)));
        Self {
            range: if has_high {
                DEFAULT_HOST_UIDS
            } else {
                LOW_HOST_UIDS
            },
            subordinate: lines
                .filter_map(|(file, line)| Subordinate::parse(file, line))
                .collect(),
        }
    }

    /// The parts of the range that no user has.
    pub(super) fn free_parts(&self) -> Vec<Range> {
        let mut parts = host_uid_parts(&self.range);
        parts.retain(|part| self.users_of(part).is_none());
        parts
    }

    /// The line that gives some of a range to a user.
    pub(super) fn users_of(&self, range: &Range) -> Option<&str> {
        let (first, last) = (u64::from(*range.start()), u64::from(*range.end()));
        let found = self
            .subordinate
            .iter()
            .find(|one| first <= *one.range.end() && *one.range.start() <= last);
        found.map(|one| one.shown.as_str())
    }

    /// Problem of a range that the operator has set, if there is one.
    pub(super) fn warning(&self, said: &Range) -> Option<String> {
        let line = self.users_of(said)?;
        Some(format!(
            "{} has ids that a user may give to containers ({line}): Linux counts those and sandboxes as one user; \
             set host_uids to an unused range",
            shown(said)
        ))
    }
}

impl Subordinate {
    /// `USER:FIRST:COUNT`, as in `subuid(5)`; `None` for any other line.
    fn parse(file: &str, line: &str) -> Option<Self> {
        let line = line.trim();
        let mut fields = line.split(':');
        let (Some(_), Some(first), Some(count), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return None;
        };
        let first: u64 = first.trim().parse().ok()?;
        let last = first.checked_add(count.trim().parse().ok()?)?.checked_sub(1)?;
        Some(Self {
            range: first..=last,
            shown: format!("{line} in {file}"),
        })
    }
}

/// Returns true if one line of a map of `user_namespaces(7)` has all ids of a range, or if there is no map.
fn is_mapped(map: &str, range: &Range) -> bool {
    let holds = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let first: u64 = fields.next()?.parse().ok()?;
        let count: u64 = fields.nth(1)?.parse().ok()?;
        let id = |id: u32| (first..first.saturating_add(count)).contains(&id.into());
        Some(id(*range.start()) && id(*range.end()))
    };
    map.is_empty() || map.lines().any(|line| holds(line).unwrap_or(false))
}
