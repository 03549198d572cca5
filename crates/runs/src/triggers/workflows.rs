//! Runs of triggers that are runs of workflows. The run of the workflow has an id that follows from that of the trigger's run, so that it is
//! found again, and is there once. It continues by itself; the run of the trigger follows it.

use himalia_model::{EngineError, Principal};
use himalia_store::TriggerRun;
use serde_json::Value;

use super::definition::{Definition, Detail, stored, write};
use super::run_skill;
use super::start::{Outcome, READ_PAUSE, over};
use crate::run::{RunError, RunInfo, RunState};
use crate::workflows::StartRun;
use crate::{Commands, Runs};

/// Begins the run of a workflow, or finds it, and writes which one it is. `false`: another process has the run.
pub(super) async fn start(
    runs: &Runs,
    principal: &Principal,
    name: &str,
    definition: &Definition,
    run: &mut TriggerRun,
    detail: &mut Detail,
) -> Result<bool, EngineError> {
    let commands = &runs.commands;
    let wanted = run_skill(definition, detail)?;
    let wanted = StartRun {
        version: wanted.version,
        inputs: wanted.inputs,
        trigger_run: Some(run.id),
        ..StartRun::default()
    };
    let started = runs.run_workflow(principal, name, wanted).await?;
    let begun = commands.workflow_run_info(principal, &started.id).await?;
    (detail.workflow_run, detail.version) = (Some(begun.id), begun.version);
    (detail.status, detail.error) = (RunState::Running, None);
    detail.target.clone_from(&definition.target);
    detail.started_micros = Some(begun.created_micros);
    run.state = detail.status.stored();
    run.detail = write(detail)?;
    let store = commands.services.store();
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
    if commands.services.check_open().is_err() {
        return Ok(Outcome::Dropped);
    }
    match ended {
        Ok((info, outputs)) => {
            detail.version.clone_from(&info.version);
            let done = over(commands, detail, result(&info, outputs)).await?;
            if info.status == RunState::Cancelled {
                detail.status = info.status;
            }
            Ok(done)
        }
        Err(EngineError::NotFound { .. }) => {
            let error = RunError::new("unknown", "its run is not kept any more");
            over(commands, detail, Err(error)).await
        }
        Err(error) => {
            tracing::warn!(run = id, %error, "the run of a workflow cannot be followed now");
            Ok(Outcome::Later(READ_PAUSE))
        }
    }
}

/// The outputs of a run, or the reason why it has none.
fn result(info: &RunInfo, outputs: Option<Value>) -> Result<Option<Value>, RunError> {
    match (info.status, &info.error, &info.cancelled_by) {
        (RunState::Succeeded, ..) => Ok(outputs),
        (_, Some(error), _) => Err(error.clone()),
        (RunState::Cancelled, None, Some(by)) => {
            Err(RunError::new("cancelled", format!("it was cancelled by {by}")))
        }
        (RunState::Cancelled, None, None) => Err(RunError::new("cancelled", "it was cancelled")),
        _ => Err(RunError::new("failed", "the run of the workflow has failed")),
    }
}
