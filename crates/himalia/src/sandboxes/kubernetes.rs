//! The provisioner of pods.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use himalia_authority::Authority;
use himalia_engine::Provisioners;
use himalia_kubernetes::{Client, KubernetesConfig, KubernetesProvisioner};
use himalia_provisioner::Provisioner as _;

use super::SandboxSetup;
use crate::config::{Config, Kubernetes};
use crate::host_uids::HostUids;
use crate::keys::shared_key;

/// The directory of the certificate authority in the data directory.
const AUTHORITY_DIR: &str = "authority";

/// Pods are the only sandboxes of a gateway that has them.
pub(super) async fn choose(config: &Config, settings: &Kubernetes) -> anyhow::Result<SandboxSetup> {
    let replica = config.replica.store.as_ref().map(|_| config.replica.name.clone());
    let place = format!(
        "kubernetes:{}/{}",
        settings.config.namespace, settings.config.gateway
    );
    let kubernetes = provisioner(settings, &config.data_dir, replica).await?;
    Ok(SandboxSetup {
        levels: vec![kubernetes.capabilities().isolation],
        // Every replica reaches every pod.
        provisioners: Provisioners::new(vec![Arc::new(kubernetes)]).at(place, None),
        uids: HostUids::shared(None),
    })
}

/// The provisioner of pods. The API server is not asked yet.
async fn provisioner(
    settings: &Kubernetes,
    data_dir: &Path,
    replica: Option<String>,
) -> anyhow::Result<KubernetesProvisioner> {
    let client = connect(settings).await?;
    let (dir, keys) = (data_dir.join(AUTHORITY_DIR), settings.authority_keys.clone());
    let authorities = tokio::task::spawn_blocking(move || authorities(&dir, &keys)).await?;
    let authorities = authorities.context("the authority of sandboxes' certificates")?;
    let config = KubernetesConfig {
        replica,
        ..settings.config.clone()
    };
    Ok(KubernetesProvisioner::new(config, client, authorities)?)
}

/// The authorities of these keys; without any, that of the data directory.
fn authorities(dir: &Path, keys: &[PathBuf]) -> anyhow::Result<Vec<Authority>> {
    if keys.is_empty() {
        return Ok(vec![Authority::open(dir)?]);
    }
    let read = |path: &PathBuf| -> anyhow::Result<Authority> {
        let text = shared_key("kubernetes.authority_keys", path)?;
        Authority::from_key(&text).with_context(|| path.display().to_string())
    };
    keys.iter().map(read).collect()
}

/// The client of the API server.
pub(crate) async fn connect(settings: &Kubernetes) -> anyhow::Result<Client> {
    let client = himalia_kubernetes::connect(settings.kubeconfig.as_deref(), settings.context.as_deref());
    Ok(client.await?)
}
