//! Mounts of the operator in containers.
//!
//! The engine cannot map the ids of a mount. So a container runs as the owner of the files that it may write, instead of a user of its own.

use bollard::models::{
    Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType, MountVolumeOptions,
};

use super::inner::Inner;
use super::mapping::Mapping;
use super::volume;
use crate::host::blocking;
use crate::host::shared::{bad, open_directory};
use crate::{FileOwner, MountKind, MountSource, SandboxError, SandboxId, SandboxSpec, SharedMount};

/// Kinds of mounts that containers can have.
pub(super) const MOUNTS: &[MountKind] = &[MountKind::Directory, MountKind::Volume];

/// The mounts of a sandbox, and whose files they are.
#[derive(Debug, Default)]
pub(super) struct ContainerMounts {
    pub(super) mounts: Vec<Mount>,
    /// The user that the container must have.
    pub(super) owner: Option<FileOwner>,
}

/// The mounts of a spec, in an engine that maps user ids as it says. Directories and volumes that are missing are made, where
/// they can be written to.
pub(super) async fn shared(
    inner: &Inner,
    (id, image): (SandboxId, &str),
    spec: &SandboxSpec,
    mapping: Mapping,
) -> Result<ContainerMounts, SandboxError> {
    let mut shared = ContainerMounts::default();
    for (mount, source, owner) in find(inner, spec.mounts.clone(), false).await? {
        if let Some(owner) = owner.filter(|_| mount.source.kind() == MountKind::Volume) {
            volume::ensure(&inner.client, &inner.names, (id, image), (&source, owner.uid)).await?;
        }
        shared.add(&mount, source, owner)?;
    }
    if shared.owner.is_some() && mapping != Mapping::None {
        return Err(SandboxError::BadSpec {
            field: "mounts",
            reason: "of files with an owner are not supported by a container engine that maps user ids"
                .to_owned(),
        });
    }
    Ok(shared)
}

/// Finds the source of each mount, as the engine names it, and the owner of its files. Creates missing directories, unless `only_a_check`
/// is set.
pub(super) async fn find(
    inner: &Inner,
    mounts: Vec<SharedMount>,
    only_a_check: bool,
) -> Result<Vec<(SharedMount, String, Option<FileOwner>)>, SandboxError> {
    let private = [inner.config.run_dir.clone()];
    let one = move |mount: SharedMount| {
        let (source, owner) = match &mount.source {
            MountSource::Volume(name) => (name.clone(), mount.owner),
            MountSource::Directory { .. } | MountSource::Claim { .. } => {
                let Some(directory) = open_directory(&mount, &private, only_a_check)? else {
                    return Err(bad(&mount, "a claim is for pods"));
                };
                (directory.path().to_string_lossy().into_owned(), directory.owner)
            }
        };
        if !mount.read_only && owner.is_none() {
            return Err(bad(
                &mount,
                "uid is missing: the user whose files are to be in the volume",
            ));
        }
        Ok((mount, source, owner))
    };
    blocking(move || mounts.into_iter().map(one).collect()).await?
}

impl ContainerMounts {
    fn add(
        &mut self,
        mount: &SharedMount,
        source: String,
        owner: Option<FileOwner>,
    ) -> Result<(), SandboxError> {
        match (self.owner, owner) {
            (Some(one), Some(other)) if one != other => {
                let reason = format!(
                    "its files belong to user {}, those of another mount to {}: a container has one user",
                    other.uid, one.uid
                );
                return Err(bad(mount, &reason));
            }
            _ => self.owner = self.owner.or(owner),
        }
        let is_volume = mount.source.kind() == MountKind::Volume;
        self.mounts.push(Mount {
            target: Some(mount.target.to_string_lossy().into_owned()),
            source: Some(source),
            typ: Some(if is_volume {
                MountType::VOLUME
            } else {
                MountType::BIND
            }),
            read_only: Some(mount.read_only),
            bind_options: (!is_volume).then(|| MountBindOptions {
                propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
                ..MountBindOptions::default()
            }),
            // Without what the image has there.
            volume_options: is_volume.then(|| MountVolumeOptions {
                no_copy: Some(true),
                ..MountVolumeOptions::default()
            }),
            ..Mount::default()
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(name: &str, source: MountSource) -> SharedMount {
        SharedMount {
            name: name.to_owned(),
            source,
            target: format!("/mnt/{name}").into(),
            read_only: false,
            owner: None,
        }
    }

    #[test]
    fn a_container_has_one_user() {
        let owner = |uid| Some(FileOwner { uid, gid: 100 });
        let volume = |name: &str| mount(name, MountSource::Volume(name.to_owned()));
        let mut shared = ContainerMounts::default();
        shared.add(&volume("data"), "data".to_owned(), None).unwrap();
        shared.add(&volume("a"), "a".to_owned(), owner(7)).unwrap();
        shared.add(&volume("b"), "b".to_owned(), owner(7)).unwrap();
        assert_eq!((shared.owner, shared.mounts.len()), (owner(7), 3));
        let refused = shared
            .add(&volume("c"), "c".to_owned(), owner(8))
            .unwrap_err()
            .to_string();
        assert!(refused.contains("c: its files belong to user 8"), "{refused}");
        assert_eq!(shared.mounts[0].typ, Some(MountType::VOLUME));
    }
}
