//! `himalia gc` and `himalia usage`.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::args::gateway::GatewayArgs;
use crate::show;
use crate::support::{connect, encoded, expect, print};

/// Scope of a collection.
#[derive(Debug, Args)]
pub struct GcArgs {
    /// Only print the list, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

/// Owner whose usage is shown.
#[derive(Debug, Args)]
pub struct UsageArgs {
    /// Tenant of the configuration, for the operator [default: that of the token]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

/// Removes what is not kept any longer, or says what that is.
pub(crate) async fn collect(args: GcArgs) -> anyhow::Result<ExitCode> {
    let body = json!({ "dry_run": args.dry_run });
    let reply = connect(&args.gateway)?.post("/v1/gc", &body).await?;
    print(args.gateway.json, &expect(&reply, 200)?, show::collected)
}

/// Shows what a tenant and its callers use.
pub(crate) async fn usage(args: UsageArgs) -> anyhow::Result<ExitCode> {
    let tenant = args.tenant.as_deref();
    let query = tenant.map_or_else(String::new, |tenant| format!("?tenant={}", encoded(tenant)));
    let reply = connect(&args.gateway)?.get(&format!("/v1/usage{query}")).await?;
    print(args.gateway.json, &expect(&reply, 200)?, show::usage)
}
