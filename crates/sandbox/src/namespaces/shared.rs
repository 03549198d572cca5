//! Directories that the operator shares with sandboxes.

use std::path::PathBuf;

use himalia_jail::{HostIds, Mount};

use super::inner::Inner;
use super::try_out;
use crate::host::shared::{SharedDirectory, bad, open_directory};
use crate::{MountKind, SandboxError, SharedMount, check_kinds};

/// Kinds of mounts that this level supports.
pub(super) const MOUNTS: &[MountKind] = &[MountKind::Directory];

#[derive(Debug)]
pub(super) struct SandboxMount {
    directory: SharedDirectory,
    target: PathBuf,
    read_only: bool,
}

impl SandboxMount {
    /// The entry of the root, for a sandbox with these ids on the host.
    pub(super) fn mount(&self, host_ids: Option<HostIds>) -> Mount {
        // An ordinary user's sandbox has the ids of that user.
        let owner = self.directory.owner.filter(|_| host_ids.is_some());
        Mount::Shared {
            base: self.directory.base.clone(),
            subdirectory: self.directory.subdirectory.clone(),
            target: self.target.clone(),
            read_only: self.read_only,
            owner: owner.map(|owner| HostIds {
                uid: owner.uid,
                gid: owner.gid,
            }),
        }
    }
}

/// Opens the mounts of a spec. Creates missing directories if they are writable. Blocks.
pub(super) fn open(inner: &Inner, mounts: &[SharedMount]) -> Result<Vec<SandboxMount>, SandboxError> {
    mounts
        .iter()
        .filter_map(|mount| one(inner, mount, false).transpose())
        .collect()
}

fn one(inner: &Inner, mount: &SharedMount, only_a_check: bool) -> Result<Option<SandboxMount>, SandboxError> {
    let directory = open_directory(mount, &inner.private, only_a_check)?;
    Ok(directory.map(|directory| SandboxMount {
        directory,
        target: mount.target.clone(),
        read_only: mount.read_only,
    }))
}

/// Makes a sandbox with each of them, and removes it again: whether ids can be mapped is known to the file system alone. Blocks.
pub(super) fn check(inner: &Inner, mounts: &[SharedMount]) -> Result<(), SandboxError> {
    check_kinds(mounts, MOUNTS)?;
    for mount in mounts {
        if let Some(shared) = one(inner, mount, true)? {
            let ids = try_out::ids(&inner.config);
            try_out::sandbox(&inner.config, &inner.jail, ids, &[shared])
                .map_err(|error| bad(mount, &error.to_string()))?;
        }
    }
    Ok(())
}
