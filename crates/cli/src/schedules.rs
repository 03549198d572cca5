//! `himalia schedule`: schedules of a running gateway.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::json;

use super::runs::{latest, path as path_of_run};
use super::show;
use super::skills::inputs_of;
use super::triggers::{TriggerTarget, switch};
use crate::args::schedules::{NewScheduleArgs, OnMissed, ScheduleCommand};
use crate::support::{array, connect, delete, encoded, expect, print};

/// Seconds that one response waits.
const WAIT_S: u64 = 60;
/// Runs that are shown with their schedule or webhook.
pub(super) const RUNS: usize = 100;

pub(super) async fn call(command: ScheduleCommand) -> anyhow::Result<ExitCode> {
    match command {
        ScheduleCommand::Add(args) => add(*args).await,
        ScheduleCommand::List { gateway } => {
            let body = connect(&gateway)?.list("/v1/schedules", "schedules").await?;
            print(gateway.json, &body, |body| {
                show::schedules(array(&body["schedules"]))
            })
        }
        ScheduleCommand::Show { schedule, gateway } => {
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
        ScheduleCommand::Pause { schedule, gateway } => {
            switch(&gateway, &path(&schedule), false, show::schedule).await
        }
        ScheduleCommand::Resume { schedule, gateway } => {
            switch(&gateway, &path(&schedule), true, show::schedule).await
        }
        ScheduleCommand::Remove { schedule, gateway } => delete(&gateway, &path(&schedule), &schedule).await,
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
