//! `himalia token`: access tokens of a running gateway.

use std::io::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::show;
use crate::args::gateway::GatewayArgs;
use crate::args::tokens::TokenCommand;
use crate::support::{array, connect, encoded, expect, print};

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
        TokenCommand::List { gateway } => {
            let body = connect(&gateway)?.list("/v1/tokens", "tokens").await?;
            print(gateway.json, &body, |body| show::tokens(array(&body["tokens"])))
        }
        TokenCommand::Revoke { tokens, gateway } => {
            let client = connect(&gateway)?;
            let mut stopped = Vec::new();
            for token in &tokens {
                let reply = client.delete(&format!("/v1/tokens/{}", encoded(token))).await?;
                let mut revoked = expect(&reply, 200)?;
                stopped.append(
                    revoked["stopped_workflow_runs"]
                        .as_array_mut()
                        .unwrap_or(&mut Vec::new()),
                );
            }
            let body = json!({ "revoked": tokens, "stopped_workflow_runs": stopped });
            print(gateway.json, &body, |body| {
                let stopped = array(&body["stopped_workflow_runs"])
                    .iter()
                    .filter_map(Value::as_str);
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
        std::io::stderr().write_all(show::created_token(&made).as_bytes())?;
    }
    print(gateway.json, &made, |made| {
        format!("{}\n", made["token"].as_str().unwrap_or_default())
    })
}
