//! `himalia webhook`: webhooks of a running gateway.

use std::process::ExitCode;

use serde_json::json;

use super::runs::latest;
use super::schedules::RUNS;
use super::show;
use super::skills::inputs_of;
use super::triggers::{TriggerTarget, switch};
use crate::args::webhooks::{NewWebhookArgs, WebhookCommand};
use crate::support::{array, connect, delete, encoded, expect, print};

pub(super) async fn call(command: WebhookCommand) -> anyhow::Result<ExitCode> {
    match command {
        WebhookCommand::Add(args) => add(*args).await,
        WebhookCommand::List { gateway } => {
            let body = connect(&gateway)?.list("/v1/webhooks", "webhooks").await?;
            print(gateway.json, &body, |body| {
                show::webhooks(array(&body["webhooks"]))
            })
        }
        WebhookCommand::Show { webhook, gateway } => {
            let client = connect(&gateway)?;
            let mut shown = expect(&client.get(&path(&webhook)).await?, 200)?;
            let query = format!("webhook={}", encoded(&webhook));
            shown["runs"] = latest(&client, &query, RUNS).await?.into();
            let deliveries = format!("{}/deliveries", path(&webhook));
            shown["deliveries"] = client.list(&deliveries, "deliveries").await?["deliveries"].take();
            print(gateway.json, &shown, show::webhook)
        }
        WebhookCommand::Retry { delivery, gateway } => {
            let retry = format!("/v1/deliveries/{}/retry", encoded(&delivery));
            let reply = connect(&gateway)?.post(&retry, &json!({})).await?;
            print(gateway.json, &expect(&reply, 202)?, |delivery| {
                show::deliveries(std::slice::from_ref(delivery))
            })
        }
        WebhookCommand::Pause { webhook, gateway } => {
            switch(&gateway, &path(&webhook), false, show::webhook).await
        }
        WebhookCommand::Resume { webhook, gateway } => {
            switch(&gateway, &path(&webhook), true, show::webhook).await
        }
        WebhookCommand::Remove { webhook, gateway } => delete(&gateway, &path(&webhook), &webhook).await,
    }
}

fn path(webhook: &str) -> String {
    format!("/v1/webhooks/{}", encoded(webhook))
}

async fn add(args: NewWebhookArgs) -> anyhow::Result<ExitCode> {
    let mut body = json!({ "name": args.name, "inputs": inputs_of(&args.inputs)? });
    let started = TriggerTarget {
        target: args.target,
        version: args.version,
        template: args.template,
        timeout: args.timeout,
        callback: args.callback,
    };
    started.write(&mut body);
    let reply = connect(&args.gateway)?.post("/v1/webhooks", &body).await?;
    print(args.gateway.json, &expect(&reply, 201)?, show::new_webhook)
}
