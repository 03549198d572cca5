//! Assigns a user id of the host to each sandbox.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use himalia_jail::HostIds;

use crate::SandboxError;
use crate::host::uids::{Pool, check};

/// As root, ids of which no two sandboxes have the same; nothing otherwise.
#[derive(Debug)]
pub(super) struct HostUids {
    given: Option<AssignedUids>,
    taken: BTreeSet<u32>,
}

#[derive(Debug)]
struct AssignedUids {
    pool: Pool,
    /// Ids reserved for owners of kept files.
    of_files: Vec<RangeInclusive<u32>>,
}

impl HostUids {
    /// `taken` are the ids of sandboxes that may live and of kept files. Files may have ids of `only_files`, too.
    pub(super) fn new(
        ranges: &[RangeInclusive<u32>],
        only_files: &[RangeInclusive<u32>],
        is_root: bool,
        taken: impl IntoIterator<Item = u32>,
    ) -> Result<Self, SandboxError> {
        let mut given = None;
        if is_root {
            check(ranges)?;
            given = Some(AssignedUids {
                pool: Pool::of_namespaces(ranges),
                of_files: [ranges, only_files].concat(),
            });
        }
        Ok(Self {
            given,
            taken: taken.into_iter().collect(),
        })
    }

    /// A free id; `None` if the gateway runs as an ordinary user.
    pub(super) fn take(&mut self) -> Result<Option<HostIds>, SandboxError> {
        let Some(AssignedUids { pool, .. }) = &mut self.given else {
            return Ok(None);
        };
        let found = pool.take(|uid| !self.taken.contains(&uid));
        let uid = found.ok_or_else(|| SandboxError::BadSpec {
            field: "host_uids",
            reason: format!("has no id left of {}", pool.count()),
        })?;
        self.taken.insert(uid);
        Ok(Some(HostIds { uid, gid: uid }))
    }

    /// The ids for files that belong to `owner` already.
    pub(super) fn of_files(&self, owner: u32) -> Result<Option<HostIds>, SandboxError> {
        let own = rustix::process::geteuid().as_raw();
        match &self.given {
            Some(given) if given.of_files.iter().any(|range| range.contains(&owner)) => Ok(Some(HostIds {
                uid: owner,
                gid: owner,
            })),
            None if owner == own => Ok(None),
            _ => Err(SandboxError::BadSpec {
                field: "files",
                reason: format!(
                    "belong to user {owner} on the host, which is not one of this gateway's sandboxes; chown them"
                ),
            }),
        }
    }

    /// Gives an id back.
    pub(super) fn release(&mut self, ids: Option<HostIds>) {
        if let Some(ids) = ids {
            self.taken.remove(&ids.uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_have_the_same_and_a_freed_one_comes_last() {
        let mut uids = HostUids::new(&[1001..=1008], &[], true, [1002]).unwrap();
        let mut take = || uids.take().map(|ids| ids.unwrap().uid);
        assert_eq!((take().unwrap(), take().unwrap()), (1001, 1003));
        uids.release(Some(HostIds { uid: 1001, gid: 1001 }));
        assert_eq!(uids.take().unwrap().unwrap().uid, 1004);
        assert_eq!(uids.take().unwrap().unwrap().uid, 1001);
        assert!(uids.take().unwrap_err().to_string().contains("no id left of 4"));
    }

    #[test]
    fn an_ordinary_user_has_one_and_files_of_others_are_refused() {
        let own = rustix::process::geteuid().as_raw();
        let mut uids = HostUids::new(&[1001..=1004], &[], false, []).unwrap();
        assert_eq!(uids.take().unwrap(), None);
        assert_eq!(uids.of_files(own).unwrap(), None);
        assert!(uids.of_files(own + 1).is_err());
        let mut root = HostUids::new(&[1001..=1002, 2000..=2001], &[3000..=3009], true, []).unwrap();
        for owner in [1002, 2001, 3009] {
            assert_eq!(root.of_files(owner).unwrap().unwrap().uid, owner);
        }
        let given = [root.take(), root.take()].map(|ids| ids.unwrap().unwrap().uid);
        assert_eq!(given, [1001, 2000]);
        assert!(root.take().is_err(), "those of files are not given anew");
        assert!(root.of_files(0).is_err() && root.of_files(1500).is_err());
        assert!(HostUids::new(&[0..=7], &[], true, []).is_err());
    }
}
