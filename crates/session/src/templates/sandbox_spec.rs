//! From a settled start to what the provisioner gets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use himalia_kernelspecs::{HostEnvironment, Launch, is_ours};
use himalia_model::{EngineError, KernelId};
use himalia_provisioner::{Files, Network, RootFiles, SandboxKey, SandboxSpec, ZygoteSpec};

use super::plan::Plan;
use super::{binds, limits, programs};
use crate::start::late_binding;

/// Tells a zygote under which path its kernels have the environment.
const ENV_OF_KERNELS: &str = "HIMALIA_ENV_OF_KERNELS";
/// Time that a start without a waiting caller waits for a zygote.
const ZYGOTE_WAIT: Duration = Duration::from_mins(1);

/// The sandbox of a start, on the files that are kept under a name, if they are. Looks at the disk.
///
/// # Errors
/// [`EngineError::KernelStart`] for paths that a kernelspec adds and that cannot be bound.
pub(crate) fn sandbox_spec(
    plan: &Plan,
    launch: &Launch,
    host: &HostEnvironment,
    id: KernelId,
    kept_files: Option<&str>,
    key: SandboxKey,
) -> Result<SandboxSpec, EngineError> {
    let mut spec = SandboxSpec::new(key);
    let config = &plan.session.sandbox;
    spec.minimum = config.isolation;
    spec.limits = limits::of_sandbox(&config.limits);
    // The same but for its list, which is empty.
    spec.network = if config.door {
        Network::Allow
    } else {
        config.network.clone()
    };
    spec.mounts = plan.mounts.iter().map(|mount| mount.of(&plan.session)).collect();
    spec.image.clone_from(&config.image);
    spec.runtime.clone_from(&plan.runtime);
    spec.files = kept_files.map_or(Files::Ephemeral, |name| Files::Session(name.to_owned()));
    spec.labels = BTreeMap::from([("kernel".to_owned(), id.to_string())]);
    if let Some(found) = binds_of(plan, launch, host)? {
        (spec.binds, spec.names) = (found.paths, found.names);
    }
    spec.zygote = zygote_spec(plan, launch, host);
    Ok(spec)
}

/// The directory of the host that is the environment of a kernel, by its own name in the sandbox. Looks at the disk.
///
/// # Errors
/// As [`sandbox_spec`].
pub(crate) fn env_dir(
    plan: &Plan,
    launch: &Launch,
    host: &HostEnvironment,
) -> Result<Option<PathBuf>, EngineError> {
    let found = binds_of(plan, launch, host)?;
    Ok(found.and_then(|mut found| found.names.remove(binds::ENV)))
}

/// The files of the host that a kernel needs, if the root of its sandbox is built from them.
fn binds_of(
    plan: &Plan,
    launch: &Launch,
    host: &HostEnvironment,
) -> Result<Option<binds::Binds>, EngineError> {
    let program = program_in_built_root(plan, launch);
    let found = program.map(|program| binds::binds(program, &plan.spec, host.home().as_deref()));
    found.transpose()
}

/// The zygote that a start can be forked from; `None` for kernels that are not ours, where there are no zygotes or a root is
/// not built, and where no session may share one.
pub(crate) fn zygote_spec(plan: &Plan, launch: &Launch, host: &HostEnvironment) -> Option<ZygoteSpec> {
    let python = program_in_built_root(plan, launch)?;
    if !plan.capabilities().zygotes
        || !is_ours(&plan.spec)
        || late_binding::changed_at_start(launch).is_some()
    {
        return None;
    }
    let mut env = launch.base_env.clone();
    // A problem of the kernelspec is for the start to say.
    if let Ok(Some(_)) = env_dir(plan, launch, host) {
        env.insert(ENV_OF_KERNELS.to_owned(), programs::env_name());
    }
    Some(ZygoteSpec {
        trust_domain: plan.trust_domain.clone()?,
        python: python.to_owned(),
        env,
        preload: plan.preload.clone(),
    })
}

/// Waits for the zygote of a start that no caller waits for, if it has one. Without it the sandbox starts cold.
pub(crate) async fn warm_zygote(plan: &Plan, launch: &Launch, host: &HostEnvironment) {
    let Some(zygote) = zygote_spec(plan, launch, host) else {
        return;
    };
    let ready = tokio::time::timeout(ZYGOTE_WAIT, plan.provisioner.warm(&zygote)).await;
    let problem = match ready {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("it is not ready after {} s", ZYGOTE_WAIT.as_secs()),
    };
    tracing::warn!(kernelspec = %plan.spec.name, problem, "no zygote: kernels start cold");
}

/// The program, where the sandbox gets a root that is built from the host's files.
fn program_in_built_root<'a>(plan: &Plan, launch: &'a Launch) -> Option<&'a Path> {
    let built = plan.capabilities().root == RootFiles::Built;
    launch.argv.first().filter(|_| built).map(Path::new)
}
