//! `himalia run`: runs of skills and workflows.

use std::io::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::http::Client;
use super::show;
use crate::args::runs::{RunCommand, RunListArgs};
use crate::support::{array, connect, encoded, expect, print};

pub(super) async fn call(command: RunCommand) -> anyhow::Result<ExitCode> {
    match command {
        RunCommand::List(args) => list(*args).await,
        RunCommand::Show { run, gateway } => {
            let reply = connect(&gateway)?.get(&path(&run)).await?;
            print(gateway.json, &expect(&reply, 200)?, show::run)
        }
        RunCommand::Events { run, gateway } => {
            let mut lines = connect(&gateway)?
                .get_lines(&format!("{}/events", path(&run)))
                .await?;
            let mut stdout = std::io::stdout();
            while let Some(event) = lines.next().await? {
                if event["event"] != "run" {
                    continue;
                }
                if gateway.json {
                    writeln!(stdout, "{event}")?;
                } else {
                    write!(stdout, "{}", show::run_state(&event))?;
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        RunCommand::Deliveries { run, gateway } => {
            let all = connect(&gateway)?
                .list(&format!("{}/deliveries", path(&run)), "deliveries")
                .await?;
            print(gateway.json, &all, |all| {
                show::deliveries(array(&all["deliveries"]))
            })
        }
        RunCommand::Answer {
            run,
            step,
            value,
            gateway,
        } => {
            let path = format!("{}/steps/{}/answer", path(&run), encoded(&step));
            let reply = connect(&gateway)?.post(&path, &json!({ "value": value })).await?;
            print(gateway.json, &expect(&reply, 200)?, show::run)
        }
        RunCommand::Cancel { run, gateway } => {
            let reply = connect(&gateway)?
                .post(&format!("{}/cancel", path(&run)), &json!({}))
                .await?;
            print(gateway.json, &expect(&reply, 200)?, show::run)
        }
    }
}

/// The path of a run.
pub(super) fn path(id: &str) -> String {
    format!("/v1/runs/{}", encoded(id))
}

async fn list(args: RunListArgs) -> anyhow::Result<ExitCode> {
    let filters = [
        ("kind", args.kind),
        ("skill", args.skill),
        ("workflow", args.workflow),
        ("schedule", args.schedule),
        ("webhook", args.webhook),
        ("status", args.status),
        ("session", args.session),
        ("origin", args.origin),
    ];
    let filters: Vec<String> = filters
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", encoded(&value?))))
        .collect();
    let runs = latest(&connect(&args.gateway)?, &filters.join("&"), args.limit).await?;
    print(args.gateway.json, &json!({ "runs": runs }), |body| {
        show::runs(array(&body["runs"]))
    })
}

/// The latest runs that a query has, at most so many.
pub(super) async fn latest(client: &Client, query: &str, most: usize) -> anyhow::Result<Vec<Value>> {
    let (mut runs, mut cursor) = (Vec::new(), String::new());
    while runs.len() < most {
        let limit = most.saturating_sub(runs.len()).min(100);
        let reply = client
            .get(&format!("/v1/runs?{query}&limit={limit}{cursor}"))
            .await?;
        let mut page = expect(&reply, 200)?;
        if let Value::Array(more) = page["runs"].take() {
            runs.extend(more);
        }
        let Some(next) = page["next"].as_str() else {
            break;
        };
        cursor = format!("&cursor={}", encoded(next));
    }
    Ok(runs)
}
