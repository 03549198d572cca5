//! Shared parts of the commands for skills and for workflows: both are published in versions.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::Value;

use crate::args::gateway::GatewayArgs;
use crate::http::Client;
use crate::show;
use crate::support::{connect, encoded, print};

/// Publishes a version in the list at a path, such as `/v1/skills`.
pub(super) async fn publish(gateway: &GatewayArgs, list: &str, body: &Value) -> anyhow::Result<ExitCode> {
    let reply = connect(gateway)?.post(list, body).await?;
    if ![200, 201].contains(&reply.status) {
        bail!("{}", reply.problem());
    }
    let is_new = reply.status == 201;
    print(gateway.json, &reply.json()?, |published| {
        let word = if is_new { "published" } else { "was there already" };
        let text = |member: &str| show::clean(published[member].as_str().unwrap_or_default());
        format!(
            "{} {} {word}: {}\n",
            text("name"),
            text("version"),
            text("digest")
        )
    })
}

/// The path of a version. Without a version it is the latest one, or all to delete.
pub(super) fn path(list: &str, name: &str, version: Option<&str>) -> String {
    let query = version.map_or_else(String::new, |version| format!("?version={}", encoded(version)));
    format!("{list}/{}{query}", encoded(name))
}

/// Starts a run, and prints the secret of its callback.
pub(super) async fn start(client: &Client, list: &str, name: &str, body: &Value) -> anyhow::Result<Value> {
    let reply = client
        .post(&format!("{list}/{}/runs", encoded(name)), body)
        .await?;
    if ![200, 202].contains(&reply.status) {
        bail!("{}", reply.problem());
    }
    let run = reply.json()?;
    say_secret(&run)?;
    Ok(run)
}

/// Says with what the callback of a run is signed: the response to its start alone has that.
fn say_secret(run: &Value) -> anyhow::Result<()> {
    if let Some(secret) = run["callback_secret"].as_str() {
        let id = show::clean(run["id"].as_str().unwrap_or_default());
        writeln!(
            std::io::stderr(),
            "the result of {id} is signed with {}",
            show::clean(secret)
        )?;
    }
    Ok(())
}
