//! Files that outlive a sandbox: one volume for each name.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bollard::models::{
    ContainerCreateBody, HostConfig, Mount, MountType, MountVolumeOptions, VolumeCreateRequest,
};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, ListVolumesOptionsBuilder, RemoveContainerOptionsBuilder,
    RemoveVolumeOptions, UploadToContainerOptionsBuilder,
};

use super::client::{CallError, Client};
use super::names::{self, Names};
use crate::inside::WORK_DIR;
use crate::{Enforcement, SandboxError, SandboxId};

/// Label of volumes that are shared and that a gateway made. They are never removed.
const SHARED: &str = "himalia.shared";

/// Volumes of this engine.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// The engine said that its disk knows no quotas.
    no_quota: AtomicBool,
}

/// A volume that is ready for use.
#[derive(Debug)]
pub(super) struct Volume {
    /// Name of the volume in the engine.
    pub(super) name: String,
    /// Mechanism that enforces the size limit.
    pub(super) enforcement: Enforcement,
}

impl Volumes {
    /// Makes the volume for a name if it is missing, and hands its top directory to the sandbox's user.
    ///
    /// A new volume belongs to root. The engine itself corrects that by unpacking an archive into a container that is
    /// never started, so nothing of the image runs as root. This is done each time: it is quick, and a
    /// preparation that was cut short needs no trace.
    pub(super) async fn prepare(
        &self,
        client: &Client,
        names: &Names,
        (id, image): (SandboxId, &str),
        (files, disk_bytes, uid): (&str, Option<u64>, u32),
    ) -> Result<Volume, SandboxError> {
        let volume = self.create(client, names, (files, disk_bytes, uid)).await?;
        let helper = names.helper(id);
        let result = hand_over(client, names, (id, &helper, image), (&volume.name, uid)).await;
        let removed = remove_container(client, &helper).await;
        result
            .and(removed)
            .map_err(|error| client.error("the volume for files", error))?;
        Ok(volume)
    }

    async fn create(
        &self,
        client: &Client,
        names: &Names,
        (files, disk_bytes, uid): (&str, Option<u64>, u32),
    ) -> Result<Volume, SandboxError> {
        let name = names.volume(files);
        let request = |options: HashMap<String, String>| VolumeCreateRequest {
            name: Some(name.clone()),
            driver_opts: Some(options),
            labels: Some(names.volume_labels(files, uid)),
            ..VolumeCreateRequest::default()
        };
        if let Some(bytes) = disk_bytes
            && !self.no_quota.load(Ordering::Relaxed)
        {
            let sized = request(HashMap::from([("size".to_owned(), bytes.to_string())]));
            match client
                .call(async |docker| docker.create_volume(sized).await)
                .await
            {
                Ok(made) => {
                    // One that was there before keeps the size it had, or none.
                    let hard = made.options.contains_key("size");
                    let enforcement = if hard {
                        Enforcement::Hard
                    } else {
                        Enforcement::None
                    };
                    return Ok(Volume { name, enforcement });
                }
                Err(CallError::Refused(text)) if text.contains("quota") => {
                    self.no_quota.store(true, Ordering::Relaxed);
                }
                Err(error) => return Err(client.error("the volume for files", error)),
            }
        }
        let plain = request(HashMap::new());
        let made = client
            .call(async |docker| docker.create_volume(plain).await)
            .await;
        made.map_err(|error| client.error("the volume for files", error))?;
        Ok(Volume {
            name,
            enforcement: Enforcement::None,
        })
    }
}

async fn hand_over(
    client: &Client,
    names: &Names,
    (id, helper, image): (SandboxId, &str, &str),
    (volume, uid): (&str, u32),
) -> Result<(), CallError> {
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(vec!["/never-started".to_owned()]),
        labels: Some(names.helper_labels(id)),
        network_disabled: Some(true),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            mounts: Some(vec![mount(volume)]),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let options = CreateContainerOptionsBuilder::new().name(helper).build();
    client
        .call(async |docker| docker.create_container(Some(options), body).await)
        .await?;
    let archive = top_directory(uid).map_err(|error| CallError::Refused(error.to_string()))?;
    let options = UploadToContainerOptionsBuilder::new().path("/").build();
    client
        .call(async |docker| {
            docker
                .upload_to_container(helper, Some(options), bollard::body_full(archive.into()))
                .await
        })
        .await
}

