//! `himalia credential`: credentials of a running gateway.

use std::io::Read as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::show;
use crate::args::credentials::{CredentialArgs, CredentialCommand};
use crate::support::{array, connect, encoded, expect, print};

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
                show::credentials(array(&body["credentials"]))
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
        show::credentials(std::slice::from_ref(set))
    })
}
