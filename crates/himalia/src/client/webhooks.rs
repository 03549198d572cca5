//! `himalia webhook`: webhooks of a running gateway.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::skills::inputs_of;
use super::{connect, encoded, expect, print, show};
use crate::cli::{GatewayArgs, NewWebhookArgs, WebhookCommand};

pub(super) async fn call(command: WebhookCommand) -> anyhow::Result<ExitCode> {
    match command {
        WebhookCommand::Add(args) => add(*args).await,
        WebhookCommand::List { gateway } => {
            let body = connect(&gateway)?.list("/v1/webhooks", "webhooks").await?;
            print(gateway.json, &body, |body| {
                show::webhooks(body["webhooks"].as_array().map_or(&[], Vec::as_slice))
            })
        }
        WebhookCommand::Show { webhook, gateway } => {
            let client = connect(&gateway)?;
            let mut shown = expect(&client.get(&path(&webhook)).await?, 200)?;
            for member in ["runs", "deliveries"] {
                let mut all = client
                    .list(&format!("{}/{member}", path(&webhook)), member)
                    .await?;
                shown[member] = all[member].take();
            }
            print(gateway.json, &shown, show::webhook)
        }
        WebhookCommand::Retry { delivery, gateway } => {
            let retry = format!("/v1/deliveries/{}/retry", encoded(&delivery));
            let reply = connect(&gateway)?.post(&retry, &json!({})).await?;
            print(gateway.json, &expect(&reply, 202)?, |delivery| {
                show::deliveries(std::slice::from_ref(delivery))
            })
        }
        WebhookCommand::Pause { webhook, gateway } => switch(&gateway, &webhook, false).await,
        WebhookCommand::Resume { webhook, gateway } => switch(&gateway, &webhook, true).await,
        WebhookCommand::Remove { webhook, gateway } => {
            let reply = connect(&gateway)?.delete(&path(&webhook)).await?;
            if reply.status != 204 {
                bail!("{}", reply.problem());
            }
            print(gateway.json, &json!({ "deleted": webhook }), |_| String::new())
        }
    }
}

fn path(webhook: &str) -> String {
    format!("/v1/webhooks/{}", encoded(webhook))
}

async fn add(args: NewWebhookArgs) -> anyhow::Result<ExitCode> {
    let mut target = json!({ "skill": args.skill });
    if let Some(version) = args.version {
        target["version"] = version.into();
    }
    let mut body = json!({ "name": args.name, "target": target, "inputs": inputs_of(&args.inputs)? });
    for (member, given) in [
        ("template", args.template.map(Value::from)),
        ("timeout_s", args.timeout.map(|time| time.0.into())),
        ("callback", args.callback.map(Value::from)),
    ] {
        if let Some(value) = given {
            body[member] = value;
        }
    }
    let reply = connect(&args.gateway)?.post("/v1/webhooks", &body).await?;
    print(args.gateway.json, &expect(&reply, 201)?, show::new_webhook)
}

async fn switch(gateway: &GatewayArgs, webhook: &str, enabled: bool) -> anyhow::Result<ExitCode> {
    let client = connect(gateway)?;
    let reply = client
        .patch(&path(webhook), &json!({ "enabled": enabled }))
        .await?;
    print(gateway.json, &expect(&reply, 200)?, show::webhook)
}
