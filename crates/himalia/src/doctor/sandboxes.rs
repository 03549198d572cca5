//! Tests which kinds of sandboxes work on this host, by starting them.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use himalia_provisioner::{Enforcement, Isolation, LimitReport};
use himalia_sandbox::try_out;

use super::docker;
use super::finding::{Finding, Level};
use super::versions;
use crate::config::Config;
use crate::host_uids;
use crate::programs::{JAIL, SHIM, version};
use crate::settings::IsolationSetting;
use crate::{paths, rundir, sandboxes};

/// Tries everything in a directory of its own, so that a running gateway is not touched.
pub(super) fn look(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let dir = std::env::temp_dir().join(format!("himalia-doctor-{}-s", std::process::id()));
    paths::make_private(&dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    let gateway = match &config.run_dir {
        Some(dir) => dir.clone(),
        None => rundir::choose(&config.data_dir),
    };
    let findings = runtime.block_on(Box::pin(all(config, &gateway, &dir)));
    let _ = fs::remove_dir_all(&dir);
    Ok(findings)
}

async fn all(config: &Config, gateway: &Path, dir: &Path) -> Vec<Finding> {
    let config = &Config {
        data_dir: dir.join("data"),
        // A copy of the kernel's package is made here and not there.
        env_dir: dir.join("env"),
        ..config.clone()
    };
    let (works, mut findings) = namespaces(config, gateway, dir).await;
    findings.insert(0, level(config, works));
    let said = config.sandboxes.host_uids.as_ref();
    let warning = said.and_then(host_uids::warning);
    findings.extend(warning.map(|text| Finding::new(Level::Warn, "host_uids", text)));
    findings.extend(docker::look(config, dir).await);
    findings
}

/// The level of kernels without a template.
fn level(config: &Config, namespaces: bool) -> Finding {
    let topic = "isolation";
    let none = "none: kernels are plain processes of this user and may do what that user may";
    match config.sandboxes.isolation {
        IsolationSetting::Level(Isolation::None) => Finding::new(Level::Warn, topic, none),
        IsolationSetting::Level(level) => Finding::new(Level::Info, topic, format!("{level}, as set")),
        IsolationSetting::Auto if namespaces => Finding::new(Level::Good, topic, "namespaces (auto)"),
        IsolationSetting::Auto if config.listen.ip().to_canonical().is_loopback() => {
            Finding::new(Level::Warn, topic, format!("{none} (auto)"))
        }
        IsolationSetting::Auto => {
            let text = format!(
                "{none}; that requires a loopback address, and {} is another one",
                config.listen
            );
            Finding::new(Level::Bad, topic, text)
        }
    }
}

/// Checks that namespaces work, and returns their properties.
async fn namespaces(config: &Config, gateway: &Path, dir: &Path) -> (bool, Vec<Finding>) {
    let topic = "namespaces";
    let missing = match config.sandboxes.isolation {
        IsolationSetting::Level(Isolation::Namespaces) => Level::Bad,
        IsolationSetting::Auto => Level::Warn,
        IsolationSetting::Level(_) => Level::Info,
    };
    let prepared = async {
        let shim = SHIM.find(config.shim.as_deref())?;
        let jail = JAIL.find(config.jail.as_deref())?;
        let found = versions::program("himalia-jail", &jail, &version(&jail)?);
        let package = sandboxes::kernel_package(config)?;
        let settings = sandboxes::namespaces_config(config, gateway, dir, &shim, &jail, &package).await?;
        anyhow::Ok((settings, found))
    };
    let (settings, jail) = match prepared.await {
        Ok(prepared) => prepared,
        Err(error) => {
            return (
                false,
                vec![Finding::new(missing, topic, format!("not tried: {error:#}"))],
            );
        }
    };
    let tried = try_out(&settings).await;
    let mut findings = vec![jail];
    if let Some(most) = tried.max_user_namespaces {
        let level = if most < 64 { Level::Warn } else { Level::Info };
        let text = format!("at most {most} (sysctl user.max_user_namespaces); each sandbox needs one");
        findings.push(Finding::new(level, "user namespaces", text));
    }
    if let Some(failure) = &tried.failure {
        let mut text = format!("do not work: {}: {}", failure.step, failure.error);
        if let Some(hint) = &failure.hint {
            text = format!("{text}\n{hint}");
        }
        findings.push(Finding::new(missing, topic, text));
        return (false, findings);
    }
    let took = tried.start.map_or_else(String::new, |time| {
        format!("; one was made in {} ms", time.as_millis())
    });
    let text = format!("sandboxes can be made{took}");
    findings.push(Finding::new(Level::Good, topic, text));
    findings.push(limits("limits", tried.limits));
    (true, findings)
}

/// Mechanisms that enforce the limits; a limit that is not enforced is a warning.
pub(super) fn limits(topic: &'static str, report: LimitReport) -> Finding {
    let all = [
        ("memory", report.memory),
        ("pids", report.pids),
        ("cpu", report.cpu),
        ("disk", report.disk),
    ];
    let shown: Vec<_> = all
        .iter()
        .map(|(name, by)| format!("{name}: {}", word(*by)))
        .collect();
    let none = all.iter().any(|(_, by)| *by == Enforcement::None);
    let level = if none { Level::Warn } else { Level::Good };
    Finding::new(level, topic, shown.join(", "))
}

fn word(enforcement: Enforcement) -> &'static str {
    match enforcement {
        Enforcement::None => "not enforced",
        Enforcement::Watched => "watched",
        Enforcement::Rlimit => "rlimit",
        Enforcement::Cgroup => "cgroup",
        Enforcement::Hard => "hard",
    }
}
