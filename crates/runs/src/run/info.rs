//! Runs as commands show them: the same for skills and workflows, whatever has started them.

use std::time::Duration;

use himalia_executions::{ExecutionId, ExecutionResult, ExecutionStatus};
use himalia_model::{SessionId, SessionInfo};
use himalia_skills::Violation;
use himalia_workflows::{Failure, RunStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::super::skills::{LABEL, RUN_LABEL, SkillRun, SkillRunStatus};
use super::super::triggers::TriggerKind;
use super::super::workflows::StepView;

/// Kind of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// A code skill, as an execution in a session that ends with it.
    Skill,
    /// A workflow, whose steps are runs of skills.
    Workflow,
}

/// How far a run is, and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RunStatus")]
pub enum RunState {
    /// A schedule or a webhook has asked for the run, which has not begun.
    Queued,
    /// The run continues. It may wait for a person.
    Running,
    /// The run has returned outputs that fit the schema.
    Succeeded,
    /// The run has ended without such outputs: `error` has the reason.
    Failed,
    /// A caller or the gateway has ended the run.
    Cancelled,
    /// The due time came while earlier runs were in progress.
    Skipped,
    /// The due time had passed before a gateway saw it.
    Missed,
}

impl RunState {
    /// Returns true if nothing of the run changes any more.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }

    /// The name, as JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
            Self::Missed => "missed",
        }
    }
}

impl From<RunStatus> for RunState {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Running => Self::Running,
            RunStatus::Succeeded => Self::Succeeded,
            RunStatus::Failed => Self::Failed,
            RunStatus::Cancelled => Self::Cancelled,
        }
    }
}

/// Kind of the starter of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunOriginKind {
    /// A client of the gateway.
    Client,
    /// Code in a session. The id is the id of the session.
    Code,
    /// A schedule, by its id.
    Schedule,
    /// A webhook, by its id.
    Webhook,
    /// A step of a run of a workflow. The id is the id of the run.
    Step,
}

/// Starter of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunOrigin {
    /// Kind of the starter.
    pub kind: RunOriginKind,
    /// Its id; null for a client.
    pub id: Option<String>,
}

impl RunOrigin {
    pub(crate) const CLIENT: Self = Self {
        kind: RunOriginKind::Client,
        id: None,
    };

    /// A schedule or a webhook.
    pub(crate) fn trigger(kind: RunOriginKind, id: Uuid) -> Self {
        Self {
            kind,
            id: Some(id.to_string()),
        }
    }

    /// Returns true if code in this session has started the run.
    pub(super) fn is_code_of(&self, session: SessionId) -> bool {
        self.kind == RunOriginKind::Code && self.id.as_ref().is_some_and(|id| *id == session.to_string())
    }

    /// The origin of a run of a skill, by the session that it has. The labels and the place in the tree are those of the start.
    pub(super) fn of_session(info: &SessionInfo) -> Self {
        let session = &info.session;
        let label = |kind, name: &str| {
            let id = session.labels.get(name)?.clone();
            Some(Self { kind, id: Some(id) })
        };
        if let Some(place) = &session.tree {
            return Self {
                kind: RunOriginKind::Code,
                id: Some(place.parent.to_string()),
            };
        }
        label(RunOriginKind::Step, RUN_LABEL)
            .or_else(|| label(RunOriginKind::Schedule, TriggerKind::Schedule.label()))
            .or_else(|| label(RunOriginKind::Webhook, TriggerKind::Webhook.label()))
            .unwrap_or(Self::CLIENT)
    }
}

/// Why a run failed, or did not begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunError {
    /// A stable name.
    pub code: String,
    /// Description of the failure.
    pub message: String,
    /// The step that failed, of a workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

impl RunError {
    pub(crate) fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            step: None,
        }
    }

    pub(crate) fn of_step(failure: Failure, step: Option<String>) -> Self {
        Self {
            step,
            ..Self::new(failure.code, failure.message)
        }
    }
}

