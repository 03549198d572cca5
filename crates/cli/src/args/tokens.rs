//! `himalia token`.

use clap::Subcommand;

use super::gateway::GatewayArgs;
use crate::values::Seconds;

pub const EXAMPLES: &str = "\
Examples:
  himalia token create ci --scope execute --expires 90d > ~/.himalia-token
  himalia token create dashboard --scope read --description 'usage page'
  himalia token create ada --tenant acme --scope admin
  himalia token list
  himalia token revoke 6f9619ff-8b86-4d01-b42d-00cf4fc964ff";

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token, which is printed once and stored as a hash
    Create {
        /// Name of the caller that its holder is, shown in executions and the audit log: letters, digits, '.', '_', '-'
        caller: String,
        /// read: see everything, change nothing; execute: also run code, start and end sessions; admin: also manage tokens
        #[arg(long, value_name = "SCOPE", value_parser = ["read", "execute", "admin"])]
        scope: String,
        /// Tenant of the configuration [default: the tenant of the creating token]
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// Purpose, one line for people
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// Time until it expires: 12h, 90d [default: never, or together with the token that creates it]
        #[arg(long, value_name = "TIME")]
        expires: Option<Seconds>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// List tokens that are valid, without their secrets
    List {
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Revoke tokens, and end connections that use them
    Revoke {
        /// Ids of the tokens
        #[arg(required = true)]
        tokens: Vec<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}
