//! `himalia prompts`: what waits for a person, and the answers.

mod ask;
mod text;

use std::process::ExitCode;

use serde_json::json;

use crate::args::gateway::GatewayArgs;
use crate::args::prompts::{PromptsArgs, PromptsCommand};
use crate::support::{connect, encoded, expect, print};

pub(super) async fn call(args: PromptsArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        None => list(&args.gateway).await,
        Some(PromptsCommand::List { gateway }) => list(&gateway).await,
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
