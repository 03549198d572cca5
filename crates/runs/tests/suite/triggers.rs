//! Schedules whose runs are runs of workflows. The steps of these ask persons, so that they need no kernels.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use std::time::Duration;

use crate::{open_runs, stop};
use common::{TestEngine, op};
use himalia_engine::{Drain, EngineError};
use himalia_runs::{
    AskedRun, MissedPolicy, NewTrigger, Overlap, RunFilter, RunInfo, RunKind, RunState, RunTarget, RunUntil,
    Runs, StartedRun, Times, TriggerKind, WorkflowDefinition,
};
use himalia_testkit::assert_eventually;
use serde_json::{Map, Value, json};

const KIND: TriggerKind = TriggerKind::Schedule;

/// A workflow that asks a person whether to pay for a month.
fn pays() -> WorkflowDefinition {
    let definition = json!({
        "name": "pays", "version": "1.0.0", "description": "d",
        "inputs": {"type": "object", "properties": {"month": {"type": "string"}}, "required": ["month"]},
        "steps": [{
            "id": "sign", "approval": {"text": "Pay?", "options": ["yes", "no"]},
            "inputs": {"month": {"from": "inputs.month"}},
        }],
        "outputs": {"by": {"from": "steps.sign.outputs.by"}},
    });
    serde_json::from_value(definition).unwrap()
}

fn schedule(name: &str) -> NewTrigger {
    NewTrigger {
        name: name.into(),
        target: Some(RunTarget::workflow("pays")),
        inputs: Map::from_iter([("month".to_owned(), Value::from("2026-10"))]),
        template: None,
        timeout: None,
        times: Some(Times {
            cron: "0 6 1 1 *".into(),
            time_zone: "UTC".into(),
            missed: MissedPolicy::RunOnce,
            overlap: Overlap::Skip,
        }),
        enabled: true,
        callback: None,
    }
}

async fn open(place: &TestEngine) -> Runs {
    let runs = open_runs(place).await;
    runs.start_triggers(|_| None);
    runs
}

async fn listed(runs: &Runs) -> Vec<RunInfo> {
    let filter = RunFilter {
        trigger: Some((KIND, "pays".into())),
        limit: 10,
        ..RunFilter::default()
    };
    runs.runs(&op(), filter).await.unwrap().runs
}

async fn latest(runs: &Runs) -> RunInfo {
    listed(runs).await.remove(0)
}

/// Asks for a run of the schedule.
async fn asked(runs: &Runs, key: Option<&str>, overlap: Option<Overlap>) -> Result<StartedRun, EngineError> {
    let asked = AskedRun {
        key: key.map(str::to_owned),
        overlap,
    };
    runs.run_trigger(&op(), KIND, "pays", asked).await
}

/// A new run of the schedule: the run of its workflow, which waits for the person.
async fn asking(runs: &Runs) -> String {
    let run = asked(runs, None, None).await.unwrap().id;
    assert_eventually!(latest(runs).await.status == RunState::Running);
    let found = latest(runs).await;
    assert_eq!((&found.id, found.kind), (&run, RunKind::Workflow));
    assert!(found.execution.is_none() && found.version.as_deref() == Some("1.0.0"));
    run
}