/// A run, as lists have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// `run_` and 32 hexadecimal digits: of a skill those of its session.
    pub id: String,
    /// The kind of what runs.
    pub kind: RunKind,
    /// The name of the skill or workflow.
    pub name: String,
    /// The version that runs; `None` until the run begins.
    pub version: Option<String>,
    /// The address of the content of that version, if it is known.
    pub digest: Option<String>,
    /// The state of the run.
    pub status: RunState,
    /// The reason why the run failed, did not begin, or waits.
    pub error: Option<RunError>,
    /// The client, code, schedule, webhook or step that started the run.
    pub origin: RunOrigin,
    /// The principal whose rights the run has.
    pub started_by: String,
    /// The principal who asked a schedule for the run, if it was not due.
    pub asked_by: Option<String>,
    /// The principal who cancelled the run.
    pub cancelled_by: Option<String>,
    /// Due times before this one that were missed, of a schedule.
    pub missed_before: Option<u32>,
    /// The session that a skill runs in.
    pub session: Option<SessionId>,
    /// The execution that a run of a skill is.
    pub execution: Option<ExecutionId>,
    /// When the run was asked for, or due; microseconds since 1970.
    pub created_micros: i64,
    /// When the run began, microseconds since 1970.
    pub started_micros: Option<i64>,
    /// When the run ended, microseconds since 1970.
    pub ended_micros: Option<i64>,
}

/// A run with its inputs and outputs.
#[derive(Clone, Debug)]
pub struct RunView {
    /// The part that lists show.
    pub info: RunInfo,
    /// The inputs of a workflow.
    pub inputs: Option<Value>,
    /// The outputs of the run.
    pub outputs: Option<Value>,
    /// Violations of the schema by the outputs of a skill.
    pub violations: Vec<Violation>,
    /// The execution of a skill.
    pub result: Option<ExecutionResult>,
    /// The steps of a workflow, in its order.
    pub steps: Vec<StepView>,
}

impl RunView {
    /// A run of which nothing else is known.
    pub(crate) fn of(info: RunInfo, outputs: Option<Value>) -> Self {
        Self {
            info,
            inputs: None,
            outputs,
            violations: Vec::new(),
            result: None,
            steps: Vec::new(),
        }
    }

    pub(super) fn of_skill(run: SkillRun, session: &SessionInfo) -> Self {
        let text = |member: &str| run.skill.get(member)?.as_str().map(str::to_owned);
        let execution = &run.execution;
        let created = i64::try_from(session.session.created_micros).unwrap_or(i64::MAX);
        let taken = i64::try_from(execution.created.unix_timestamp_nanos() / 1000).unwrap_or(i64::MAX);
        let after = |millis: u64| taken.saturating_add(micros(millis));
        let is_over = execution.status.is_over();
        let begun = is_over || execution.status == ExecutionStatus::Running;
        let info = RunInfo {
            id: id_of_run(execution.id.kernel.0),
            kind: RunKind::Skill,
            name: text("name").unwrap_or_default(),
            version: text("version"),
            digest: text("digest"),
            status: match run.status {
                SkillRunStatus::Running => RunState::Running,
                SkillRunStatus::Succeeded => RunState::Succeeded,
                SkillRunStatus::Failed if execution.status == ExecutionStatus::Interrupted => {
                    RunState::Cancelled
                }
                SkillRunStatus::Failed => RunState::Failed,
            },
            error: run.failure().map(|(code, text)| RunError::new(code, text)),
            origin: RunOrigin::of_session(session),
            started_by: execution.caller.clone(),
            asked_by: None,
            cancelled_by: None,
            missed_before: None,
            session: Some(session.id()),
            execution: Some(execution.id),
            created_micros: created,
            started_micros: begun.then(|| after(execution.queued_ms)),
            ended_micros: is_over.then(|| after(execution.queued_ms.saturating_add(execution.duration_ms))),
        };
        Self {
            violations: run.violations,
            result: Some(run.execution),
            ..Self::of(info, run.outputs)
        }
    }
}

fn micros(millis: u64) -> i64 {
    let time = Duration::from_millis(millis).as_micros();
    i64::try_from(time).unwrap_or(i64::MAX)
}

/// The name of the skill whose run has a session, by the label of the session; `None` for other sessions.
pub(super) fn skill_of(info: &SessionInfo) -> Option<&str> {
    let label = info.session.labels.get(LABEL)?;
    Some(label.split_once(' ').map_or(label, |(name, _)| name))
}

/// The id of a run: of a skill by its session, of a workflow or a trigger by the row.
pub fn id_of_run(id: Uuid) -> String {
    format!("run_{}", id.simple())
}

/// The inverse of [`id_of_run`].
pub fn uuid_of_run(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text.strip_prefix("run_")?).ok()?;
    (id_of_run(id) == text).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_run_has_one_spelling() {
        let id = Uuid::from_u128(0xa1);
        assert_eq!(uuid_of_run(&id_of_run(id)), Some(id));
        for wrong in [
            id.to_string(),
            format!("run_{id}"),
            format!("exe_{}", id.simple()),
            id_of_run(id).to_uppercase(),
            "run_".to_owned(),
        ] {
            assert_eq!(uuid_of_run(&wrong), None, "{wrong}");
        }
    }
}
