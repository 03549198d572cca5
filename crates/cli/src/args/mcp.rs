//! `himalia mcp`.

use clap::Args;

use super::gateway::GatewayArgs;

pub const EXAMPLES: &str = "\
Examples:
  claude mcp add himalia -- himalia mcp
  himalia mcp --url http://127.0.0.1:8888/ --token-file ~/.himalia-token

It needs a running gateway and has the tools of that gateway's /mcp.";

/// The gateway that messages are passed to.
#[derive(Debug, Args)]
pub struct McpArgs {
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}
