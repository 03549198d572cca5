//! `himalia gc`.

use clap::Args;

use super::gateway::GatewayArgs;

/// Scope of a collection.
#[derive(Debug, Args)]
pub struct GcArgs {
    /// Only print the list, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}
