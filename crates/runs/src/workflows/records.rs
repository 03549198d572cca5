//! The rows of runs, and their meaning.

use std::sync::Arc;

use himalia_journal::may_block;
use himalia_model::EngineError;
use himalia_store::{WorkflowRunEnd, WorkflowRunRecord, WorkflowStepRecord};
use himalia_workflows::{Attempt, AttemptId, AttemptStatus, Definition, End, Failure, Run, Workflow};
use serde_json::{Map, Value, json};

/// A workflow that was published.
pub(super) fn workflow(definition: &str) -> Result<Workflow, EngineError> {
    let read = may_block(|| {
        let definition: Definition = serde_json::from_str(definition).map_err(|error| error.to_string())?;
        Workflow::stored(definition).map_err(|wrong| wrong.to_string())
    });
    read.map_err(|error| EngineError::internal("reading a workflow", error))
}

/// A run with what was written of it.
pub(super) fn run(
    workflow: Arc<Workflow>,
    record: &WorkflowRunRecord,
    steps: Vec<WorkflowStepRecord>,
) -> Result<Run, EngineError> {
    let inputs: Map<String, Value> = json_of(&record.inputs)?;
    let attempts = steps.into_iter().map(attempt).collect::<Result<_, _>>()?;
    Ok(may_block(|| Run::restore(workflow, inputs, attempts)))
}

pub(super) fn attempt(record: WorkflowStepRecord) -> Result<Attempt, EngineError> {
    let status = AttemptStatus::ALL
        .into_iter()
        .find(|status| status.as_str() == record.status);
    let outputs = record.outputs.as_deref().map(json_of).transpose()?;
    let number = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
    Ok(Attempt {
        place: AttemptId {
            step: record.step,
            item: number(record.item),
            attempt: number(record.attempt),
        },
        status: status.ok_or_else(|| EngineError::internal("reading a step", "it has an unknown status"))?,
        outputs,
        failure: record.error.as_deref().map(failure_of).transpose()?,
        session: record.session,
        execution: record.execution,
        answer: record.answer,
        by: record.answered_by,
        due: record.due_micros,
        begun: record.begun_micros,
        ended: record.ended_micros,
    })
}

/// `prompt`: what it asks a person, if it begins to.
pub(super) fn record(attempt: Attempt, prompt: Option<String>) -> WorkflowStepRecord {
    WorkflowStepRecord {
        step: attempt.place.step,
        item: attempt.place.item.into(),
        attempt: attempt.place.attempt.into(),
        status: attempt.status.as_str().to_owned(),
        outputs: attempt.outputs.map(|outputs| outputs.to_string()),
        error: attempt.failure.map(|failure| written(&failure, None, None)),
        session: attempt.session,
        execution: attempt.execution,
        answer: attempt.answer,
        answered_by: attempt.by,
        due_micros: attempt.due,
        begun_micros: attempt.begun,
        ended_micros: attempt.ended,
        prompt,
    }
}

pub(super) fn end(end: End, ended_micros: i64) -> WorkflowRunEnd {
    let error = end
        .failure
        .as_ref()
        .map(|failure| written(failure, end.step.as_deref(), end.item));
    WorkflowRunEnd {
        status: end.status.as_str().to_owned(),
        outputs: end.outputs.map(|outputs| outputs.to_string()),
        error,
        ended_micros,
    }
}

fn written(failure: &Failure, step: Option<&str>, item: Option<u32>) -> String {
    json!({ "code": failure.code, "message": failure.message, "step": step, "item": item }).to_string()
}

/// The failure of a step or a run.
pub(super) fn failure_of(text: &str) -> Result<Failure, EngineError> {
    let value: Value = json_of(text)?;
    let member = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    Ok(Failure::new(member("code"), member("message")))
}

pub(super) fn json_of<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, EngineError> {
    serde_json::from_str(text).map_err(|error| EngineError::internal("reading a run of a workflow", error))
}
