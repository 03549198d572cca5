//! `himalia approval`.

use clap::Subcommand;

use super::gateway::GatewayArgs;

#[derive(Debug, Subcommand)]
pub enum ApprovalCommand {
    /// List tools that are called without a question, in sessions of one template that one caller starts
    #[command(name = "ls")]
    List {
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Ask a person again for each call
    Revoke {
        /// Ids of the approvals
        #[arg(required = true)]
        approvals: Vec<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}
