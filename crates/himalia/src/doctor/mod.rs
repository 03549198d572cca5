//! `himalia doctor`: what this machine can and cannot do. It changes nothing.

#[cfg_attr(not(feature = "docker"), path = "docker_absent.rs")]
mod docker;
mod files;
mod finding;
mod gateway;
mod host;
#[cfg_attr(not(feature = "kubernetes"), path = "kubernetes_absent.rs")]
mod kubernetes;
mod network;
mod python;
mod sandboxes;
mod session;
mod versions;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::SystemTime;

use himalia_cli::args::gateway::GatewayArgs;

use crate::config::Config;
use crate::token::TokenSource;
use finding::{Finding, Level};

/// Prints what is wrong with a session of the gateway that runs on the configuration's data directory. The exit code is
/// 1 if something is wrong.
pub(crate) fn session(config: &Config, session: &str, as_json: bool) -> anyhow::Result<ExitCode> {
    let findings = session::look(&himalia_cli::find_session(&gateway_of(config), session)?);
    let bad = findings.iter().any(|finding| finding.level == Level::Bad);
    let text = if as_json {
        json(&findings, !bad)
    } else {
        lines(&findings)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::from(u8::from(bad)))
}

/// The gateway that runs on the configuration's data directory.
fn gateway_of(config: &Config) -> GatewayArgs {
    let (token, token_file) = match &config.token {
        TokenSource::Given(token) => (Some(token.clone()), None),
        TokenSource::File(file) => (None, Some(file.clone())),
        TokenSource::Made => (None, None),
    };
    GatewayArgs {
        url: None,
        token,
        token_file,
        ca: None,
        data_dir: Some(config.data_dir.clone()),
        json: true,
    }
}

/// Prints what the cluster of the configuration does for sandboxes. The exit code is 1 if something is wrong.
pub(crate) fn cluster(config: &Config, as_json: bool) -> anyhow::Result<ExitCode> {
    print(&kubernetes::look(config)?, as_json)
}

/// Prints all findings; the exit code is 1 if one of them is bad.
pub(crate) fn run(config: &Config, as_json: bool) -> anyhow::Result<ExitCode> {
    let mut findings = host::look();
    findings.extend(files::look(config));
    findings.extend(sandboxes::look(config)?);
    findings.extend(network::look(config)?);
    findings.extend(python::look(config));
    // There is neither a version nor metrics if no gateway runs.
    if let Ok(version) = himalia_cli::gateway_version(&gateway_of(config)) {
        findings.push(versions::gateway(&version));
    }
    if let Ok(metrics) = himalia_cli::metrics(&gateway_of(config)) {
        findings.push(gateway::periodic(&metrics, SystemTime::now()));
    }
    print(&findings, as_json)
}

fn print(findings: &[Finding], as_json: bool) -> anyhow::Result<ExitCode> {
    let bad = findings.iter().any(|finding| finding.level == Level::Bad);
    let text = if as_json {
        json(findings, !bad)
    } else {
        plain(findings)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::from(u8::from(bad)))
}

fn json(findings: &[Finding], ok: bool) -> String {
    let one = |Finding { level, topic, text }: &Finding| {
        let level = level.to_string().to_lowercase();
        serde_json::json!({ "level": level, "topic": topic, "text": text })
    };
    let findings: Vec<_> = findings.iter().map(one).collect();
    format!("{:#}\n", serde_json::json!({ "ok": ok, "findings": findings }))
}

fn lines(findings: &[Finding]) -> String {
    let mut out = String::new();
    for Finding { level, topic, text } in findings {
        let mut lines = text.lines();
        let _ = writeln!(out, "{level:<5} {topic:<17} {}", lines.next().unwrap_or_default());
        for line in lines {
            let _ = writeln!(out, "{:23} {line}", "");
        }
    }
    out
}

fn plain(findings: &[Finding]) -> String {
    let mut out = lines(findings);
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (bad, warnings) = (count(Level::Bad), count(Level::Warn));
    let _ = match (bad, warnings) {
        (0, 0) => writeln!(out, "\nAll is well: himalia serve can start."),
        (0, _) => writeln!(
            out,
            "\nhimalia serve can start; see the {warnings} line(s) marked warn."
        ),
        _ => writeln!(out, "\nMend the {bad} line(s) marked FAIL first."),
    };
    out
}
