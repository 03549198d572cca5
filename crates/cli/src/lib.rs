//! The commands of `himalia` that speak to a running gateway over HTTP, and what they share with the gateway itself: where it says its address,
//! how tokens and times are written.

#![cfg_attr(
    not(feature = "connect"),
    allow(dead_code, reason = "the options of `himalia connect`, which is left out")
)]

pub mod address;
mod approvals;
pub mod args;
mod auth;
mod config_error;
#[cfg_attr(not(feature = "connect"), path = "connect_absent.rs")]
mod connect;
mod console;
mod credentials;
mod e2b;
mod exec;
pub mod features;
mod find;
mod gateway;
mod http;
mod keyboard;
mod mcp;
mod operator;
pub mod paths;
mod plots;
mod prompts;
mod runs;
mod schedules;
mod sessions;
mod show;
mod skills;
mod stream;
mod support;
mod target;
mod terminal;
pub mod token;
mod tokens;
mod triggers;
pub mod values;
mod versions;
mod webhooks;
mod workflows;

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::Value;

use crate::args::approvals::ApprovalCommand;
use crate::args::auth::AuthArgs;
use crate::args::connect::ConnectArgs;
use crate::args::credentials::CredentialCommand;
use crate::args::exec::ExecArgs;
use crate::args::gateway::GatewayArgs;
use crate::args::gc::GcArgs;
use crate::args::mcp::McpArgs;
use crate::args::prompts::PromptsArgs;
use crate::args::runs::RunCommand;
use crate::args::schedules::ScheduleCommand;
use crate::args::sessions::SessionCommand;
use crate::args::skills::SkillCommand;
use crate::args::tokens::TokenCommand;
use crate::args::usage::UsageArgs;
use crate::args::webhooks::WebhookCommand;
use crate::args::workflows::WorkflowCommand;
pub use crate::config_error::ConfigError;
use crate::support::{encoded, expect};

/// Runs one command on sessions.
pub fn session(command: SessionCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(sessions::call(command)))
}

/// Runs one command on access tokens.
pub fn token(command: TokenCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(tokens::call(command)))
}

/// Runs one command on credentials.
pub fn credential(command: CredentialCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(credentials::call(command)))
}

/// Runs one command on skills.
pub fn skill(command: SkillCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(skills::call(command)))
}

/// Runs one command on workflows.
pub fn workflow(command: WorkflowCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(workflows::call(command)))
}

pub fn run(command: RunCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(runs::call(command)))
}

/// Runs one command on approvals of tools.
pub fn approval(command: ApprovalCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(approvals::call(command)))
}

/// Runs one command on what waits for a person.
pub fn prompts(args: PromptsArgs) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(prompts::call(args)))
}

/// Runs one command on schedules.
pub fn schedule(command: ScheduleCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(schedules::call(command)))
}

/// Runs one command on webhooks.
pub fn webhook(command: WebhookCommand) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(webhooks::call(command)))
}

/// Waits for the grant of a person; the exit code is 1 without one.
pub fn auth(args: AuthArgs) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let done = runtime.block_on(Box::pin(auth::call(args)));
    // A line that is still being read from a terminal is not waited for.
    runtime.shutdown_background();
    done
}

/// Runs code in a session; the exit code is that of its result.
pub fn exec(args: ExecArgs) -> anyhow::Result<ExitCode> {
    let client = support::connect(&args.gateway)?;
    let runtime = runtime()?;
    let done = runtime.block_on(Box::pin(exec::exec(&client, args)));
    // A line that is still being read from a terminal is not waited for.
    runtime.shutdown_background();
    done
}

/// Serves Jupyter clients of this machine.
pub fn connect(args: ConnectArgs) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(connect::connect(args)))
}

/// Removes what is not kept any longer, or says what that is.
pub fn gc(args: GcArgs) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(operator::collect(args)))
}

/// Shows what a tenant and its callers use.
pub fn usage(args: UsageArgs) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(Box::pin(operator::usage(args)))
}

/// Prints what points E2B's clients at a gateway, for a shell to evaluate.
pub fn e2b_variables(gateway: &GatewayArgs) -> anyhow::Result<ExitCode> {
    e2b::print_variables(gateway)
}

/// A session as the gateway shows it.
pub fn find_session(gateway: &GatewayArgs, session: &str) -> anyhow::Result<Value> {
    let client = support::connect(gateway)?;
    let path = format!("/v1/sessions/{}", encoded(session));
    let reply = runtime()?.block_on(Box::pin(client.get(&path)))?;
    expect(&reply, 200)
}

/// The metrics of a running gateway, as text; only for its operator.
pub fn metrics(gateway: &GatewayArgs) -> anyhow::Result<String> {
    let client = support::connect(gateway)?;
    let reply = runtime()?.block_on(Box::pin(client.get("/metrics")))?;
    reply.into_text()
}

/// The version of a running gateway.
pub fn gateway_version(gateway: &GatewayArgs) -> anyhow::Result<String> {
    let client = support::connect(gateway)?;
    let reply = runtime()?.block_on(Box::pin(client.get("/api")))?;
    let about = expect(&reply, 200)?;
    let version = about["version"].as_str();
    version
        .map(str::to_owned)
        .context("the gateway reports no version")
}

/// Serves MCP on standard input and output.
pub fn mcp(args: McpArgs) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let done = runtime.block_on(Box::pin(mcp::serve(args.gateway)));
    // A read of standard input that still blocks is not waited for.
    runtime.shutdown_background();
    done
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().context("no runtime")
}
