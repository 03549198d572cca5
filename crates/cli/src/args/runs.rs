//! `himalia run`.

use clap::{Args, Subcommand};

use super::gateway::GatewayArgs;

pub const EXAMPLES: &str = "\
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
