//! `himalia credential`: credentials of a running gateway.

use std::io::Read as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::args::gateway::GatewayArgs;
use crate::show::{Column, clean, listed, since, word};
use crate::support::{array, connect, encoded, expect, print};

pub(crate) const EXAMPLES: &str = "\
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

/// Most bytes of a value on standard input.
const VALUE_BYTES: u64 = 64 << 10;

pub(super) async fn call(command: CredentialCommand) -> anyhow::Result<ExitCode> {
    match command {
        CredentialCommand::Set(args) => set(*args).await,
        CredentialCommand::List { tenant, gateway } => {
            let client = connect(&gateway)?;
            let query = tenant.map_or_else(String::new, |tenant| format!("?tenant={}", encoded(&tenant)));
            let body = client
                .list(&format!("/v1/credentials{query}"), "credentials")
                .await?;
            print(gateway.json, &body, |body| {
                credentials(array(&body["credentials"]))
            })
        }
        CredentialCommand::Remove {
            names,
            tenant,
            gateway,
        } => {
            let client = connect(&gateway)?;
            let query = tenant.map_or_else(String::new, |tenant| format!("?tenant={}", encoded(&tenant)));
            for name in &names {
                let path = format!("/v1/credentials/{}{query}", encoded(name));
                let reply = client.delete(&path).await?;
                if reply.status != 204 {
                    bail!("{}", reply.problem());
                }
            }
            print(gateway.json, &json!({ "deleted": names }), |_| String::new())
        }
    }
}

async fn set(args: CredentialArgs) -> anyhow::Result<ExitCode> {
    let mut input = String::new();
    std::io::stdin()
        .take(VALUE_BYTES)
        .read_to_string(&mut input)
        .context("cannot read the value from standard input")?;
    let mut lines = input.lines().filter(|line| !line.is_empty());
    let mut body = json!({ "kind": args.kind, "hosts": args.hosts });
    // In which order the secrets of a kind are on standard input.
    let members: &[&str] = match (args.kind.as_str(), args.grant.as_deref()) {
        ("oauth2", Some("refresh_token")) => &["value", "client_secret"],
        ("oauth2", _) => &["client_secret"],
        _ => &["value", "session_token"],
    };
    for (member, line) in members.iter().zip(&mut lines) {
        body[*member] = line.into();
    }
    ensure!(
        args.kind == "oauth2" || !body["value"].is_null(),
        "the value is the first line of standard input, which is empty"
    );
    for (member, given) in [
        ("base_url", args.base_url),
        ("header", args.header),
        ("prefix", args.prefix),
        ("parameter", args.parameter),
        ("user", args.user),
        ("access_key", args.access_key),
        ("region", args.region),
        ("service", args.service),
        ("grant", args.grant),
        ("issuer", args.issuer),
        ("resource", args.resource),
        ("authorization_url", args.authorization_url),
        ("token_url", args.token_url),
        ("client_id", args.client_id),
        ("scope", args.scope),
        ("tenant", args.tenant),
    ] {
        if let Some(text) = given {
            body[member] = text.into();
        }
    }
    let path = format!("/v1/credentials/{}", encoded(&args.name));
    let set = expect(&connect(&args.gateway)?.put(&path, &body).await?, 200)?;
    print(args.gateway.json, &set, |set: &Value| {
        credentials(std::slice::from_ref(set))
    })
}

fn credentials(credentials: &[Value]) -> String {
    listed(credentials, CREDENTIALS, "no credentials")
}

/// Description of a new grant.
pub(crate) fn granted(credential: &Value) -> String {
    let (name, tokens) = (word(credential, "name"), &credential["tokens"]);
    if let Some(problem) = tokens["problem"].as_str() {
        return format!("{name}: {}\n", clean(problem));
    }
    let scope = tokens["scope"].as_str();
    let scope = scope.map_or_else(String::new, |scope| format!(" with the scopes {}", clean(scope)));
    let expires = tokens["expires"].as_str().map_or_else(String::new, |expires| {
        format!(
            "; the first token is good until {}, and is replaced before",
            clean(expires)
        )
    });
    format!("{name} is granted{scope}{expires}\n")
}

const CREDENTIALS: &[Column] = &[
    ("NAME", |credential| word(credential, "name")),
    ("OWNER", |credential| word(credential, "owner")),
    ("KIND", |credential| word(credential, "kind")),
    ("HOSTS", |credential| {
        let hosts = credential["hosts"].as_array().into_iter().flatten();
        let hosts: Vec<&str> = hosts.filter_map(Value::as_str).collect();
        clean(&hosts.join(","))
    }),
    ("SET BY", |credential| match credential["set_by"].as_str() {
        Some(by) => clean(by),
        None => "configuration".to_owned(),
    }),
    ("AGE", |credential| since(&credential["set"])),
    ("TOKENS", |credential| word(&credential["tokens"], "state")),
];
