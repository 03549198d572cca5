//! `himalia credential`.

use clap::{Args, Subcommand};

use super::gateway::GatewayArgs;

pub const EXAMPLES: &str = "\
Examples:
  himalia credential set stripe --kind bearer --host api.stripe.com < stripe-key
  himalia credential set search --kind header --header X-Api-Key --host search.example.org < key
  himalia credential set s3 --kind aws_sigv4 --access-key AKIA… --region eu-central-1 --service s3 \\
                         --host '*.s3.eu-central-1.amazonaws.com' < secret-key
  himalia credential set crm --kind oauth2 --grant client_credentials --issuer https://id.example.org \\
      --client-id himalia --host api.example.org < client-secret
  himalia credential set linear --kind oauth2 --grant authorization_code --resource https://mcp.linear.app/mcp \\
      --host mcp.linear.app < /dev/null
  himalia credential ls
  himalia credential rm stripe

The value is the first line of standard input. It is never shown. With aws_sigv4, a second line is the session token. With oauth2
it is the secret of the client, or with --grant refresh_token the refresh token, and a second line the secret of the client.";

#[derive(Debug, Subcommand)]
pub enum CredentialCommand {
    /// Set or replace a credential. The value comes from standard input
    Set(Box<CredentialArgs>),
    /// List credentials, without their values
    #[command(name = "ls")]
    List {
        /// Tenant of the configuration, or operator [default: all for the operator, else that of the token]
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Delete credentials. The next request with them is refused
    #[command(name = "rm")]
    Remove {
        /// Names of the credentials
        #[arg(required = true)]
        names: Vec<String>,
        /// Tenant of the configuration [default: that of the token]
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

/// A credential.
#[derive(Debug, Args)]
pub struct CredentialArgs {
    /// Lower-case letters, digits and hyphens
    pub(crate) name: String,
    /// Position of the value in a request
    #[arg(long, value_name = "KIND", value_parser = ["header", "query", "bearer", "basic", "aws_sigv4", "oauth2"])]
    pub(crate) kind: String,
    /// Host that it is sent to: api.example.org, *.example.org, api.example.org:8443, http://… for plain text; may be repeated
    #[arg(long = "host", value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    /// Host behind http://NAME.credential.internal/ [default: the first --host that is no pattern]
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// header: its name
    #[arg(long, value_name = "NAME")]
    pub(crate) header: Option<String>,
    /// header: text before the value, such as 'Token '
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// query: the name of the parameter
    #[arg(long, value_name = "NAME")]
    pub(crate) parameter: Option<String>,
    /// basic: the user
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// aws_sigv4: the id of the key
    #[arg(long, value_name = "ID")]
    pub(crate) access_key: Option<String>,
    /// aws_sigv4: the region [default: that of the request's own signature]
    #[arg(long, value_name = "NAME")]
    pub(crate) region: Option<String>,
    /// aws_sigv4: the service [default: that of the request's own signature]
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// oauth2: how tokens are got
    #[arg(long, value_name = "GRANT", value_parser = ["client_credentials", "authorization_code", "refresh_token"])]
    pub(crate) grant: Option<String>,
    /// oauth2: the authorization server
    #[arg(long, value_name = "URL")]
    pub(crate) issuer: Option<String>,
    /// oauth2: the resource of the tokens, such as an MCP server; without --issuer it names the authorization server
    #[arg(long, value_name = "URL")]
    pub(crate) resource: Option<String>,
    /// oauth2: the page where a person consents, for a server that publishes nothing
    #[arg(long, value_name = "URL")]
    pub(crate) authorization_url: Option<String>,
    /// oauth2: where tokens are given, for a server that publishes nothing
    #[arg(long, value_name = "URL")]
    pub(crate) token_url: Option<String>,
    /// oauth2: the id of the gateway with the authorization server [default for authorization_code: it registers itself]
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// oauth2: the scopes, with spaces between
    #[arg(long, value_name = "SCOPES")]
    pub(crate) scope: Option<String>,
    /// Tenant of the configuration [default: that of the token]
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}
