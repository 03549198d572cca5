//! Assigns a user id to each container, so that no two share the resources that Linux counts by user.
//!
//! Each has one for itself from the upper halves of [`DockerConfig::host_uids`]; those that
//! use the same kept files, one after the other, have the same. The engine is the authority: labels of containers and
//! volumes, those of other gateways among them, say which ids are in use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;

use bollard::query_parameters::{ListContainersOptionsBuilder, ListVolumesOptionsBuilder};
use parking_lot::Mutex;

use super::client::{CallError, Client};
use super::config::DockerConfig;
use super::names::{self, Names, UID};
use crate::host::uids::{Pool, check};
use crate::{FileOwner, Files, SandboxError, SandboxId, SandboxSpec};

/// First id that is assigned if the engine maps the ids of containers; it then maps 65,536.
const FIRST_MAPPED: u32 = 1000;
const MAPPED: u32 = 64_000;

/// The ids of this process's sandboxes. A user's group has the same number.
#[derive(Debug)]
pub(super) struct Uids {
    /// Ids that no container gets.
    taken: BTreeSet<u32>,
    /// Ranges of ids for containers.
    ranges: Vec<RangeInclusive<u32>>,
    held: Mutex<HeldUids>,
}

#[derive(Debug)]
struct HeldUids {
    by: BTreeMap<SandboxId, u32>,
    pool: Pool,
}

impl Uids {
    pub(super) fn new(config: &DockerConfig, names: &Names) -> Result<Self, SandboxError> {
        check(&config.host_uids)?;
        Ok(Self {
            taken: config.host_uids_taken.clone(),
            ranges: config.host_uids.clone(),
            held: Mutex::new(HeldUids {
                by: BTreeMap::new(),
                // Gateways that start containers at the same moment do not see each other's.
                pool: Pool::of_containers(&config.host_uids, names.seed()),
            }),
        })
    }

    /// The id for a sandbox: that of the files that it shares, that of its kept files, or a free one. `mapped`: the engine maps
    /// ids itself.
    pub(super) async fn of(
        &self,
        client: &Client,
        names: &Names,
        (id, spec): (SandboxId, &SandboxSpec),
        mapped: bool,
        shared: Option<FileOwner>,
    ) -> Result<u32, SandboxError> {
        let known = match &spec.files {
            Files::Session(name) => of_volume(client, &names.volume(name)).await,
            Files::Ephemeral => Ok(None),
        };
        let error = |error| client.error("user ids in use", error);
        let known = known.map_err(error)?;
        let bad = |field: &'static str, reason: String| Err(SandboxError::BadSpec { field, reason });
        if let Some(FileOwner { uid, .. }) = shared {
            if self.ranges.iter().any(|range| range.contains(&uid)) {
                return bad(
                    "mounts",
                    format!("have files of user {uid}, which is in host_uids"),
                );
            }
            if let Some(other) = known.filter(|known| *known != uid) {
                return bad(
                    "files",
                    format!("belong to user {other}, those of its mounts to {uid}"),
                );
            }
        }
        if let Some(uid) = shared.map(|owner| owner.uid).or(known) {
            self.held.lock().by.insert(id, uid);
            return Ok(uid);
        }
        let used = in_use(client).await.map_err(error)?;
        self.take(id, &used, mapped)
    }

    fn take(&self, id: SandboxId, used: &BTreeSet<u32>, mapped: bool) -> Result<u32, SandboxError> {
        let HeldUids { by, pool } = &mut *self.held.lock();
        let inside = |uid: u32| if mapped { FIRST_MAPPED + uid % MAPPED } else { uid };
        let own: BTreeSet<u32> = by.values().copied().collect();
        let is_free = |uid: u32| {
            let inside = inside(uid);
            !self.taken.contains(&uid) && !used.contains(&inside) && !own.contains(&inside)
        };
        let uid = pool.take(is_free).ok_or_else(|| SandboxError::BadSpec {
            field: "host_uids",
            reason: format!("has no id left for a container of {}", pool.count()),
        })?;
        by.insert(id, inside(uid));
        Ok(inside(uid))
    }

    /// The sandbox is gone. Its files, if they are kept, keep the id in the engine.
    pub(super) fn release(&self, id: SandboxId) {
        self.held.lock().by.remove(&id);
    }
}

/// The id that the files of a volume have; `None` when there is no such volume.
async fn of_volume(client: &Client, volume: &str) -> Result<Option<u32>, CallError> {
    let found = client.call(async |docker| docker.inspect_volume(volume).await);
    match found.await {
        Ok(found) => Ok(names::uid_of(&found.labels)),
        Err(CallError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The ids of all containers and volumes of this engine that have one, whichever gateway made them.
async fn in_use(client: &Client) -> Result<BTreeSet<u32>, CallError> {
    let filter = HashMap::from([("label".to_owned(), vec![UID.to_owned()])]);
    let of_containers = ListContainersOptionsBuilder::new()
        .all(true)
        .filters(&filter)
        .build();
    let containers = client
        .call(async |docker| docker.list_containers(Some(of_containers)).await)
        .await?;
    let of_volumes = ListVolumesOptionsBuilder::new().filters(&filter).build();
    let volumes = client
        .call(async |docker| docker.list_volumes(Some(of_volumes)).await)
        .await?;
    let containers = containers.into_iter().filter_map(|one| one.labels);
    let volumes = volumes
        .volumes
        .unwrap_or_default()
        .into_iter()
        .map(|one| one.labels);
    Ok(containers
        .chain(volumes)
        .filter_map(|labels| names::uid_of(&labels))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn uids(range: RangeInclusive<u32>) -> Result<Uids, SandboxError> {
        let mut config = DockerConfig::new("/run/h", "/bin/shim", "/usr/share/h");
        config.host_uids = vec![range];
        config.host_uids_taken = BTreeSet::from([1008]);
        Uids::new(&config, &Names::new(Path::new("/run/h")))
    }

    fn id() -> SandboxId {
        SandboxId::generate().unwrap()
    }

    #[test]
    fn no_two_containers_have_the_same_nor_one_of_others() {
        let uids = uids(1001..=1010).unwrap();
        // What the engine says is of other gateways too.
        let used = BTreeSet::from([1006]);
        let (first, second) = (id(), id());
        let given = [first, second, id()].map(|id| uids.take(id, &used, false).unwrap());
        assert_eq!(BTreeSet::from(given), BTreeSet::from([1007, 1009, 1010]));
        let none = uids.take(id(), &used, false).unwrap_err().to_string();
        assert!(none.contains("no id left for a container of 5"), "{none}");
        uids.release(second);
        assert_eq!(uids.take(id(), &used, false).unwrap(), given[1]);
        assert_eq!(uids.take(id(), &BTreeSet::new(), false).unwrap(), 1006);
    }

    #[test]
    fn an_engine_that_maps_ids_gets_those_that_it_knows() {
        let uids = uids(200_000..=265_535).unwrap();
        let mut seen = BTreeSet::new();
        for _ in 0..1000 {
            let uid = uids.take(id(), &BTreeSet::from([48_000]), true).unwrap();
            assert!((FIRST_MAPPED..65_534).contains(&uid) && uid != 48_000, "{uid}");
            assert!(seen.insert(uid), "{uid} twice");
        }
    }

    #[test]
    fn root_is_never_given() {
        assert!(uids(0..=7).is_err());
    }
}