/// How the latest run has ended, and why.
async fn ended(runs: &Runs) -> (RunState, Option<String>, Option<Value>) {
    assert_eventually!(latest(runs).await.ended_micros.is_some());
    let found = latest(runs).await;
    let shown = runs.run(&op(), &found.id, Duration::ZERO, RunUntil::Ended).await;
    let shown = shown.unwrap();
    assert_eq!(shown.info.status, found.status);
    (
        found.status,
        found.error.map(|error| error.message),
        shown.outputs,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_follows_the_run_of_its_workflow() {
    let place = TestEngine::new();
    let runs = open(&place).await;
    let unknown = runs.create_trigger(&op(), KIND, schedule("pays")).await;
    assert!(
        matches!(unknown, Err(EngineError::NotFound { what: "Workflow", .. })),
        "{unknown:?}"
    );
    runs.publish_workflow(&op(), pays()).await.unwrap();
    for (wrong, member) in [
        (
            NewTrigger {
                inputs: Map::new(),
                ..schedule("pays")
            },
            "inputs",
        ),
        (
            NewTrigger {
                template: Some("fake".into()),
                ..schedule("pays")
            },
            "template",
        ),
        (
            NewTrigger {
                timeout: Some(std::time::Duration::from_secs(1)),
                ..schedule("pays")
            },
            "timeout_s",
        ),
    ] {
        match runs.create_trigger(&op(), KIND, wrong).await {
            Err(EngineError::BadRequest { field, .. }) => assert_eq!(field, member),
            other => panic!("{other:?}"),
        }
    }
    runs.create_trigger(&op(), KIND, schedule("pays")).await.unwrap();

    let first = asking(&runs).await;
    // The next gateway follows it.
    runs.engine().drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(runs);
    let runs = open(&place).await;
    assert_eq!(latest(&runs).await.status, RunState::Running);
    runs.answer_workflow_step(&op(), &first, "sign", "yes".into())
        .await
        .unwrap();
    let done = (RunState::Succeeded, None, Some(json!({"by": "operator"})));
    assert_eq!(ended(&runs).await, done);

    let second = asking(&runs).await;
    runs.answer_workflow_step(&op(), &second, "sign", "no".into())
        .await
        .unwrap();
    let (status, reason, _) = ended(&runs).await;
    assert_eq!(status, RunState::Failed);
    let reason = reason.unwrap();
    assert!(reason.contains("operator has answered"), "{reason}");

    // What has begun continues when its workflow is deleted; what has not, fails.
    let third = asking(&runs).await;
    runs.delete_workflow(&op(), "pays", None).await.unwrap();
    runs.cancel_run(&op(), &third).await.unwrap();
    let cancelled = Some("it was cancelled by operator".to_owned());
    assert_eq!(ended(&runs).await, (RunState::Cancelled, cancelled, None));
    let fourth = asked(&runs, None, None).await.unwrap().id;
    let (status, reason, _) = ended(&runs).await;
    assert_eq!(status, RunState::Failed);
    assert!(reason.unwrap().contains("pays"));

    let filter = RunFilter {
        limit: 10,
        ..RunFilter::default()
    };
    let all = runs.runs(&op(), filter).await.unwrap().runs;
    let mut ids: Vec<&str> = all.iter().map(|run| run.id.as_str()).collect();
    ids.sort_unstable();
    let mut wanted = [first.as_str(), &second, &third, &fourth];
    wanted.sort_unstable();
    assert_eq!(ids, wanted, "each is there once");
    stop(runs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_asked_for_again_is_one_run() {
    let place = TestEngine::new();
    let runs = open(&place).await;
    runs.publish_workflow(&op(), pays()).await.unwrap();
    runs.create_trigger(&op(), KIND, schedule("pays")).await.unwrap();
    // At once.
    let both = tokio::join!(asked(&runs, Some("k"), None), asked(&runs, Some("k"), None));
    let (one, other) = (both.0.unwrap(), both.1.unwrap());
    assert_eq!(one.id, other.id);
    assert!(one.is_new != other.is_new);
    let reused = asked(&runs, Some("k"), Some(Overlap::Allow)).await;
    assert!(matches!(reused, Err(EngineError::KeyReused)), "{reused:?}");
    let long = asked(&runs, Some(&"k".repeat(257)), None).await;
    assert!(
        matches!(
            long,
            Err(EngineError::BadRequest {
                field: "idempotency_key",
                ..
            })
        ),
        "{long:?}"
    );
    // Over a restart, and while it is in progress.
    assert_eventually!(latest(&runs).await.status == RunState::Running);
    runs.engine().drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(runs);
    let runs = open(&place).await;
    let again = asked(&runs, Some("k"), None).await.unwrap();
    assert!(!again.is_new && again.id == one.id);

    // The schedule leaves out what overlaps, unless the request says otherwise.
    for refused in [
        asked(&runs, None, None).await,
        asked(&runs, Some("l"), Some(Overlap::Skip)).await,
    ] {
        assert!(
            matches!(refused, Err(EngineError::Conflict { .. })),
            "{refused:?}"
        );
    }
    let beside = asked(&runs, Some("l"), Some(Overlap::Allow)).await.unwrap();
    assert!(beside.is_new && beside.id != one.id);
    assert_eq!(listed(&runs).await.len(), 2);
    stop(runs).await;
}
