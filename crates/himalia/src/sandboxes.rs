//! Creates the provisioners, by the settings and by what works on this host.

#[cfg_attr(not(feature = "docker"), path = "sandboxes/docker_absent.rs")]
pub(crate) mod docker;
#[cfg_attr(not(feature = "kubernetes"), path = "sandboxes/kubernetes_absent.rs")]
pub(crate) mod kubernetes;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use himalia_engine::Provisioners;
use himalia_provisioner::{Isolation, Provisioner};
use himalia_sandbox::{
    CgroupRoot, LocalConfig, LocalProvisioner, NamespacesConfig, NamespacesProvisioner, TryOutFailure,
    try_out,
};

use crate::config::Config;
use crate::elsewhere::{HostPeers, RunDirectory};
use crate::env::{self, PythonEnv};
use crate::host_uids::{self, HostUids, Owner};
use crate::programs::{JAIL, SHIM};
use crate::settings::IsolationSetting;

/// Directories of provisioners in the run directory, one each, since each clears what it does not know. That of level
/// none has the run directory itself.
pub(crate) const NAMESPACES_DIR: &str = "n";
pub(crate) const DOCKER_DIR: &str = "d";

/// Provisioners of this gateway, with their levels and ids.
#[derive(Debug)]
pub(crate) struct SandboxSetup {
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
pub(crate) async fn choose(config: &Config, run_dir: &Path, listen: IpAddr) -> anyhow::Result<SandboxSetup> {
    if let Some(settings) = &config.sandboxes.kubernetes {
        return kubernetes::choose(config, settings).await;
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
        let docker = docker::open(config, run_dir, &shim, &package, &uids).await?;
        let first = matches!(wanted, IsolationSetting::Level(level) if level > Isolation::Namespaces);
        levels.insert(
            if first { 0 } else { levels.len() },
            docker.capabilities().isolation,
        );
        all.push(docker);
    }
    let (run, data) = (run_dir.to_owned(), config.data_dir.clone());
    let place = tokio::task::spawn_blocking(move || RunDirectory::of(&run, &data)).await?;
    let place = place.context("the run directory")?.text();
    let neighbours = Arc::new(HostPeers::new(config));
    Ok(SandboxSetup {
        provisioners: Provisioners::new(all).at(place, Some(neighbours)),
        levels,
        uids,
    })
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
        // Programs that were written for E2B name files by this path.
        in_user_home: config.facades.e2b,
        host_uids: HostUids::shared(config.sandboxes.host_uids.as_ref()).ranges,
        cgroups: cgroups.context("looking for control groups")?,
        ..NamespacesConfig::new(own, &config.data_dir, shim, jail, package)
    })
}

/// The directory that holds the package `himalia_kernel`: that of the built environment, which is compiled, or else a
/// copy in the data directory.
pub(crate) fn kernel_package(config: &Config) -> anyhow::Result<PathBuf> {
    match PythonEnv::locate(&config.env_dir).ready() {
        Some(env) => env.package(),
        None => env::install_package(&config.data_dir.join("kernel-package")),
    }
}
