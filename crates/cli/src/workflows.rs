//! `himalia workflow`: workflows of a running gateway.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::runs::path as path_of_run;
use super::skills::inputs_of;
use super::{show, versions};
use crate::args::gateway::GatewayArgs;
use crate::support::{array, connect, delete, expect, print};

pub(crate) const EXAMPLES: &str = "\
Examples:
  himalia workflow publish monthly.json    check it, and add this version to those of the gateway
  himalia workflow run monthly --input month=2026-10
  himalia run list --workflow monthly      its runs, the latest first

A version never changes: publish a change as another version.";

#[derive(Debug, Subcommand)]
pub enum WorkflowCommand {
    /// Publish a definition. The same content again changes nothing
    Publish {
        /// A file with the definition, JSON
        file: PathBuf,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// List workflows
    #[command(name = "ls")]
    List(GatewayArgs),
    /// Show a workflow with its definition
    Show {
        /// Name of the workflow
        name: String,
        /// Version of the workflow [default: the latest]
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Start a run, wait for its end, and print its outputs as JSON
    Run(Box<WorkflowRunArgs>),
    /// Delete a version of a workflow, or all versions
    #[command(name = "rm")]
    Remove {
        /// Name of the workflow
        name: String,
        /// Version of the workflow [default: all versions]
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

/// A run of a workflow.
#[derive(Debug, Args)]
pub struct WorkflowRunArgs {
    /// Name of the workflow
    pub(crate) name: String,
    /// Version of the workflow [default: the latest]
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// An input; a value that is not JSON is text; may be repeated
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub(crate) inputs: Vec<String>,
    /// The same key again is the same run
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// URL to which the result is posted
    #[arg(long, value_name = "URL")]
    pub(crate) callback: Option<String>,
    /// Print the run as it begins, and do not wait for its end
    #[arg(long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

const LIST: &str = "/v1/workflows";
/// Seconds that one response waits: so late a step that asks a person is reported.
const WAIT_S: u64 = 5;

pub(super) async fn call(command: WorkflowCommand) -> anyhow::Result<ExitCode> {
    match command {
        WorkflowCommand::Publish { file, gateway } => {
            let text =
                fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let definition: Value =
                serde_json::from_str(&text).with_context(|| format!("{} is not JSON", file.display()))?;
            versions::publish(&gateway, LIST, &json!({ "definition": definition })).await
        }
        WorkflowCommand::List(gateway) => {
            let body = connect(&gateway)?.list(LIST, "workflows").await?;
            print(gateway.json, &body, |body| {
                show::workflows(array(&body["workflows"]))
            })
        }
        WorkflowCommand::Show {
            name,
            version,
            gateway,
        } => {
            let reply = connect(&gateway)?
                .get(&versions::path(LIST, &name, version.as_deref()))
                .await?;
            let shown = expect(&reply, 200)?;
            print(gateway.json, &shown, |shown| {
                let digest = show::clean(shown["digest"].as_str().unwrap_or_default());
                let definition = serde_json::to_string_pretty(&shown["definition"]).unwrap_or_default();
                format!("{digest}\n{definition}\n")
            })
        }
        WorkflowCommand::Run(args) => run(*args).await,
        WorkflowCommand::Remove {
            name,
            version,
            gateway,
        } => delete(&gateway, &versions::path(LIST, &name, version.as_deref()), &name).await,
    }
}

async fn run(args: WorkflowRunArgs) -> anyhow::Result<ExitCode> {
    let mut body = json!({ "inputs": inputs_of(&args.inputs)? });
    for (member, given) in [
        ("version", args.version),
        ("idempotency_key", args.key),
        ("callback", args.callback),
    ] {
        if let Some(value) = given {
            body[member] = value.into();
        }
    }
    let client = connect(&args.gateway)?;
    let mut run = versions::start(&client, LIST, &args.name, &body).await?;
    if args.detach {
        return print(args.gateway.json, &run, show::run);
    }
    let mut stderr = std::io::stderr();
    let id = show::clean(run["id"].as_str().unwrap_or_default());
    if run["status"] == "running" {
        writeln!(stderr, "{id}")?;
    }
    let mut asked = Vec::new();
    while run["status"] == "running" {
        for step in array(&run["steps"]) {
            let name = show::word(step, "id");
            if step["status"] == "waiting" && step["approval"].is_object() && !asked.contains(&name) {
                writeln!(
                    stderr,
                    "{name} waits for an answer: himalia run answer {id} {name} VALUE"
                )?;
                asked.push(name);
            }
        }
        let path = format!("{}?wait_s={WAIT_S}", path_of_run(&id));
        run = expect(&client.get(&path).await?, 200)?;
    }
    let succeeded = run["status"] == "succeeded";
    if args.gateway.json {
        print(true, &run, |_| String::new())?;
    } else if succeeded {
        print(true, &run["outputs"], |_| String::new())?;
    }
    if succeeded {
        return Ok(ExitCode::SUCCESS);
    }
    let text = |value: &Value| show::clean(value.as_str().unwrap_or_default());
    let error = &run["error"];
    if error.is_object() {
        writeln!(
            stderr,
            "{}: {}: {}",
            text(&error["step"]),
            text(&error["code"]),
            text(&error["message"])
        )?;
    } else {
        writeln!(stderr, "the run was {}", text(&run["status"]))?;
    }
    Ok(ExitCode::FAILURE)
}
