//! Tests which kinds of sandboxes work on this host, by starting them.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use himalia_sandbox::{Enforcement, EngineReport, Isolation, LimitReport, try_out};

use super::finding::{Finding, Level};
use crate::config::Config;
use crate::host_uids::{self, HostUids};
use crate::programs::{JAIL, SHIM, version};
use crate::settings::IsolationSetting;
use crate::{paths, rundir, sandboxes};

/// What makes gVisor known to Docker, in a form in which its sandboxes reach the gateway.
const RUNSC: &str = r#"for it, install gVisor's runsc and add to /etc/docker/daemon.json, then restart Docker:
  {"runtimes": {"runsc": {"path": "/usr/local/bin/runsc", "runtimeArgs": ["--host-uds=open", "--oci-seccomp"]}}}"#;

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
    findings.extend(docker(config, dir).await);
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
                "{none}; that is for loopback addresses only, and {} is none",
                config.listen
            );
            Finding::new(Level::Bad, topic, text)
        }
    }
}

/// Whether they work, and how.
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
        let found = format!("{}, {}", jail.display(), version(&jail)?);
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
    let mut findings = vec![Finding::new(Level::Good, "himalia-jail", jail)];
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

/// How limits are enforced; one that is not enforced is a warning.
fn limits(topic: &'static str, report: LimitReport) -> Finding {
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

async fn docker(config: &Config, dir: &Path) -> Vec<Finding> {
    let topic = "Docker";
    let wanted = config.sandboxes.docker_wanted;
    let uids = HostUids::shared(config.sandboxes.host_uids.as_ref());
    let asked = async {
        let shim = SHIM.find(config.shim.as_deref())?;
        let package = sandboxes::kernel_package(config)?;
        anyhow::Ok(
            sandboxes::docker(config, dir, &shim, &package, &uids)?
                .report()
                .await?,
        )
    };
    match asked.await {
        Ok(report) => engine(&report, wanted),
        Err(error) if wanted => vec![Finding::new(Level::Bad, topic, format!("{error:#}"))],
        Err(error) => vec![Finding::new(
            Level::Info,
            topic,
            format!("{error:#} (nothing here needs it)"),
        )],
    }
}

fn engine(report: &EngineReport, wanted: bool) -> Vec<Finding> {
    let mut text = format!("{}, interface {}", report.version, report.api);
    if let Some(version) = &report.cgroup_version {
        text = format!("{text}, cgroups version {version}");
    }
    let mut findings = vec![
        Finding::new(Level::Good, "Docker", text),
        limits("Docker limits", report.limits),
    ];
    for (name, (level, there)) in &report.runtimes {
        let topic = "Docker runtime";
        findings.push(if *there {
            Finding::new(Level::Good, topic, format!("{name}: {level}"))
        } else {
            let hint = if *level == Isolation::Gvisor {
                RUNSC
            } else {
                "not known to the engine"
            };
            Finding::new(
                Level::Info,
                topic,
                format!("{name}: {level} is not to be had\n{hint}"),
            )
        });
    }
    for (name, problem) in &report.images {
        let topic = "Docker image";
        findings.push(match problem {
            None => Finding::new(Level::Good, topic, name.clone()),
            Some(problem) => {
                let level = if wanted { Level::Warn } else { Level::Info };
                Finding::new(level, topic, problem.clone())
            }
        });
    }
    for warning in &report.warnings {
        let mut text = warning.clone();
        if warning.contains("runtimeArgs") {
            text = format!("{text}\n{RUNSC}");
        }
        let level = if wanted { Level::Warn } else { Level::Info };
        findings.push(Finding::new(level, "Docker", text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_report_on_an_engine_says_what_to_fix() {
        let report = EngineReport {
            version: "28".into(),
            api: "1.50".into(),
            cgroup_version: Some("1".into()),
            limits: LimitReport {
                memory: Enforcement::Cgroup,
                ..LimitReport::default()
            },
            runtimes: BTreeMap::from([
                ("runc".into(), (Isolation::Container, true)),
                ("runsc".into(), (Isolation::Gvisor, false)),
            ]),
            images: BTreeMap::from([("himalia-kernel".into(), Some("is not there".into()))]),
            warnings: vec!["runc 1.1.5 has holes".into()],
        };
        let findings = engine(&report, true);
        let has = |level, word: &str| {
            findings
                .iter()
                .any(|finding| finding.level == level && finding.text.contains(word))
        };
        assert!(has(Level::Good, "28, interface 1.50, cgroups version 1"));
        assert!(has(Level::Warn, "memory: cgroup, pids: not enforced"));
        // What its sandboxes need to reach the gateway, and to have a seccomp filter inside.
        assert!(has(Level::Info, r#"["--host-uds=open", "--oci-seccomp"]"#));
        assert!(has(Level::Warn, "is not there") && has(Level::Warn, "has holes"));
        assert!(
            engine(&report, false)
                .iter()
                .filter(|one| one.level == Level::Warn)
                .count()
                == 1
        );
    }
}
