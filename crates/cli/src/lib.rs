//! The commands of `himalia` that speak to a running gateway over HTTP, and what they share with the gateway itself: where it says its address,
//! how tokens and times are written.

#![allow(
    clippy::doc_markdown,
    reason = "the doc comments of arguments are the texts of the help: plain, not Markdown"
)]
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
use clap::Subcommand;
use serde_json::Value;

use crate::args::gateway::GatewayArgs;
use crate::args::mcp::McpArgs;
pub use crate::config_error::ConfigError;
use crate::support::{encoded, expect};

/// Commands that speak to a running gateway.
#[derive(Debug, Subcommand)]
pub enum GatewayCommand {
    /// Sessions of a running gateway
    #[command(subcommand)]
    Session(sessions::SessionCommand),
    /// Access tokens of a running gateway
    #[command(subcommand, after_help = tokens::EXAMPLES)]
    Token(tokens::TokenCommand),
    /// Secrets that a running gateway adds to requests of sessions
    #[command(subcommand, after_help = credentials::EXAMPLES)]
    Credential(credentials::CredentialCommand),
    /// Prompts that wait for a person: approvals of calls and of steps, questions of code, input()
    #[command(after_help = prompts::EXAMPLES)]
    Prompts(prompts::PromptsArgs),
    /// Tools that a person has approved for later sessions
    #[command(subcommand)]
    Approval(approvals::ApprovalCommand),
    /// Skills: typed, versioned instructions and code that agents share
    #[command(subcommand, after_help = skills::EXAMPLES)]
    Skill(skills::SkillCommand),
    /// Workflows: steps that are skills, wired output to input
    #[command(subcommand, after_help = workflows::EXAMPLES)]
    Workflow(workflows::WorkflowCommand),
    /// Runs of skills and workflows, whatever has started them
    #[command(subcommand, after_help = runs::EXAMPLES)]
    Run(runs::RunCommand),
    /// Schedules: runs of skills at due times
    #[command(subcommand, after_help = schedules::EXAMPLES)]
    Schedule(schedules::ScheduleCommand),
    /// Webhooks: runs of skills that signed messages of other services start
    #[command(subcommand, after_help = webhooks::EXAMPLES)]
    Webhook(webhooks::WebhookCommand),
    /// Grant a credential of kind oauth2: prints the page where you consent, and waits
    #[command(after_help = auth::EXAMPLES)]
    Auth(auth::AuthArgs),
    /// Run code in a session and show its output
    #[command(after_help = args::exec::EXAMPLES)]
    Exec(args::exec::ExecArgs),
    /// Let Jupyter clients of this machine attach to a session: jupyter console, qtconsole, Spyder, Emacs, Vim
    #[command(after_help = args::connect::EXAMPLES)]
    Connect(args::connect::ConnectArgs),
    /// Usage of a tenant and its callers, and their quotas
    Usage(operator::UsageArgs),
    /// Remove data of expired sessions, and data that belongs to no session
    ///
    /// The running gateway also does this every ten minutes, a part each time. When it starts, it removes data that
    /// belongs to no session.
    Gc(operator::GcArgs),
}

/// Runs one of them.
pub fn call(command: GatewayCommand) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        match command {
            GatewayCommand::Session(args) => Box::pin(sessions::call(args)).await,
            GatewayCommand::Token(args) => Box::pin(tokens::call(args)).await,
            GatewayCommand::Credential(args) => Box::pin(credentials::call(args)).await,
            GatewayCommand::Prompts(args) => Box::pin(prompts::call(args)).await,
            GatewayCommand::Approval(args) => Box::pin(approvals::call(args)).await,
            GatewayCommand::Skill(args) => Box::pin(skills::call(args)).await,
            GatewayCommand::Workflow(args) => Box::pin(workflows::call(args)).await,
            GatewayCommand::Run(args) => Box::pin(runs::call(args)).await,
            GatewayCommand::Schedule(args) => Box::pin(schedules::call(args)).await,
            GatewayCommand::Webhook(args) => Box::pin(webhooks::call(args)).await,
            GatewayCommand::Auth(args) => Box::pin(auth::call(args)).await,
            GatewayCommand::Exec(args) => Box::pin(exec::exec(args)).await,
            GatewayCommand::Connect(args) => Box::pin(connect::connect(args)).await,
            GatewayCommand::Usage(args) => Box::pin(operator::usage(args)).await,
            GatewayCommand::Gc(args) => Box::pin(operator::collect(args)).await,
        }
    });
    // A line that is still being read from a terminal is not waited for.
    runtime.shutdown_background();
    done
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
