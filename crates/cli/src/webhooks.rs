//! `himalia webhook`: webhooks of a running gateway.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::runs::latest;
use super::schedules::RUNS;
use super::show;
use super::skills::inputs_of;
use super::triggers::{TriggerTarget, switch};
use crate::args::gateway::GatewayArgs;
use crate::schedules::TargetArgs;
use crate::support::{array, connect, delete, encoded, expect, print};
use crate::values::Seconds;

pub(crate) const EXAMPLES: &str = "\
Examples:
  himalia webhook add orders --skill reconcile --input account=sales
  himalia webhook add orders --skill reconcile --callback https://example.org/results
  himalia webhook ls
  himalia webhook show orders          with its latest runs and deliveries
  himalia webhook retry DELIVERY       deliver a result again";

/// A webhook.
#[derive(Debug, Args)]
pub struct WebhookArgs {
    /// Name or id of the webhook
    pub(crate) webhook: String,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

#[derive(Debug, Subcommand)]
pub enum WebhookCommand {
    /// Let signed messages of another service start runs of a skill, and print the secret once
    Add(Box<NewWebhookArgs>),
    /// List webhooks with their last runs
    #[command(name = "ls")]
    List(GatewayArgs),
    /// Show a webhook, its latest runs, and the deliveries of their results
    Show(WebhookArgs),
    /// Deliver a result again
    Retry {
        /// The id of the delivery, of a webhook or a schedule
        delivery: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Take no messages until it is resumed
    Pause(WebhookArgs),
    /// Take messages again. Runs are started as the caller of this command
    Resume(WebhookArgs),
    /// Delete a webhook. Runs in progress continue
    #[command(name = "rm")]
    Remove(WebhookArgs),
}

/// A webhook to create.
#[derive(Debug, Args)]
pub struct NewWebhookArgs {
    /// Lower-case letters, digits and hyphens
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Version of the skill or workflow [default: the latest, at each run]
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// An argument that each run has, whatever the message says; JSON, or else text; may be repeated
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub(crate) inputs: Vec<String>,
    /// Template of the sessions of runs of a skill [default: that of the skill, or the gateway's default kernelspec]
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// The time that a run of a skill may take, if that is less than the skill says
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Seconds>,
    /// URL to which the result of each run is posted
    #[arg(long, value_name = "URL")]
    pub(crate) callback: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

pub(super) async fn call(command: WebhookCommand) -> anyhow::Result<ExitCode> {
    match command {
        WebhookCommand::Add(args) => add(*args).await,
        WebhookCommand::List(gateway) => {
            let body = connect(&gateway)?.list("/v1/webhooks", "webhooks").await?;
            print(gateway.json, &body, |body| {
                show::webhooks(array(&body["webhooks"]))
            })
        }
        WebhookCommand::Show(WebhookArgs { webhook, gateway }) => {
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
        WebhookCommand::Pause(WebhookArgs { webhook, gateway }) => {
            switch(&gateway, &path(&webhook), false, show::webhook).await
        }
        WebhookCommand::Resume(WebhookArgs { webhook, gateway }) => {
            switch(&gateway, &path(&webhook), true, show::webhook).await
        }
        WebhookCommand::Remove(WebhookArgs { webhook, gateway }) => {
            delete(&gateway, &path(&webhook), &webhook).await
        }
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
