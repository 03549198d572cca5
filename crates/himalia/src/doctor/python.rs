//! Checks the Python environment and the kernelspecs.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use himalia_engine::{Drain, Engine, EngineConfig, KernelSpecs, Principal};
use himalia_sandbox::{LocalConfig, LocalProvisioner};

use super::finding::{Finding, Level};
use crate::config::Config;
use crate::env::{PythonEnv, check_python};
use crate::{paths, serve};

pub(super) fn look(config: &Config) -> Vec<Finding> {
    let mut findings = vec![environment(config)];
    match search(config) {
        Ok(found) => findings.extend(kernelspecs(&found, &config.default_kernel)),
        Err(error) => findings.push(Finding::new(Level::Bad, "kernelspecs", format!("{error:#}"))),
    }
    findings
}

fn kernelspecs(found: &KernelSpecs, default: &str) -> Vec<Finding> {
    let topic = "kernelspec";
    if found.specs.is_empty() {
        return vec![Finding::new(
            Level::Bad,
            topic,
            "none found; himalia env build makes python3",
        )];
    }
    let line = |spec: &himalia_engine::KernelSpec| {
        let place = spec.dir.display();
        match &spec.problem {
            None => Finding::new(Level::Good, topic, format!("{}, {place}", spec.name)),
            Some(problem) => Finding::new(Level::Warn, topic, format!("{}, {place}\n{problem}", spec.name)),
        }
    };
    let mut findings: Vec<_> = found.specs.values().map(line).collect();
    if !found.specs.contains_key(default) {
        let text = format!("{default}, the default, is not there; {} is used", found.default);
        findings.push(Finding::new(Level::Warn, topic, text));
    }
    findings
}

/// Kernelspecs that an engine with these settings finds. The search uses its own directory, so that a running gateway and its data are not
/// touched.
fn search(config: &Config) -> anyhow::Result<KernelSpecs> {
    let dir = std::env::temp_dir().join(format!("himalia-doctor-{}", std::process::id()));
    paths::make_private(&dir)?;
    let found = ask(config, &dir);
    let _ = fs::remove_dir_all(&dir);
    found
}

fn ask(config: &Config, dir: &Path) -> anyhow::Result<KernelSpecs> {
    let mut settings = EngineConfig {
        data_dir: dir.join("data"),
        ..serve::engine_config(config)
    };
    let own = config.data_dir.join("kernelspecs");
    settings.kernelspec_dirs.push(own);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    runtime.block_on(Box::pin(async {
        let provisioner = LocalProvisioner::new(LocalConfig::new(dir.join("run"), "himalia-shim"))?;
        let engine = Engine::open(settings, Arc::new(provisioner)).await?;
        let operator = Principal::operator();
        let found = engine.kernelspecs(&operator).await;
        engine.drain(&operator, Drain::KeepKernels).await?;
        Ok(found?)
    }))
}

fn environment(config: &Config) -> Finding {
    let topic = "Python";
    let env = PythonEnv::locate(&config.env_dir);
    let dir = env.dir.display().to_string();
    if env.ready().is_some() {
        return Finding::new(Level::Good, topic, format!("environment {dir}"));
    }
    match check_python(Path::new("python3")) {
        Ok(version) => {
            let text = format!("{version} found; no environment for it yet: himalia env build makes {dir}");
            Finding::new(Level::Warn, topic, text)
        }
        Err(error) => Finding::new(
            Level::Warn,
            topic,
            format!("no environment, and none can be made: {error:#}"),
        ),
    }
}
