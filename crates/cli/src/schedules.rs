//! `himalia schedule`: schedules of a running gateway.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::runs::{latest, path as path_of_run};
use super::show;
use super::skills::inputs_of;
use super::triggers::{TriggerTarget, switch};
use crate::args::gateway::GatewayArgs;
use crate::support::{array, connect, delete, encoded, expect, print};
use crate::values::Seconds;

pub(crate) const EXAMPLES: &str = "\
Examples:
  himalia schedule add monthly --skill reconcile --cron '0 6 1 * *' --time-zone Europe/Berlin
  himalia schedule add nightly --workflow close --cron '0 2 * * *'
  himalia schedule ls
  himalia schedule run monthly --wait      start a run now, and wait for its result
  himalia schedule show monthly            with its latest runs
  himalia schedule pause monthly";

/// Policy for missed due times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnMissed {
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

/// A schedule.
#[derive(Debug, Args)]
pub struct ScheduleArgs {
    /// Name or id of the schedule
    pub(crate) schedule: String,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
    /// Run a skill at due times
    Add(Box<NewScheduleArgs>),
    /// List schedules with their next and last runs
    #[command(name = "ls")]
    List(GatewayArgs),
    /// Show a schedule and its latest runs
    Show(ScheduleArgs),
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
    Pause(ScheduleArgs),
    /// Start runs again, as the caller of this command
    Resume(ScheduleArgs),
    /// Delete a schedule. Runs in progress continue
    #[command(name = "rm")]
    Remove(ScheduleArgs),
}

/// Skill or workflow to run.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct TargetArgs {
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

/// Seconds that one response waits.
const WAIT_S: u64 = 60;
/// Runs that are shown with their schedule or webhook.
pub(super) const RUNS: usize = 100;

pub(super) async fn call(command: ScheduleCommand) -> anyhow::Result<ExitCode> {
    match command {
        ScheduleCommand::Add(args) => add(*args).await,
        ScheduleCommand::List(gateway) => {
            let body = connect(&gateway)?.list("/v1/schedules", "schedules").await?;
            print(gateway.json, &body, |body| {
                show::schedules(array(&body["schedules"]))
            })
        }
        ScheduleCommand::Show(ScheduleArgs { schedule, gateway }) => {
            let client = connect(&gateway)?;
            let mut shown = expect(&client.get(&path(&schedule)).await?, 200)?;
            let query = format!("schedule={}", encoded(&schedule));
            shown["runs"] = latest(&client, &query, RUNS).await?.into();
            print(gateway.json, &shown, show::schedule)
        }
        ScheduleCommand::Run {
            schedule,
            wait,
            key,
            overlap,
            gateway,
        } => {
            let client = connect(&gateway)?;
            let runs = format!("{}/runs", path(&schedule));
            let mut asked = json!({});
            for (member, given) in [
                ("idempotency_key", key),
                ("overlap", overlap.map(|overlap| overlap.as_str().to_owned())),
            ] {
                if let Some(value) = given {
                    asked[member] = value.into();
                }
            }
            let reply = client.post(&runs, &asked).await?;
            if ![200, 202].contains(&reply.status) {
                bail!("{}", reply.problem());
            }
            let mut run = reply.json()?;
            while wait && ["queued", "running"].contains(&run["status"].as_str().unwrap_or_default()) {
                let id = run["id"].as_str().unwrap_or_default();
                let reply = client
                    .get(&format!("{}?wait_s={WAIT_S}", path_of_run(id)))
                    .await?;
                run = expect(&reply, 200)?;
            }
            print(gateway.json, &run, |run| show::runs(std::slice::from_ref(run)))?;
            let failed = wait && run["status"] != "succeeded";
            Ok(ExitCode::from(u8::from(failed)))
        }
        ScheduleCommand::Pause(ScheduleArgs { schedule, gateway }) => {
            switch(&gateway, &path(&schedule), false, show::schedule).await
        }
        ScheduleCommand::Resume(ScheduleArgs { schedule, gateway }) => {
            switch(&gateway, &path(&schedule), true, show::schedule).await
        }
        ScheduleCommand::Remove(ScheduleArgs { schedule, gateway }) => {
            delete(&gateway, &path(&schedule), &schedule).await
        }
    }
}

fn path(schedule: &str) -> String {
    format!("/v1/schedules/{}", encoded(schedule))
}

async fn add(args: NewScheduleArgs) -> anyhow::Result<ExitCode> {
    let mut body = json!({
        "name": args.name,
        "cron": args.cron,
        "time_zone": args.time_zone,
        "inputs": inputs_of(&args.inputs)?,
        "missed": match args.missed {
            OnMissed::RunOnce => "run_once",
            OnMissed::Skip => "skip",
        },
        "overlap": args.overlap.as_str(),
        "enabled": !args.paused,
    });
    let started = TriggerTarget {
        target: args.target,
        version: args.version,
        template: args.template,
        timeout: args.timeout,
        callback: args.callback,
    };
    started.write(&mut body);
    let reply = connect(&args.gateway)?.post("/v1/schedules", &body).await?;
    print(args.gateway.json, &expect(&reply, 201)?, show::schedule)
}
