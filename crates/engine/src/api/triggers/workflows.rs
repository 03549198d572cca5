//! Runs of triggers that are runs of workflows. The run of the workflow has an id that follows from that of the trigger's run, so that it is
//! found again, and is there once. It continues by itself; the run of the trigger follows it.

use himalia_model::{EngineError, Principal};
use himalia_store::TriggerRun;
use serde_json::Value;

use super::definition::{Definition, Detail, TriggerRunStatus, stored, write};
use super::run_skill;
use super::runner::{Outcome, READ_PAUSE, over};
use crate::Engine;
use crate::api::Commands;
use crate::api::workflows::{RunInfo, RunStatus};
use crate::audit::{Effect, Subject};

/// Begins the run of a workflow, or finds it, and writes which one it is. `false`: another process has the run.
pub(super) async fn start(
    engine: &Engine,
    principal: &Principal,
    name: &str,
    definition: &Definition,
    run: &mut TriggerRun,
    detail: &mut Detail,
) -> Result<bool, EngineError> {
    let commands = &engine.commands;
    let wanted = run_skill(definition, detail)?;
    let call = engine
        .audit
        .call("run_workflow", Effect::Change, principal, Subject::Workflow(name));
    let begun = commands
        .run_workflow_once(principal, name, wanted.version, wanted.inputs, run.id)
        .await;
    call.end(&begun, None);
    let begun = begun?;
    (detail.workflow_run, detail.version) = (Some(begun.id), Some(begun.version));
    (detail.status, detail.reason) = (TriggerRunStatus::Running, None);
    detail.started_micros = Some(begun.created_micros);
    run.state = detail.status.state();
    run.detail = write(detail)?;
    let store = commands.inner.store();
    store
        .change_trigger_run(run.clone(), true, None)
        .await
        .map_err(stored)
}

/// Waits for the end of the run of a workflow.
pub(super) async fn watch(
    commands: &Commands,
    owner: &str,
    id: &str,
    detail: &mut Detail,
) -> Result<Outcome, EngineError> {
    // It continues whatever becomes of the token that started it.
    let reader = Principal::operator().read_only().in_place_of(owner);
    let ended = commands.ended_workflow_run(&reader, id).await;
    if commands.inner.check_open().is_err() {
        return Ok(Outcome::Dropped);
    }
    match ended {
        Ok((info, outputs)) => {
            detail.version = Some(info.version.clone());
            over(commands, detail, result(&info, outputs)).await
        }
        Err(EngineError::NotFound { .. }) => {
            over(commands, detail, Err("its run is not kept any more".to_owned())).await
        }
        Err(error) => {
            tracing::warn!(run = id, %error, "the run of a workflow cannot be followed now");
            Ok(Outcome::Later(READ_PAUSE))
        }
    }
}

/// What a run returned, or why it has not.
fn result(info: &RunInfo, outputs: Option<Value>) -> Result<Option<Value>, String> {
    match (info.status, &info.failure, &info.cancelled_by) {
        (RunStatus::Succeeded, ..) => Ok(outputs),
        (RunStatus::Cancelled, Some(why), _) => Err(why.message.clone()),
        (RunStatus::Cancelled, _, Some(by)) => Err(format!("it was cancelled by {by}")),
        (RunStatus::Cancelled, ..) => Err("it was cancelled".to_owned()),
        (_, Some(failure), _) => {
            let step = info.failed_step.as_deref();
            let step = step.map_or_else(String::new, |step| format!("step {step}: "));
            Err(format!("{step}{} ({})", failure.message, failure.code))
        }
        _ => Err("the run of the workflow has failed".to_owned()),
    }
}
