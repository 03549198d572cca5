//! Creates the provisioners, by the settings and by what works on this host.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use himalia_authority::Authority;
use himalia_engine::Provisioners;
use himalia_kubernetes::{Client, KubernetesConfig, KubernetesProvisioner};
use himalia_sandbox::{
    CgroupRoot, DockerConfig, DockerProvisioner, Isolation, LocalConfig, LocalProvisioner, NamespacesConfig,
    NamespacesProvisioner, Provisioner, TryOutFailure, try_out,
};

use crate::config::{Config, Kubernetes};
use crate::elsewhere::{Neighbours, RunDirectory};
use crate::env::{self, PythonEnv};
use crate::host_uids::{self, HostUids, Owner};
use crate::keys::shared_key;
use crate::programs::{JAIL, SHIM};
use crate::settings::IsolationSetting;

/// Directories of provisioners in the run directory, one each, since each clears what it does not know. That of level
/// none has the run directory itself.
pub(crate) const NAMESPACES_DIR: &str = "n";
pub(crate) const DOCKER_DIR: &str = "d";
/// The directory of the certificate authority in the data directory.
const AUTHORITY_DIR: &str = "authority";

/// What was chosen.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) provisioners: Provisioners,
    /// Levels that can be had, that of kernels which ask for nothing first.
    pub(crate) levels: Vec<Isolation>,
    /// Held for as long as the gateway runs.
    pub(crate) uids: HostUids,
}

/// The gateway, as the one that ids are reserved for.
pub(crate) fn owner<'a>(config: &'a Config, run_dir: &'a Path) -> Owner<'a> {
    Owner {
        data_dir: &config.data_dir,
        run_dir,
    }
}

/// Tries what the settings name and chooses. `listen` is where clients come in.
pub(crate) async fn choose(config: &Config, run_dir: &Path, listen: IpAddr) -> anyhow::Result<Chosen> {
    if let Some(settings) = &config.sandboxes.kubernetes {
        let replica = config.replica.store.as_ref().map(|_| config.replica.name.clone());
        let place = format!(
            "kubernetes:{}/{}",
            settings.config.namespace, settings.config.gateway
        );
        let kubernetes = kubernetes(settings, &config.data_dir, replica).await?;
        return Ok(Chosen {
            levels: vec![kubernetes.capabilities().isolation],
            // Every replica reaches every pod.
            provisioners: Provisioners::new(vec![Arc::new(kubernetes)]).at(place, None),
            uids: HostUids::shared(None),
        });
    }
    let shim = SHIM.find(config.shim.as_deref())?;
    let package = kernel_package(config)?;
    let plain: Arc<dyn Provisioner> = Arc::new(LocalProvisioner::new(LocalConfig::new(run_dir, &shim))?);
    let wanted = config.sandboxes.isolation;
    let loopback = listen.to_canonical().is_loopback();
    let mut all: Vec<Arc<dyn Provisioner>> = Vec::new();
    let namespaces = match namespaces_settings(config, run_dir, &shim, &package).await? {
        // It need not work to take over what an earlier gateway started.
        Ok(settings) if wanted == IsolationSetting::Level(Isolation::None) => {
            let earlier = settings.run_dir.is_dir();
            earlier.then_some(settings).ok_or_else(String::new)
        }
        Ok(settings) => match try_out(&settings).await.failure {
            None => Ok(settings),
            Some(failure) => Err(explain(&failure)),
        },
        Err(missing) => Err(missing),
    };
    let said = config.sandboxes.host_uids.as_ref();
    if let Some(warning) = said.and_then(host_uids::warning) {
        tracing::warn!("host_uids: {warning}");
    }
    let mut uids = HostUids::shared(said);
    let namespaces: Result<Arc<dyn Provisioner>, String> = match namespaces {
        Ok(mut settings) => {
            uids = HostUids::reserve(said, owner(config, run_dir), config.max_kernels)?;
            settings.host_uids.clone_from(&uids.ranges);
            settings.host_uids_of_files.clone_from(&uids.of_files);
            Ok(Arc::new(NamespacesProvisioner::new(settings)?))
        }
        Err(reason) => Err(reason),
    };
    match (wanted, namespaces) {
        // The second of a kind only takes over what an earlier gateway started.
        (IsolationSetting::Level(Isolation::None), namespaces) => {
            all.push(plain);
            all.extend(namespaces.ok());
        }
        (_, Ok(namespaces)) => all.extend([namespaces, plain]),
        (IsolationSetting::Level(Isolation::Namespaces), Err(reason)) => {
            bail!("isolation: namespaces do not work here: {reason}");
        }
        (IsolationSetting::Auto, Err(reason)) if !loopback => bail!(
            "isolation: namespaces do not work here: {reason}\nWithout them kernels could do all that this user may; \
             that is for loopback addresses only. isolation = \"container\" needs Docker"
        ),
        (IsolationSetting::Auto, Err(reason)) => {
            tracing::warn!(
                %reason,
                "namespaces do not work here: kernels are plain processes that may do all that this user may"
            );
            all.push(plain);
        }
        // Containers are what is wanted; kernels without isolation stay a matter of loopback.
        (IsolationSetting::Level(_), Err(reason)) => {
            tracing::info!(%reason, "namespaces do not work here");
            if loopback {
                all.push(plain);
            }
        }
    }
    let mut levels: Vec<Isolation> = all
        .first()
        .map(|one| one.capabilities().isolation)
        .into_iter()
        .collect();
    if config.sandboxes.docker_wanted {
        let docker = docker(config, run_dir, &shim, &package, &uids)?;
        if let Err(error) = docker.report().await {
            tracing::warn!(%error, "the container engine is not to be had now");
        }
        let first = matches!(wanted, IsolationSetting::Level(level) if level > Isolation::Namespaces);
        levels.insert(
            if first { 0 } else { levels.len() },
            docker.capabilities().isolation,
        );
        all.push(Arc::new(docker));
    }
    let (run, data) = (run_dir.to_owned(), config.data_dir.clone());
    let place = tokio::task::spawn_blocking(move || RunDirectory::of(&run, &data)).await?;
    let place = place.context("the run directory")?.text();
    let neighbours = Arc::new(Neighbours::new(config));
    Ok(Chosen {
        provisioners: Provisioners::new(all).at(place, Some(neighbours)),
        levels,
        uids,
    })
}

