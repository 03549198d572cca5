//! Asks the container engine for its version, runtimes, images and limits.

use std::path::Path;

use himalia_provisioner::Isolation;
use himalia_sandbox::EngineReport;

use super::finding::{Finding, Level};
use super::sandboxes::limits;
use crate::config::Config;
use crate::host_uids::HostUids;
use crate::programs::SHIM;
use crate::sandboxes;

/// The configuration that adds gVisor to Docker, in a form in which its sandboxes reach the gateway.
const RUNSC: &str = r#"for it, install gVisor's runsc and add to /etc/docker/daemon.json, then restart Docker:
  {"runtimes": {"runsc": {"path": "/usr/local/bin/runsc", "runtimeArgs": ["--host-uds=open", "--oci-seccomp"]}}}"#;

pub(super) async fn look(config: &Config, dir: &Path) -> Vec<Finding> {
    let topic = "Docker";
    let wanted = config.sandboxes.docker_wanted;
    let uids = HostUids::shared(config.sandboxes.host_uids.as_ref());
    let asked = async {
        let shim = SHIM.find(config.shim.as_deref())?;
        let package = sandboxes::kernel_package(config)?;
        anyhow::Ok(
            sandboxes::docker::provisioner(config, dir, &shim, &package, &uids)?
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
                format!("{name}: {level} is not available\n{hint}"),
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
    use himalia_provisioner::{Enforcement, LimitReport};
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