/// An archive that holds the work directory and nothing else.
fn top_directory(uid: u32) -> std::io::Result<Vec<u8>> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_path(WORK_DIR.trim_start_matches('/'))?;
    header.set_mode(0o700);
    header.set_uid(uid.into());
    header.set_gid(uid.into());
    header.set_size(0);
    header.set_cksum();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append(&header, std::io::empty())?;
    archive.into_inner()
}

/// The volume as the work directory, without what the image has there.
pub(super) fn mount(volume: &str) -> Mount {
    Mount {
        target: Some(WORK_DIR.to_owned()),
        source: Some(volume.to_owned()),
        typ: Some(MountType::VOLUME),
        read_only: Some(false),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    }
}

/// Makes a volume that the operator shares, if it is missing, and hands its top directory to the user whose files are to be in it.
/// One that this gateway did not make stays as it is.
pub(super) async fn ensure(
    client: &Client,
    names: &Names,
    (id, image): (SandboxId, &str),
    (volume, uid): (&str, u32),
) -> Result<(), SandboxError> {
    let error = |error| client.error("a volume that is shared", error);
    let found = client
        .call(async |docker| docker.inspect_volume(volume).await)
        .await;
    match found {
        Ok(found) if !found.labels.contains_key(SHARED) => return Ok(()),
        Ok(_) => {}
        Err(CallError::NotFound(_)) => {
            let request = VolumeCreateRequest {
                name: Some(volume.to_owned()),
                labels: Some(HashMap::from([(SHARED.to_owned(), "1".to_owned())])),
                ..VolumeCreateRequest::default()
            };
            let made = client.call(async |docker| docker.create_volume(request).await);
            made.await.map_err(error)?;
        }
        Err(other) => return Err(error(other)),
    }
    let helper = names.helper(id);
    let result = hand_over(client, names, (id, &helper, image), (volume, uid)).await;
    let removed = remove_container(client, &helper).await;
    result.and(removed).map_err(error)
}

/// Removes the volume of a name, if there is one.
pub(super) async fn remove(client: &Client, names: &Names, files: &str) -> Result<(), SandboxError> {
    names::check_files_name(files)?;
    let name = names.volume(files);
    let removed = client
        .call(async |docker| docker.remove_volume(&name, None::<RemoveVolumeOptions>).await)
        .await;
    match removed {
        Ok(()) | Err(CallError::NotFound(_)) => Ok(()),
        Err(error) => Err(client.error("removal of files", error)),
    }
}

/// The names under which this gateway keeps files.
pub(super) async fn names(client: &Client, names: &Names) -> Result<Vec<String>, SandboxError> {
    let options = ListVolumesOptionsBuilder::new().filters(&names.filter()).build();
    let listed = client
        .call(async |docker| docker.list_volumes(Some(options)).await)
        .await
        .map_err(|error| client.error("its volumes", error))?;
    let all = listed.volumes.unwrap_or_default();
    Ok(all
        .iter()
        .filter_map(|volume| names::files_of(&volume.labels))
        .collect())
}

/// Kills and removes a container, with its volumes that have no name. No error if it does not exist or another client
/// is removing it.
pub(super) async fn remove_container(client: &Client, name: &str) -> Result<(), CallError> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    match client
        .call(async |docker| docker.remove_container(name, Some(options)).await)
        .await
    {
        Ok(()) | Err(CallError::NotFound(_)) => Ok(()),
        Err(CallError::Conflict(text)) if text.contains("already in progress") => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_holds_one_directory_of_the_sandbox_s_user() {
        let bytes = top_directory(2_100_000_001).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let entries: Vec<_> = archive.entries().unwrap().map(Result::unwrap).collect();
        assert_eq!(entries.len(), 1);
        let header = entries[0].header();
        assert_eq!(entries[0].path().unwrap().to_str(), Some("session"));
        assert_eq!(
            (header.uid().unwrap(), header.gid().unwrap()),
            (2_100_000_001, 2_100_000_001)
        );
        assert_eq!(header.mode().unwrap(), 0o700);
    }
}
