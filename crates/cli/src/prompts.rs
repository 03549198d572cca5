//! `himalia prompts`: what waits for a person, and the answers.

mod ask;
mod text;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::args::gateway::GatewayArgs;
use crate::support::{connect, encoded, expect, print};

pub(crate) const EXAMPLES: &str = "\
Examples:
  himalia prompts                        prompts that wait for a person
  himalia prompts show prm_…             one of them, with all arguments
  himalia prompts answer prm_…           asks you
  himalia prompts answer prm_… once      approve this call of a tool
  himalia prompts answer prs_… approve   a step of a workflow

A call of a tool is approved with once, for as long as its session lives with session, for later sessions of the same caller and
template too with always, and refused with deny. Approvals of calls and of steps need a token with the scope admin.";

/// Prompts that wait for a person.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PromptsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<PromptsCommand>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PromptsCommand {
    /// List prompts that wait for an answer, as without a subcommand
    #[command(name = "ls")]
    List(GatewayArgs),
    /// Show one of them with its whole text and all arguments
    Show {
        /// Id of the prompt
        prompt: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Answer one of them, once
    Answer {
        /// Id of the prompt
        prompt: String,
        /// One of its options, or a text if it has none [default: on a terminal you are asked, else the first line of standard input]
        value: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

pub(super) async fn call(args: PromptsArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        None => list(&args.gateway).await,
        Some(PromptsCommand::List(gateway)) => list(&gateway).await,
        Some(PromptsCommand::Show { prompt, gateway }) => {
            let found = connect(&gateway)?.get(&path(&prompt)).await?;
            print(gateway.json, &expect(&found, 200)?, text::prompt)
        }
        Some(PromptsCommand::Answer {
            prompt,
            value,
            gateway,
        }) => {
            let client = connect(&gateway)?;
            let path = path(&prompt);
            let value = match value {
                Some(value) => value,
                None => ask::answer(&client, &path).await?,
            };
            let answered = client
                .post(&format!("{path}/answer"), &json!({ "value": value }))
                .await?;
            print(gateway.json, &expect(&answered, 200)?, text::ended)
        }
    }
}

async fn list(gateway: &GatewayArgs) -> anyhow::Result<ExitCode> {
    let mut body = connect(gateway)?.list("/v1/prompts", "prompts").await?;
    // Pages are fair by owner, and each is in order of time.
    if let Some(prompts) = body["prompts"].as_array_mut() {
        prompts.sort_by_cached_key(|prompt| prompt["created"].to_string());
    }
    print(gateway.json, &body, text::list)
}

fn path(id: &str) -> String {
    format!("/v1/prompts/{}", encoded(id))
}
