//! `himalia workflow`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::gateway::GatewayArgs;

pub const EXAMPLES: &str = "\
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
    List {
        #[command(flatten)]
        gateway: GatewayArgs,
    },
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
