//! `himalia token`: access tokens of a running gateway.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};

use crate::args::gateway::GatewayArgs;
use crate::show::{Column, clean, listed, since, word};
use crate::support::{array, connect, encoded, expect, print};
use crate::values::Seconds;

pub(crate) const EXAMPLES: &str = "\
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
    List(GatewayArgs),
    /// Revoke tokens, and end connections that use them
    Revoke {
        /// Ids of the tokens
        #[arg(required = true)]
        tokens: Vec<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

pub(super) async fn call(command: TokenCommand) -> anyhow::Result<ExitCode> {
    match command {
        TokenCommand::Create {
            caller,
            scope,
            tenant,
            description,
            expires,
            gateway,
        } => {
            let mut body = json!({ "caller": caller, "scope": scope });
            for (member, given) in [("tenant", tenant), ("description", description)] {
                if let Some(text) = given {
                    body[member] = text.into();
                }
            }
            if let Some(time) = expires {
                body["expires_in_s"] = time.0.into();
            }
            create(&gateway, &body).await
        }
        TokenCommand::List(gateway) => {
            let body = connect(&gateway)?.list("/v1/tokens", "tokens").await?;
            print(gateway.json, &body, |body| tokens(array(&body["tokens"])))
        }
        TokenCommand::Revoke { tokens, gateway } => {
            let client = connect(&gateway)?;
            let mut stopped = Vec::new();
            for token in &tokens {
                let reply = client.delete(&format!("/v1/tokens/{}", encoded(token))).await?;
                let mut revoked = expect(&reply, 200)?;
                stopped.append(revoked["stopped_runs"].as_array_mut().unwrap_or(&mut Vec::new()));
            }
            let body = json!({ "revoked": tokens, "stopped_runs": stopped });
            print(gateway.json, &body, |body| {
                let stopped = array(&body["stopped_runs"]).iter().filter_map(Value::as_str);
                stopped
                    .map(|run| format!("stopped {run}\n"))
                    .collect::<Vec<_>>()
                    .concat()
            })
        }
    }
}

/// The token stands alone on standard output, for scripts; what it is stands on standard error.
async fn create(gateway: &GatewayArgs, body: &Value) -> anyhow::Result<ExitCode> {
    let made = expect(&connect(gateway)?.post("/v1/tokens", body).await?, 201)?;
    if !gateway.json {
        std::io::stderr().write_all(created_token(&made).as_bytes())?;
    }
    print(gateway.json, &made, |made| {
        format!("{}\n", made["token"].as_str().unwrap_or_default())
    })
}

/// A table of access tokens.
fn tokens(tokens: &[Value]) -> String {
    listed(tokens, TOKENS, "no tokens")
}

/// Description of a new access token, without its secret.
fn created_token(token: &Value) -> String {
    format!(
        "token {} of {}/{}, scope {}, expires: {}; it is not shown again\n",
        word(token, "id"),
        word(token, "owner"),
        word(token, "caller"),
        word(token, "scope"),
        expires(token)
    )
}

fn expires(token: &Value) -> String {
    match token["expires"].as_str() {
        Some(date) => clean(date),
        None => "never".to_owned(),
    }
}

const TOKENS: &[Column] = &[
    ("ID", |token| word(token, "id")),
    ("OWNER", |token| word(token, "owner")),
    ("CALLER", |token| word(token, "caller")),
    ("SCOPE", |token| word(token, "scope")),
    ("AGE", |token| since(&token["created"])),
    ("EXPIRES", expires),
    ("CREATED BY", |token| word(token, "created_by")),
    ("DESCRIPTION", |token| word(token, "description")),
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_token_is_shown_without_its_secret() {
        let one = json!({"token": "himalia_canary", "id": "6f96", "owner": "acme", "caller": "ci", "scope": "read",
            "created": "", "expires": null, "created_by": "operator", "description": "x\u{1b}[31m"});
        let listed = tokens(std::slice::from_ref(&one));
        let row = listed.lines().nth(1).unwrap();
        assert_eq!(
            row, "6f96  acme   ci      read   -    never    operator    x[31m",
            "{listed}"
        );
        let said = created_token(&one);
        assert_eq!(
            said,
            "token 6f96 of acme/ci, scope read, expires: never; it is not shown again\n"
        );
        assert_eq!(tokens(&[]), "no tokens\n");
    }
}
