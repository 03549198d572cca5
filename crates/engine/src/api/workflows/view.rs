//! What is shown of a run.

use himalia_executions::{PromptInfo, PromptKind, PromptName, PromptState, StepPromptId};
use himalia_model::{EngineError, from_micros};
use himalia_outcome::shown_prompt;
use himalia_store::{WAITING, WorkflowRunBrief, WorkflowRunRecord, WorkflowStepRecord};
use himalia_workflows::{Approval, Attempt, AttemptStatus, Failure, RunStatus, SkillRef, Step};
use serde_json::Value;

use super::records;

/// Bytes of inputs or outputs of a step that are shown with the run; larger ones with the step alone.
const SHOWN_BYTES: usize = 16 << 10;

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// Its id.
    pub id: String,
    /// The name of its workflow.
    pub workflow: String,
    /// The version of that.
    pub version: String,
    /// The address of its content.
    pub digest: String,
    /// How far it is.
    pub status: RunStatus,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// The step that failed.
    pub failed_step: Option<String>,
    /// Who started it.
    pub started_by: String,
    /// Who ended it.
    pub cancelled_by: Option<String>,
    /// When it was started, microseconds since 1970.
    pub created_micros: i64,
    /// When it ended.
    pub ended_micros: Option<i64>,
}

/// A run with its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct RunView {
    /// What is listed of it.
    pub info: RunInfo,
    /// What it was started with.
    pub inputs: Value,
    /// What it returned.
    pub outputs: Option<Value>,
    /// Its steps, as the workflow has them.
    pub steps: Vec<StepView>,
}

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
    /// What a person is asked.
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

pub(super) fn info(brief: WorkflowRunBrief) -> Result<RunInfo, EngineError> {
    let status = RunStatus::ALL
        .into_iter()
        .find(|status| status.as_str() == brief.status);
    let failed_step = match brief.error.as_deref() {
        Some(text) => records::json_of::<Value>(text)?["step"]
            .as_str()
            .map(str::to_owned),
        None => None,
    };
    Ok(RunInfo {
        status: status.ok_or_else(|| EngineError::internal("reading a run", "it has an unknown status"))?,
        failure: brief.error.as_deref().map(records::failure_of).transpose()?,
        failed_step,
        id: brief.id,
        workflow: brief.workflow,
        version: brief.version,
        digest: brief.digest,
        started_by: brief.started_by,
        cancelled_by: brief.cancelled_by,
        created_micros: brief.created_micros,
        ended_micros: brief.ended_micros,
    })
}

pub(super) fn run(record: WorkflowRunRecord, rows: Vec<WorkflowStepRecord>) -> Result<RunView, EngineError> {
    let restored = Restored::new(&record, rows)?;
    let steps = restored.run.workflow().definition().steps.iter();
    let steps = steps.map(|step| restored.step(step, step.map.is_some().then_some(u32::MAX), SHOWN_BYTES));
    Ok(RunView {
        inputs: records::json_of(&record.inputs)?,
        outputs: record.outputs.as_deref().map(records::json_of).transpose()?,
        steps: steps.collect(),
        info: info(record.brief)?,
    })
}

/// One step with all its attempts, and the data of one item of its list.
pub(super) fn step(
    record: &WorkflowRunRecord,
    rows: Vec<WorkflowStepRecord>,
    id: &str,
    item: u32,
) -> Result<Option<StepView>, EngineError> {
    let restored = Restored::new(record, rows)?;
    let step = restored.run.workflow().step(id);
    Ok(step.map(|step| restored.step(step, step.map.is_some().then_some(item), usize::MAX)))
}

/// What a step asks a person, and what became of that. `None`: it asks nothing, or has not begun.
pub(super) fn prompt(
    record: &WorkflowRunRecord,
    rows: Vec<WorkflowStepRecord>,
    id: &StepPromptId,
) -> Result<Option<PromptInfo>, EngineError> {
    let Some(row) = rows.iter().rfind(|row| row.step == id.step).cloned() else {
        return Ok(None);
    };
    let waits = row.status == WAITING && record.brief.ended_micros.is_none();
    let restored = Restored::new(record, rows)?;
    let workflow = restored.run.workflow();
    let Some(approval) = workflow.step(&id.step).and_then(|step| step.approval.clone()) else {
        return Ok(None);
    };
    let (state, reason) = match &row.answer {
        Some(_) => (PromptState::Answered, None),
        None if waits => (PromptState::Open, None),
        None => {
            let failure = row.error.as_deref().map(records::failure_of).transpose()?;
            let reason = failure
                .map(|failure| failure.message)
                .filter(|text| !text.is_empty());
            let reason = reason.unwrap_or_else(|| "the run has ended".to_owned());
            (PromptState::Withdrawn, Some(reason))
        }
    };
    let arguments = waits.then(|| shown_inputs(Value::Object(restored.run.inputs_of(&id.step, 0))));
    let time = |micros: i64| from_micros(u64::try_from(micros).unwrap_or(0));
    Ok(Some(PromptInfo {
        id: PromptName::Step(id.clone()),
        session: None,
        workflow_run: Some(record.brief.id.clone()),
        step: Some(id.step.clone()),
        execution: None,
        kind: PromptKind::Step,
        text: shown_prompt(&approval.text),
        options: approval.options,
        tool: None,
        arguments,
        password: false,
        created: time(row.begun_micros.unwrap_or(record.brief.created_micros)),
        expires: row.due_micros.map(time),
        state,
        answer: row.answer,
        answered_by: row.answered_by,
        reason,
    }))
}

/// Inputs as a person sees them. What is too long is a text that is cut, and says so.
fn shown_inputs(inputs: Value) -> Value {
    let text = inputs.to_string();
    if text.len() <= SHOWN_BYTES {
        return inputs;
    }
    let end = text.floor_char_boundary(SHOWN_BYTES);
    Value::String(format!("{}… ({} bytes)", &text[..end], text.len()))
}

struct Restored {
    run: himalia_workflows::Run,
    /// All attempts, without their outputs.
    attempts: Vec<Attempt>,
    ended: bool,
}

impl Restored {
    fn new(record: &WorkflowRunRecord, rows: Vec<WorkflowStepRecord>) -> Result<Self, EngineError> {
        let plain = rows.iter().map(|row| {
            records::attempt(WorkflowStepRecord {
                outputs: None,
                ..row.clone()
            })
        });
        Ok(Self {
            attempts: plain.collect::<Result<_, _>>()?,
            run: records::run(record, rows)?,
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
        let inputs = match (status, item) {
            (Some(_), Some(item)) if known(item) => Some(Value::Object(self.run.inputs_of(&step.id, item))),
            (Some(_), None) => Some(Value::Object(self.run.inputs_of(&step.id, 0))),
            _ => None,
        };
        let outputs = match item {
            Some(item) if !whole => {
                let one = latest.iter().find(|one| one.place.item == item);
                one.and_then(|one| one.outputs.clone())
            }
            _ => self.run.outputs_of(&step.id).map(std::borrow::Cow::into_owned),
        };
        let small = |value: &Value| value.to_string().len() <= most;
        let (has, shown) = (
            (inputs.is_some(), outputs.is_some()),
            (inputs.filter(small), outputs.filter(small)),
        );
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
            omitted: has != (shown.0.is_some(), shown.1.is_some()),
            inputs: shown.0,
            outputs: shown.1,
            attempts,
        }
    }
}
