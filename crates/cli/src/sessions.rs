//! `himalia session`: sessions of a running gateway.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::Subcommand;
use serde_json::{Value, json};

use crate::args::gateway::GatewayArgs;
use crate::support::{array, connect, encoded, expect, print};
use crate::values::Seconds;
use crate::{find, show};

#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// Start a session, or find the one with this name
    New {
        /// Lower-case letters, digits and hyphens
        name: String,
        /// Template or kernelspec [default: the gateway's default kernelspec]
        #[arg(long, value_name = "NAME")]
        template: Option<String>,
        /// A label of a new session; may be given several times
        #[arg(long = "label", value_name = "NAME=VALUE")]
        labels: Vec<String>,
        /// End it after this time without activity: 90, 10m
        #[arg(long, value_name = "TIME")]
        idle_timeout: Option<Seconds>,
        /// End it after this time, even if it is active
        #[arg(long, value_name = "TIME")]
        lifetime: Option<Seconds>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// List sessions: state, age, time without activity, memory in use
    Ls {
        /// Only sessions with this label, or this label and value; may be given several times
        #[arg(long = "label", value_name = "NAME[=VALUE]")]
        labels: Vec<String>,
        /// Also show full ids, kernelspec, isolation, start path, parent, owner and labels
        #[arg(long)]
        wide: bool,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Fork a session: the new sessions have its variables, and a copy of its files
    Fork {
        /// Id of the session, a prefix of it, or the session's name
        session: String,
        /// Number of branches, at most 16
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        count: u32,
        /// strict: refuse if a fork may break something; report: refuse only if it would, and report the rest
        #[arg(long, value_name = "POLICY", default_value = "strict")]
        policy: String,
        /// copy or share
        #[arg(long, value_name = "FILES", default_value = "copy")]
        files: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// End sessions with everything in them
    Rm {
        /// Ids or names of the sessions
        #[arg(required = true)]
        sessions: Vec<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

pub(crate) async fn call(command: SessionCommand) -> anyhow::Result<ExitCode> {
    match command {
        SessionCommand::New {
            name,
            template,
            labels,
            idle_timeout,
            lifetime,
            gateway,
        } => {
            let mut body = json!({ "labels": labels_of(&labels)? });
            if let Some(template) = template {
                body["template"] = template.into();
            }
            for (member, time) in [("idle_timeout_s", idle_timeout), ("lifetime_s", lifetime)] {
                if let Some(time) = time {
                    body[member] = time.0.into();
                }
            }
            new(&gateway, &name, &body).await
        }
        SessionCommand::Ls {
            labels,
            wide,
            gateway,
        } => list(&gateway, &labels, wide).await,
        SessionCommand::Fork {
            session,
            count,
            policy,
            files,
            gateway,
        } => {
            let body = json!({ "count": count, "policy": policy, "files": files });
            fork(&gateway, &session, &body).await
        }
        SessionCommand::Rm { sessions, gateway } => remove(&gateway, &sessions).await,
    }
}

async fn new(gateway: &GatewayArgs, name: &str, body: &Value) -> anyhow::Result<ExitCode> {
    let client = connect(gateway)?;
    let session = find::start(&client, name, body).await?;
    print(gateway.json, &session, |session| {
        show::sessions(std::slice::from_ref(session), true)
    })
}

/// Labels of a command line.
fn labels_of(given: &[String]) -> anyhow::Result<BTreeMap<&str, &str>> {
    let pairs = given.iter().map(|label| {
        let pair = label.split_once('=');
        pair.with_context(|| format!("--label {label:?}: expected NAME=VALUE"))
    });
    pairs.collect()
}

async fn list(gateway: &GatewayArgs, labels: &[String], wide: bool) -> anyhow::Result<ExitCode> {
    let client = connect(gateway)?;
    let mut path = "/v1/sessions".to_owned();
    for (at, label) in labels.iter().enumerate() {
        path.push_str(if at == 0 { "?label=" } else { "&label=" });
        path.push_str(&encoded(label));
    }
    let body = client.list(&path, "sessions").await?;
    print(gateway.json, &body, |body| {
        show::sessions(array(&body["sessions"]), wide)
    })
}

async fn fork(gateway: &GatewayArgs, session: &str, body: &Value) -> anyhow::Result<ExitCode> {
    let client = connect(gateway)?;
    let session = find::find(&client, session).await?;
    let path = format!("/v1/sessions/{session}/fork");
    let reply = client.post(&path, body).await?;
    if reply.status != 207 {
        let body = expect(&reply, 201)?;
        return print(gateway.json, &body, show::branches);
    }
    let body = reply.json()?;
    print(gateway.json, &body, show::branches)?;
    let detail = body.pointer("/error/detail").and_then(Value::as_str);
    bail!(
        "not all branches were made: {}",
        detail.unwrap_or("no reason given")
    )
}

async fn remove(gateway: &GatewayArgs, sessions: &[String]) -> anyhow::Result<ExitCode> {
    let client = connect(gateway)?;
    for session in sessions {
        let reply = client.delete(&format!("/v1/sessions/{}", id(session)?)).await?;
        if reply.status != 204 {
            bail!("{session}: {}", reply.problem());
        }
    }
    let body = json!({ "removed": sessions });
    print(gateway.json, &body, |_| String::new())
}

/// Ids and names are in an address, so they must be plain. What is ended is named in full.
fn id(text: &str) -> anyhow::Result<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    ensure!(
        !text.is_empty() && text.len() <= 64 && text.bytes().all(plain),
        "{text:?} is not a session's id or name"
    );
    Ok(text)
}
