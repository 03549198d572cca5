//! Access to sandboxes of another gateway on this machine: by its run directory, if both gateways have the same directory and see the
//! processes.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use himalia_engine::RemoteSandboxes;
use himalia_provisioner::{BoxFuture, Provisioner, SandboxError};
use himalia_sandbox::{LocalConfig, LocalProvisioner, NamespacesProvisioner};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::config::Config;
use crate::host_uids::HostUids;
use crate::programs::{JAIL, SHIM};
use crate::sandboxes::{DOCKER_DIR, NAMESPACES_DIR, docker, kernel_package, namespaces_config};

/// The run directory of a gateway, by which others on its machine reach its sandboxes. As JSON it is the place in rows of sessions.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunDirectory {
    /// The boot of the machine.
    boot: String,
    /// The process namespace in which their processes have the numbers that records name.
    processes: u64,
    /// The run directory, and what it is: another container can have another one of the same path.
    run_dir: PathBuf,
    device: u64,
    inode: u64,
    /// The data directory, which has their kept files.
    data_dir: PathBuf,
}

impl RunDirectory {
    /// Run directory of the gateway with these directories. Blocks.
    pub(crate) fn of(run_dir: &Path, data_dir: &Path) -> std::io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let found = fs::metadata(run_dir)?;
        Ok(Self {
            boot: boot.trim().to_owned(),
            processes: fs::metadata("/proc/self/ns/pid")?.ino(),
            run_dir: run_dir.to_owned(),
            device: found.dev(),
            inode: found.ino(),
            data_dir: std::path::absolute(data_dir)?,
        })
    }

    /// As rows have it.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns true if this process sees the same directory.
    fn is_here(&self) -> bool {
        Self::of(&self.run_dir, &self.data_dir).is_ok_and(|seen| seen == *self)
    }
}

/// The run directories of other gateways on this machine.
#[derive(Debug)]
pub(crate) struct HostPeers {
    config: Config,
    /// By place. Few: one for each gateway that has ended and whose sandboxes this one has taken over.
    known: Mutex<HashMap<String, Vec<Arc<dyn Provisioner>>>>,
}

impl HostPeers {
    /// For a gateway with these settings.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            known: Mutex::default(),
        }
    }
}

impl RemoteSandboxes for HostPeers {
    fn reaches(&self, place: &str) -> bool {
        RunDirectory::parse(place).is_some_and(|place| place.is_here())
    }

    fn provisioners<'a>(
        &'a self,
        place: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Arc<dyn Provisioner>>, SandboxError>> {
        Box::pin(async move {
            let mut known = self.known.lock().await;
            if let Some(found) = known.get(place) {
                return Ok(found.clone());
            }
            let parsed = RunDirectory::parse(place).ok_or(SandboxError::Closed)?;
            let opened = open(&self.config, &parsed).await;
            let opened = opened.map_err(|error| SandboxError::BadSpec {
                field: "run_dir",
                reason: format!("{}: {error:#}", parsed.run_dir.display()),
            })?;
            known.insert(place.to_owned(), opened.clone());
            Ok(opened)
        })
    }
}

/// The provisioners that the gateway of this place has, in order of preference.
async fn open(config: &Config, place: &RunDirectory) -> anyhow::Result<Vec<Arc<dyn Provisioner>>> {
    let config = Config {
        data_dir: place.data_dir.clone(),
        ..config.clone()
    };
    let run_dir = &place.run_dir;
    let shim = SHIM.find(config.shim.as_deref())?;
    let mut all: Vec<Arc<dyn Provisioner>> = Vec::new();
    let package = kernel_package(&config)?;
    if let Ok(jail) = JAIL.find(config.jail.as_deref())
        && run_dir.join(NAMESPACES_DIR).is_dir()
    {
        let settings = namespaces_config(&config, run_dir, run_dir, &shim, &jail, &package).await?;
        all.push(Arc::new(NamespacesProvisioner::new(settings)?));
    }
    all.push(Arc::new(LocalProvisioner::new(LocalConfig::new(run_dir, &shim))?));
    if config.sandboxes.docker_wanted && run_dir.join(DOCKER_DIR).is_dir() {
        let uids = HostUids::shared(config.sandboxes.host_uids.as_ref());
        all.push(docker::open(&config, run_dir, &shim, &package, &uids).await?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_here_while_its_directory_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        fs::create_dir(&run).unwrap();
        let place = RunDirectory::of(&run, dir.path()).unwrap();
        let parsed = RunDirectory::parse(&place.text()).unwrap();
        assert!(parsed == place && parsed.is_here());
        for other in [
            RunDirectory {
                boot: "another".into(),
                ..place.clone()
            },
            RunDirectory {
                processes: 1,
                ..place.clone()
            },
            RunDirectory {
                inode: place.inode + 1,
                ..place.clone()
            },
        ] {
            assert!(!other.is_here(), "{other:?}");
        }
        fs::remove_dir(&run).unwrap();
        assert!(!place.is_here());
        assert_eq!(RunDirectory::parse("kubernetes"), None);
    }
}
