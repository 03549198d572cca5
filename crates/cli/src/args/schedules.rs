//! `himalia schedule`.

use clap::{Args, Subcommand, ValueEnum};

use super::gateway::GatewayArgs;
use crate::values::Seconds;

pub const EXAMPLES: &str = "\
Examples:
  himalia schedule add monthly --skill reconcile --cron '0 6 1 * *' --time-zone Europe/Berlin
  himalia schedule add nightly --workflow close --cron '0 2 * * *'
  himalia schedule ls
  himalia schedule run monthly --wait      start a run now, and wait for its result
  himalia schedule show monthly            with its latest runs
  himalia schedule pause monthly";

/// Policy for missed due times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnMissed {
    /// The latest one is made up for
    RunOnce,
    /// Missed due times are skipped
    Skip,
}

/// Policy for a due time while an earlier run is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnOverlap {
    /// It is left out
    Skip,
    /// It is run beside the other one
    Allow,
}

impl OnOverlap {
    /// As requests have it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Allow => "allow",
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
    /// Run a skill at due times
    Add(Box<NewScheduleArgs>),
    /// List schedules with their next and last runs
    #[command(name = "ls")]
    List {
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Show a schedule and its latest runs
    Show {
        /// Name or id of the schedule
        schedule: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Start a run now
    Run {
        /// Name or id of the schedule
        schedule: String,
        /// Wait for its end; the exit code is 1 unless it succeeds
        #[arg(long)]
        wait: bool,
        /// The same key again is the same run
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
        /// Policy while an earlier run is in progress [default: the policy of the schedule]
        #[arg(long, value_name = "POLICY")]
        overlap: Option<OnOverlap>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Start no runs until it is resumed
    Pause {
        /// Name or id of the schedule
        schedule: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Start runs again, as the caller of this command
    Resume {
        /// Name or id of the schedule
        schedule: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Delete a schedule. Runs in progress continue
    #[command(name = "rm")]
    Remove {
        /// Name or id of the schedule
        schedule: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

/// Skill or workflow to run.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct TargetArgs {
    /// The skill that runs
    #[arg(long, value_name = "NAME")]
    pub(crate) skill: Option<String>,
    /// The workflow that runs
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<String>,
}

/// A schedule to create.
#[derive(Debug, Args)]
pub struct NewScheduleArgs {
    /// Lower-case letters, digits and hyphens
    pub(crate) name: String,
    /// When it is due: minute, hour, day, month and weekday, with a second before them if need be
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) cron: String,
    /// The time zone of --cron, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(crate) time_zone: String,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Version of the skill or workflow [default: the latest, at each run]
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// An argument; a value that is not JSON is text; may be repeated
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub(crate) inputs: Vec<String>,
    /// Template of the sessions of runs of a skill [default: that of the skill, or the gateway's default kernelspec]
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// The time that a run of a skill may take, if that is less than the skill says
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Seconds>,
    /// Policy for due times while no gateway ran
    #[arg(long, value_name = "POLICY", default_value = "run-once")]
    pub(crate) missed: OnMissed,
    /// Policy for a due time while an earlier run is in progress
    #[arg(long, value_name = "POLICY", default_value = "skip")]
    pub(crate) overlap: OnOverlap,
    /// URL to which the result of each run is posted
    #[arg(long, value_name = "URL")]
    pub(crate) callback: Option<String>,
    /// Create it without starting runs
    #[arg(long)]
    pub(crate) paused: bool,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}