/// The provisioner of pods. The API server is not asked yet.
async fn kubernetes(
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

/// The settings for sandboxes of namespaces, or why there are none. A program that was named and is not there is an
/// error.
async fn namespaces_settings(
    config: &Config,
    run_dir: &Path,
    shim: &Path,
    package: &Path,
) -> anyhow::Result<Result<NamespacesConfig, String>> {
    match JAIL.find(config.jail.as_deref()) {
        Ok(jail) => Ok(Ok(namespaces_config(
            config, run_dir, run_dir, shim, &jail, package,
        )
        .await?)),
        Err(error) if config.jail.is_some() => Err(error),
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// A failed trial in one line.
fn explain(failure: &TryOutFailure) -> String {
    let TryOutFailure { step, error, hint } = failure;
    match hint {
        Some(hint) => format!("{step}: {error}; {hint}"),
        None => format!("{step}: {error}"),
    }
}

/// The settings for sandboxes of namespaces. Control groups are named after `gateway`, the run directory of the gateway.
pub(crate) async fn namespaces_config(
    config: &Config,
    gateway: &Path,
    run_dir: &Path,
    shim: &Path,
    jail: &Path,
    package: &Path,
) -> anyhow::Result<NamespacesConfig> {
    let own = run_dir.join(NAMESPACES_DIR);
    let detect = gateway.join(NAMESPACES_DIR);
    let cgroups = tokio::task::spawn_blocking(move || CgroupRoot::detect(&detect)).await;
    Ok(NamespacesConfig {
        private_dirs: vec![run_dir.to_owned()],
        host_uids: HostUids::shared(config.sandboxes.host_uids.as_ref()).ranges,
        cgroups: cgroups.context("looking for control groups")?,
        ..NamespacesConfig::new(own, &config.data_dir, shim, jail, package)
    })
}

/// The provisioner of containers. The engine is not asked yet.
pub(crate) fn docker(
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

/// The directory that holds the package `himalia_kernel`: that of the built environment, which is compiled, or else a
/// copy in the data directory.
pub(crate) fn kernel_package(config: &Config) -> anyhow::Result<PathBuf> {
    match PythonEnv::locate(&config.env_dir).ready() {
        Some(env) => env.package(),
        None => env::install_package(&config.data_dir.join("kernel-package")),
    }
}
