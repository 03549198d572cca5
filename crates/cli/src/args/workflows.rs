//! `himalia workflow`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::gateway::GatewayArgs;

pub const EXAMPLES: &str = "\
Examples:
  himalia workflow publish monthly.json    check it, and add this version to those of the gateway
  himalia workflow run monthly --input month=2026-10
  himalia workflow runs monthly            its runs, the latest first
  himalia workflow show wfr_…              a run with its steps
  himalia workflow answer wfr_… sign approve
  himalia workflow cancel wfr_…

A version never changes: publish a change as another version.";

#[derive(Debug, Subcommand)]
pub enum WorkflowCommand {
    /// Publish a definition; the same content again changes nothing
    Publish {
        /// A file with the definition, JSON
        file: PathBuf,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// List workflows
    #[command(name = "ls")]
    List {
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Show a workflow with its definition, or a run with its steps
    Show {
        /// The name of a workflow, or the id of a run
        name: String,
        /// Of a workflow, its version [default: the latest]
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Start a run, wait for its end, and print its outputs as JSON
    Run(Box<WorkflowRunArgs>),
    /// List runs, the latest first
    Runs {
        /// Only runs of this workflow
        name: Option<String>,
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
    /// End a run, and what of it runs
    Cancel {
        /// The id of the run
        run: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Delete a version of a workflow, or all versions
    #[command(name = "rm")]
    Remove {
        /// Its name
        name: String,
        /// Its version [default: all of them]
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

/// A run of a workflow.
#[derive(Debug, Args)]
pub struct WorkflowRunArgs {
    /// Its name
    pub(crate) name: String,
    /// Its version [default: the latest]
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// An input; what is JSON is read as that, anything else is text; may be repeated
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub(crate) inputs: Vec<String>,
    /// The same key again is the same run
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Where its result is posted
    #[arg(long, value_name = "URL")]
    pub(crate) callback: Option<String>,
    /// Print the run as it begins, and do not wait for its end
    #[arg(long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}
