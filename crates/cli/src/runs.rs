//! `himalia run`: runs of skills and workflows.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::http::Client;
use super::show;
use crate::args::gateway::GatewayArgs;
use crate::support::{array, connect, encoded, expect, print};

pub(crate) const EXAMPLES: &str = "\
Examples:
  himalia run list --workflow monthly      the latest runs of a workflow
  himalia run list --schedule nightly --status failed
  himalia run show run_…                   a run, with the steps of a workflow
  himalia run events run_…                 its states, until it has ended
  himalia run answer run_… sign approve    answer a step that waits for a person
  himalia run cancel run_…
  himalia run deliveries run_…             the deliveries of its result

`himalia skill run`, `himalia workflow run` and `himalia schedule run` start runs.";

#[derive(Debug, Subcommand)]
pub enum RunCommand {
    /// List runs of skills and workflows, the latest first
    List(Box<RunListArgs>),
    /// Show a run, with the steps of a workflow
    Show {
        /// The id of the run
        run: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Print the states of a run, one in a line, until it has ended
    Events {
        /// The id of the run
        run: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// List the deliveries of the result of a run
    Deliveries {
        /// The id of the run
        run: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Answer a step that waits for a person
    Answer {
        /// The id of the run
        run: String,
        /// The id of the step
        step: String,
        /// One of its options
        value: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// End a run and its executions
    Cancel {
        /// The id of the run
        run: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

/// The filters of the list.
#[derive(Debug, Args)]
pub struct RunListArgs {
    /// Only runs of this kind: skill or workflow
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Only runs of this skill
    #[arg(long, value_name = "NAME")]
    pub skill: Option<String>,
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    pub workflow: Option<String>,
    /// Only runs that this schedule has asked for
    #[arg(long, value_name = "NAME")]
    pub schedule: Option<String>,
    /// Only runs that this webhook has asked for
    #[arg(long, value_name = "NAME")]
    pub webhook: Option<String>,
    /// Only runs with this status, such as running or failed
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// Only runs in this session, and runs that its code has started
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Only runs that a client, code, schedule, webhook or step has started
    #[arg(long, value_name = "ORIGIN")]
    pub origin: Option<String>,
    /// At most so many runs
    #[arg(long, value_name = "NUMBER", default_value = "100")]
    pub limit: usize,
    #[command(flatten)]
    pub gateway: GatewayArgs,
}

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
