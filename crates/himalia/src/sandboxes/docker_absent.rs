//! The provisioner of containers, in a build without it.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use himalia_provisioner::Provisioner;

use crate::config::Config;
use crate::host_uids::HostUids;
use himalia_cli::features;

#[expect(clippy::unused_async, reason = "as with the feature")]
pub(crate) async fn open(
    _config: &Config,
    _run_dir: &Path,
    _shim: &Path,
    _package: &Path,
    _uids: &HostUids,
) -> anyhow::Result<Arc<dyn Provisioner>> {
    bail!("docker: {}", features::missing("docker"))
}
