//! `himalia webhook`.

use clap::{Args, Subcommand};

use super::gateway::GatewayArgs;
use super::schedules::TargetArgs;
use crate::values::Seconds;

pub const EXAMPLES: &str = "\
Examples:
  himalia webhook add orders --skill reconcile --input account=sales
  himalia webhook add orders --skill reconcile --callback https://example.org/results
  himalia webhook ls
  himalia webhook show orders          with its latest runs and deliveries
  himalia webhook retry DELIVERY       deliver a result again";

#[derive(Debug, Subcommand)]
pub enum WebhookCommand {
    /// Let signed messages of another service start runs of a skill, and print the secret once
    Add(Box<NewWebhookArgs>),
    /// List webhooks with their last runs
    #[command(name = "ls")]
    List {
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Show a webhook, its latest runs, and the deliveries of their results
    Show {
        /// Name or id of the webhook
        webhook: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Deliver a result again
    Retry {
        /// The id of the delivery, of a webhook or a schedule
        delivery: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Take no messages until it is resumed
    Pause {
        /// Name or id of the webhook
        webhook: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Take messages again. Runs are started as the caller of this command
    Resume {
        /// Name or id of the webhook
        webhook: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Delete a webhook. Runs in progress continue
    #[command(name = "rm")]
    Remove {
        /// Name or id of the webhook
        webhook: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
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
