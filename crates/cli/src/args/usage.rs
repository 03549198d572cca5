//! `himalia usage`.

use clap::Args;

use super::gateway::GatewayArgs;

/// Owner whose usage is shown.
#[derive(Debug, Args)]
pub struct UsageArgs {
    /// Tenant of the configuration, for the operator [default: that of the token]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}
