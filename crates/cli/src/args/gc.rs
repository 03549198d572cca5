//! `himalia gc`.

use clap::Args;

use super::gateway::GatewayArgs;

/// What is removed.
#[derive(Debug, Args)]
pub struct GcArgs {
    /// Only print the list, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}
