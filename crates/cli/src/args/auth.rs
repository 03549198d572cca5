//! `himalia auth`.

use clap::Args;

use super::gateway::GatewayArgs;

pub const EXAMPLES: &str = "\
Examples:
  himalia auth linear
  himalia auth linear --url https://gateway.example.org

The page can be opened in a browser on any machine. If that is not this one, it cannot come back by itself:
paste the address at which it ends here.";

/// A grant.
#[derive(Debug, Args)]
pub struct AuthArgs {
    /// The credential, of kind oauth2 with grant authorization_code
    pub(crate) name: String,
    /// Port of this machine that the browser comes back to, for clients that are registered with one [default: any]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Tenant of the configuration [default: that of the token]
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}
