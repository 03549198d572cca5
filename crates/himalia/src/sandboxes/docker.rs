//! The provisioner of containers.

use std::path::Path;
use std::sync::Arc;

use himalia_provisioner::Provisioner;
use himalia_sandbox::{DockerConfig, DockerProvisioner};

use super::DOCKER_DIR;
use crate::config::Config;
use crate::host_uids::HostUids;

/// The provisioner, with a warning in the log if the engine does not answer now.
pub(crate) async fn open(
    config: &Config,
    run_dir: &Path,
    shim: &Path,
    package: &Path,
    uids: &HostUids,
) -> anyhow::Result<Arc<dyn Provisioner>> {
    let docker = provisioner(config, run_dir, shim, package, uids)?;
    if let Err(error) = docker.report().await {
        tracing::warn!(%error, "the container engine does not answer");
    }
    Ok(Arc::new(docker))
}

/// The provisioner of containers. The engine is not asked yet.
pub(crate) fn provisioner(
    config: &Config,
    run_dir: &Path,
    shim: &Path,
    package: &Path,
    uids: &HostUids,
) -> anyhow::Result<DockerProvisioner> {
    let docker = config.sandboxes.docker.clone();
    Ok(DockerProvisioner::new(DockerConfig {
        socket: docker.socket,
        images: docker.images,
        runtimes: docker.runtimes,
        runtime: docker.runtime,
        networks: docker.networks,
        host_uids: uids.ranges.clone(),
        host_uids_taken: uids.in_use.clone(),
        ..DockerConfig::new(run_dir.join(DOCKER_DIR), shim, package)
    })?)
}
