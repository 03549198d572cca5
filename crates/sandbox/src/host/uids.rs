//! Host user ids of sandboxes.

use std::ops::RangeInclusive;

/// Host user ids that sandboxes have unless the operator says otherwise: above those that `useradd` gives to users for
/// containers (to 600,100,000), those of systemd's containers (to 1,879,048,191) and those that directory services give
/// to people (to 2,000,200,000), and below 2,147,352,576, from which on systemd has more. One gateway takes a part of
/// them ([`host_uid_parts`]).
pub const DEFAULT_HOST_UIDS: RangeInclusive<u32> = 2_100_000_000..=2_100_065_535;

/// Ids for a gateway whose user namespace does not contain the default ids.
pub const LOW_HOST_UIDS: RangeInclusive<u32> = 200_000..=265_535;

/// Parts that a range has, and so the gateways of one host that can share it.
const PARTS: u32 = 16;

/// The equal parts of a range of ids of which each gateway takes its own. What does not divide is left over.
pub fn host_uid_parts(range: &RangeInclusive<u32>) -> Vec<RangeInclusive<u32>> {
    let size = (u64::from(*range.end()) + 1).saturating_sub((*range.start()).into()) / u64::from(PARTS);
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let starts = (0..PARTS).map(|part| range.start() + part * size);
    starts
        .filter(|_| size > 0)
        .map(|start| start..=start + (size - 1))
        .collect()
}

/// Ids, assigned one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    ranges: Vec<RangeInclusive<u32>>,
    /// Start of the next search, so that a released id is not assigned again at once.
    next: u64,
}

impl Pool {
    /// The lower half of each range: for sandboxes of namespaces. Neither kind needs to know what the other has
    /// given, which an engine that is away does not tell.
    pub(crate) fn of_namespaces(ranges: &[RangeInclusive<u32>]) -> Self {
        Self::new(ranges.iter().map(|range| halves(range).0).collect(), 0)
    }

    /// The upper half of each range: for containers. The search begins somewhere, by `seed`.
    #[cfg(any(feature = "docker", test))]
    pub(crate) fn of_containers(ranges: &[RangeInclusive<u32>], seed: u64) -> Self {
        Self::new(ranges.iter().map(|range| halves(range).1).collect(), seed)
    }

    fn new(ranges: Vec<RangeInclusive<u32>>, seed: u64) -> Self {
        let mut pool = Self { ranges, next: 0 };
        pool.next = seed.checked_rem(pool.count()).unwrap_or(0);
        pool
    }

    pub(crate) fn count(&self) -> u64 {
        self.ranges.iter().map(count).sum()
    }

    /// The next id that is free.
    pub(crate) fn take(&mut self, is_free: impl Fn(u32) -> bool) -> Option<u32> {
        let all = self.count();
        let places = (self.next..all).chain(0..self.next);
        let (place, uid) = places
            .filter_map(|place| Some((place, self.nth(place)?)))
            .find(|(_, uid)| is_free(*uid))?;
        self.next = (place + 1) % all;
        Some(uid)
    }

    fn nth(&self, mut place: u64) -> Option<u32> {
        for range in &self.ranges {
            if place < count(range) {
                return range.start().checked_add(u32::try_from(place).ok()?);
            }
            place -= count(range);
        }
        None
    }
}

fn count(range: &RangeInclusive<u32>) -> u64 {
    (u64::from(*range.end()) + 1).saturating_sub((*range.start()).into())
}

fn halves(range: &RangeInclusive<u32>) -> (RangeInclusive<u32>, RangeInclusive<u32>) {
    let (start, end) = (*range.start(), *range.end());
    let last = start + end.saturating_sub(start) / 2;
    (start..=last, last.saturating_add(1)..=end)
}

/// Refuses ranges that no sandbox can have an id of.
pub(crate) fn check(ranges: &[RangeInclusive<u32>]) -> Result<(), crate::SandboxError> {
    if !ranges.is_empty() && ranges.iter().all(|range| *range.start() > 0 && !range.is_empty()) {
        return Ok(());
    }
    Err(crate::SandboxError::BadSpec {
        field: "host_uids",
        reason: "must be ranges of user ids above 0".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_same_size_and_nothing_in_common() {
        let parts = host_uid_parts(&DEFAULT_HOST_UIDS);
        assert_eq!(parts.len(), 16);
        assert_eq!(
            (&parts[0], &parts[15]),
            (&(2_100_000_000..=2_100_004_095), &(2_100_061_440..=2_100_065_535))
        );
        assert_eq!(host_uid_parts(&(10..=30))[1], 11..=11);
        assert!(host_uid_parts(&(10..=12)).is_empty());
    }

    #[test]
    fn namespaces_and_containers_never_have_the_same() {
        let ranges = [10..=12, 20..=23];
        let all = |mut pool: Pool| {
            let mut found = Vec::new();
            while let Some(uid) = pool.take(|uid| !found.contains(&uid)) {
                found.push(uid);
            }
            found
        };
        assert_eq!(all(Pool::of_namespaces(&ranges)), [10, 11, 20, 21]);
        assert_eq!(all(Pool::of_containers(&ranges, 4)), [22, 23, 12]);
        assert!(all(Pool::of_containers(&[10..=10], 7)).is_empty());
    }

    #[test]
    fn one_that_was_given_back_comes_last() {
        let mut pool = Pool::of_namespaces(&[1..=4]);
        let mut take = |busy: u32| pool.take(|uid| uid != busy);
        assert_eq!(
            [take(0), take(1), take(0), take(1)],
            [Some(1), Some(2), Some(1), Some(2)]
        );
    }
}
