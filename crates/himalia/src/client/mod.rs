//! `himalia session`, `himalia token`, `himalia credential`, `himalia auth`, `himalia skill`, `himalia workflow`, `himalia schedule`,
//! `himalia webhook`, `himalia prompts`, `himalia exec`, `himalia connect`, `himalia gc` and `himalia mcp`: clients of a running gateway.

mod approvals;
mod auth;
#[cfg_attr(not(feature = "connect"), path = "connect_absent.rs")]
mod connect;
mod console;
mod credentials;
mod exec;
mod gateway;
mod http;
mod keyboard;
mod mcp;
mod plots;
mod prompts;
mod schedules;
mod show;
mod skills;
mod stream;
mod target;
mod terminal;
mod tokens;
mod triggers;
mod webhooks;
mod workflows;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::cli::{
    ApprovalCommand, AuthArgs, ConnectArgs, CredentialCommand, ExecArgs, GatewayArgs, PromptsArgs,
    ScheduleCommand, SessionCommand, SkillCommand, TokenCommand, WebhookCommand, WorkflowCommand,
};
use http::{Client, Reply};
pub(crate) use target::find as find_gateway;

/// Runs one command; the exit code is 1 when the gateway refuses.
pub(crate) fn run(command: SessionCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(call(command)))
}

/// Runs one command on access tokens.
pub(crate) fn token(command: TokenCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(tokens::call(command)))
}

/// Runs one command on credentials.
pub(crate) fn credential(command: CredentialCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(credentials::call(command)))
}

/// Runs one command on skills.
pub(crate) fn skill(command: SkillCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(skills::call(command)))
}

/// Runs one command on workflows.
pub(crate) fn workflow(command: WorkflowCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(workflows::call(command)))
}

/// Runs one command on approvals of tools.
pub(crate) fn approval(command: ApprovalCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(approvals::call(command)))
}

/// Runs one command on what waits for a person.
pub(crate) fn prompts(args: PromptsArgs) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(prompts::call(args)))
}

/// Runs one command on schedules.
pub(crate) fn schedule(command: ScheduleCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(schedules::call(command)))
}

/// Runs one command on webhooks.
pub(crate) fn webhook(command: WebhookCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(webhooks::call(command)))
}

/// Waits for the grant of a person; the exit code is 1 without one.
pub(crate) fn auth(args: AuthArgs) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let done = runtime.block_on(Box::pin(auth::call(args)));
    // A line that is still being read from a terminal is not waited for.
    runtime.shutdown_background();
    done
}

/// Runs code in a session; the exit code is that of its result.
pub(crate) fn exec(args: ExecArgs) -> anyhow::Result<ExitCode> {
    let client = connect(&args.gateway)?;
    let runtime = runtime()?;
    let done = runtime.block_on(Box::pin(exec::exec(&client, args)));
    // A line that is still being read from a terminal is not waited for.
    runtime.shutdown_background();
    done
}

/// Serves Jupyter clients of this machine.
pub(crate) fn attach(args: ConnectArgs) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(connect::connect(args)))
}

/// Removes what is not kept any longer, or says what that is.
pub(crate) fn collect(gateway: &GatewayArgs, dry_run: bool) -> anyhow::Result<ExitCode> {
    let client = connect(gateway)?;
    let body = json!({ "dry_run": dry_run });
    let reply = runtime()?.block_on(Box::pin(client.post("/v1/gc", &body)))?;
    print(gateway.json, &expect(&reply, 200)?, show::collected)
}

/// What a tenant and its callers use.
pub(crate) fn usage(gateway: &GatewayArgs, tenant: Option<&str>) -> anyhow::Result<ExitCode> {
    let client = connect(gateway)?;
    let query = tenant.map_or_else(String::new, |tenant| format!("?tenant={}", encoded(tenant)));
    let reply = runtime()?.block_on(Box::pin(client.get(&format!("/v1/usage{query}"))))?;
    print(gateway.json, &expect(&reply, 200)?, show::usage)
}

/// A session as the gateway shows it.
pub(crate) fn session(gateway: &GatewayArgs, session: &str) -> anyhow::Result<Value> {
    let client = connect(gateway)?;
    let path = format!("/v1/sessions/{}", encoded(session));
    let reply = runtime()?.block_on(Box::pin(client.get(&path)))?;
    expect(&reply, 200)
}

/// Serves MCP on standard input and output.
pub(crate) fn mcp(gateway: GatewayArgs) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let done = runtime.block_on(Box::pin(mcp::serve(gateway)));
    // A read of standard input that still blocks is not waited for.
    runtime.shutdown_background();
    done
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().context("no runtime")
}

async fn call(command: SessionCommand) -> anyhow::Result<ExitCode> {
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
    let session = start(&client, name, body).await?;
    print(gateway.json, &session, |session| {
        show::sessions(std::slice::from_ref(session), true)
    })
}

/// The session of this name, started if there is none.
async fn start(client: &Client, name: &str, body: &Value) -> anyhow::Result<Value> {
    let path = format!("/v1/sessions/{}", encoded(name));
    let reply = client.put(&path, body).await?;
    if ![200, 201].contains(&reply.status) {
        bail!("{}", reply.problem());
    }
    reply.json()
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

/// A text as one segment of a path or one value in a query (RFC 3986 unreserved characters stand as they are).
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

async fn fork(gateway: &GatewayArgs, session: &str, body: &Value) -> anyhow::Result<ExitCode> {
    let client = connect(gateway)?;
    let session = exec::find(&client, session).await?;
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

/// Deletes what is at a path, which has a name.
async fn delete(gateway: &GatewayArgs, path: &str, name: &str) -> anyhow::Result<ExitCode> {
    let reply = connect(gateway)?.delete(path).await?;
    if reply.status != 204 {
        bail!("{}", reply.problem());
    }
    print(gateway.json, &json!({ "deleted": name }), |_| String::new())
}

/// The items of a list; none, if it is no list.
fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn connect(gateway: &GatewayArgs) -> anyhow::Result<Client> {
    let target = target::find(gateway)?;
    Client::new(&target)
}

/// Ids and names are in an address, so they must be plain. What is ended is named in full.
fn id(text: &str) -> anyhow::Result<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    ensure!(
        !text.is_empty() && text.len() <= 64 && text.bytes().all(plain),
        "{text:?} is no session's id or name"
    );
    Ok(text)
}

fn expect(reply: &Reply, status: u16) -> anyhow::Result<Value> {
    if reply.status != status {
        bail!("{}", reply.problem());
    }
    reply.json()
}

/// The reply as it is, or for people.
fn print(as_json: bool, body: &Value, show: impl Fn(&Value) -> String) -> anyhow::Result<ExitCode> {
    let text = if as_json {
        format!("{body:#}\n")
    } else {
        show(body)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
