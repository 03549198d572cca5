//! What is shown of a run.

use std::sync::Arc;

use himalia_model::EngineError;
use himalia_store::{WorkflowRunBrief, WorkflowRunRecord, WorkflowStepRecord};
use himalia_workflows::{
    Approval, Attempt, AttemptStatus, MAX_INPUT_BYTES, RunStatus, SkillRef, Step, TooLarge, Workflow,
};
use serde_json::Value;

use super::records;
use crate::api::runs::{RunError, RunInfo, RunKind, RunOrigin, RunView};

/// Bytes of inputs or outputs of a step that are shown with the run; larger ones with the step alone.
pub(super) const SHOWN_BYTES: usize = 16 << 10;

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    /// What it needs has not succeeded yet.
    Pending,
    /// It did not begin before the run ended.
    Skipped,
    /// As its attempts.
    Of(AttemptStatus),
}

/// A step of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct StepView {
    /// Its id.
    pub id: String,
    /// How far it is.
    pub state: StepState,
    /// The steps that it comes after.
    pub needs: Vec<String>,
    /// The skill that it runs.
    pub skill: Option<SkillRef>,
    /// Question to a person.
    pub approval: Option<Approval>,
    /// How many items its list has, once that is known.
    pub items: Option<u32>,
    /// Of how many items the run has ended well.
    pub succeeded: u32,
    /// What it got, if that is not too large to be shown here.
    pub inputs: Option<Value>,
    /// What it returned, if that is not too large to be shown here.
    pub outputs: Option<Value>,
    /// Whether inputs or outputs are there and too large.
    pub omitted: bool,
    /// Its attempts, without their outputs; of a step with a list, in the view of a run, none.
    pub attempts: Vec<Attempt>,
}

/// A run of a workflow as lists have it.
pub(in crate::api) fn info(brief: WorkflowRunBrief) -> Result<RunInfo, EngineError> {
    let status = RunStatus::ALL
        .into_iter()
        .find(|status| status.as_str() == brief.status);
    let error = match brief.error.as_deref() {
        Some(text) => {
            let step = records::json_of::<Value>(text)?["step"]
                .as_str()
                .map(str::to_owned);
            Some(RunError::of_step(records::failure_of(text)?, step))
        }
        None => None,
    };
    let status = status.ok_or_else(|| EngineError::internal("reading a run", "it has an unknown status"))?;
    Ok(RunInfo {
        id: brief.id,
        kind: RunKind::Workflow,
        name: brief.workflow,
        version: Some(brief.version),
        digest: Some(brief.digest),
        status: status.into(),
        error,
        origin: RunOrigin::CLIENT,
        started_by: brief.started_by,
        asked_by: None,
        cancelled_by: brief.cancelled_by,
        missed_before: None,
        session: None,
        execution: None,
        created_micros: brief.created_micros,
        started_micros: Some(brief.created_micros),
        ended_micros: brief.ended_micros,
    })
}

pub(super) fn run(
    workflow: Arc<Workflow>,
    record: WorkflowRunRecord,
    rows: Vec<WorkflowStepRecord>,
) -> Result<RunView, EngineError> {
    let restored = Restored::new(workflow, &record, rows)?;
    let steps = restored.run.workflow().definition().steps.iter();
    let steps = steps.map(|step| restored.step(step, step.map.is_some().then_some(u32::MAX), SHOWN_BYTES));
    let outputs = record.outputs.as_deref().map(records::json_of).transpose()?;
    Ok(RunView {
        inputs: Some(records::json_of(&record.inputs)?),
        steps: steps.collect(),
        ..RunView::of(info(record.brief)?, outputs)
    })
}

/// One step with all its attempts, and the data of one item of its list.
pub(super) fn step(
    workflow: Arc<Workflow>,
    record: &WorkflowRunRecord,
    rows: Vec<WorkflowStepRecord>,
    id: &str,
    item: u32,
) -> Result<Option<StepView>, EngineError> {
    let restored = Restored::new(workflow, record, rows)?;
    let step = restored.run.workflow().step(id);
    Ok(step.map(|step| restored.step(step, step.map.is_some().then_some(item), usize::MAX)))
}

struct Restored {
    run: himalia_workflows::Run,
    /// All attempts, without their outputs.
    attempts: Vec<Attempt>,
    ended: bool,
}

impl Restored {
    fn new(
        workflow: Arc<Workflow>,
        record: &WorkflowRunRecord,
        mut rows: Vec<WorkflowStepRecord>,
    ) -> Result<Self, EngineError> {
        let mut attempts = Vec::with_capacity(rows.len());
        for row in &mut rows {
            let outputs = row.outputs.take();
            attempts.push(records::attempt(row.clone())?);
            row.outputs = outputs;
        }
        Ok(Self {
            attempts,
            run: records::run(workflow, record, rows)?,
            ended: record.brief.ended_micros.is_some(),
        })
    }

    /// `item`: of a step with a list the one whose data is shown; an item that is not there shows none, and no attempts.
    fn step(&self, step: &Step, item: Option<u32>, most: usize) -> StepView {
        let status = self.run.status(&step.id);
        let state = match status {
            Some(status) => StepState::Of(status),
            None if self.ended => StepState::Skipped,
            None => StepState::Pending,
        };
        let of_step = |attempt: &&Attempt| attempt.place.step == step.id;
        let latest: Vec<&Attempt> = self.run.attempts().filter(of_step).collect();
        let succeeded = latest
            .iter()
            .filter(|one| one.status == AttemptStatus::Succeeded)
            .count();
        let count = self.run.count(&step.id);
        let known = |item: u32| count.is_some_and(|count| item < count);
        let whole = item == Some(u32::MAX);
        // `None`: there are none; an error: they are too large to be shown.
        let inputs_of = |item| {
            self.run
                .inputs_of(&step.id, item, most.min(MAX_INPUT_BYTES))
                .map(Some)
        };
        let inputs = match (status, item) {
            (Some(_), Some(item)) if known(item) => inputs_of(item),
            (Some(_), None) => inputs_of(0),
            _ => Ok(None),
        };
        let outputs = match item {
            Some(item) if !whole => {
                let one = latest.iter().find(|one| one.place.item == item);
                let outputs = one.and_then(|one| one.outputs.as_ref());
                let small = outputs.is_none_or(|outputs| outputs.to_string().len() <= most);
                if small {
                    Ok(outputs.cloned())
                } else {
                    Err(TooLarge)
                }
            }
            _ => self.run.outputs_of(&step.id, most),
        };
        let attempts = if whole {
            Vec::new()
        } else {
            self.attempts.iter().filter(of_step).cloned().collect()
        };
        StepView {
            id: step.id.clone(),
            state,
            needs: step.needs().into_iter().map(str::to_owned).collect(),
            skill: step.skill.clone(),
            approval: step.approval.clone(),
            items: count.filter(|_| step.map.is_some()),
            succeeded: u32::try_from(succeeded).unwrap_or(u32::MAX),
            omitted: inputs.is_err() || outputs.is_err(),
            inputs: inputs.ok().flatten().map(Value::Object),
            outputs: outputs.ok().flatten(),
            attempts,
        }
    }
}
