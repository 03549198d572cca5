//! The stored part of a trigger and of its runs that the store does not read.

use himalia_executions::ExecutionId;
use himalia_model::EngineError;
use himalia_schedules::{MissedPolicy, Overlap, Policy, Timetable};
use himalia_session::not_stored;
use himalia_store::{StoreError, TriggerRecord, TriggerRun, TriggerRunState};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::holder::Holder;
use super::target::RunTarget;
use crate::attempt::Attempt;
use crate::run::{RunError, RunState};

/// When a schedule is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// A cron expression.
    pub cron: String,
    /// A time zone of the IANA database.
    pub time_zone: String,
    /// The policy for missed due times.
    pub missed: MissedPolicy,
    /// The policy for due times while a run is in progress.
    pub overlap: Overlap,
}

impl Times {
    pub(super) fn table(&self) -> Result<Timetable, EngineError> {
        Timetable::parse(&self.cron, &self.time_zone)
            .map_err(|wrong| EngineError::bad_request(wrong.field, wrong.reason))
    }

    pub(super) fn policy(&self) -> Policy {
        Policy {
            missed: self.missed,
            overlap: self.overlap,
        }
    }
}

/// The definition of a trigger, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Definition {
    /// `None` for a webhook of prompts, which starts nothing.
    pub(super) target: Option<RunTarget>,
    pub(super) inputs: Map<String, Value>,
    pub(super) template: Option<String>,
    pub(super) timeout_s: Option<u64>,
    pub(super) enabled: bool,
    pub(super) times: Option<Times>,
    pub(super) holder: Holder,
    /// The URL to which the result of each run is posted.
    pub(super) callback: Option<String>,
    /// The reason why the gateway has stopped it.
    pub(super) stopped: Option<String>,
}

impl Definition {
    /// The skill or workflow that it starts.
    pub(super) fn target(&self) -> Result<&RunTarget, EngineError> {
        let missing = || EngineError::bad_request("target", "is missing");
        self.target.as_ref().ok_or_else(missing)
    }
}

impl RunState {
    pub(super) fn stored(self) -> TriggerRunState {
        match self {
            Self::Queued => TriggerRunState::Due,
            Self::Running => TriggerRunState::Running,
            _ => TriggerRunState::Over,
        }
    }
}

/// The stored part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Detail {
    pub(super) status: RunState,
    /// The skill or workflow; `None` until it begins, as its trigger may be changed until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<RunTarget>,
    /// The name of the caller who asked for it, if that was not the trigger itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked_by: Option<String>,
    /// The policy that the caller asked for, while an earlier run is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked_overlap: Option<Overlap>,
    /// The inputs, if they are not those of its trigger, until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) inputs: Option<Map<String, Value>>,
    pub(super) missed_before: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<RunError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) execution: Option<String>,
    /// The run of the workflow that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) workflow_run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) started_micros: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended_micros: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) outputs: Option<Value>,
    /// Starts that failed and are tried again.
    pub(super) attempts: u32,
    /// Sessions that it has lost before its code ran.
    #[serde(default)]
    pub(super) restarts: u32,
}

impl Detail {
    pub(super) fn new(status: RunState) -> Self {
        Self {
            status,
            target: None,
            asked_by: None,
            asked_overlap: None,
            inputs: None,
            missed_before: 0,
            error: None,
            version: None,
            execution: None,
            workflow_run: None,
            started_micros: None,
            ended_micros: None,
            outputs: None,
            attempts: 0,
            restarts: 0,
        }
    }

    /// The attempt as this row has it. `sent`: its code may have been sent.
    pub(super) fn attempt(&self, sent: bool) -> Attempt {
        Attempt::found(self.restarts, sent, self.execution().is_some())
    }

    pub(super) fn execution(&self) -> Option<ExecutionId> {
        self.execution.as_ref()?.parse().ok()
    }
}

/// Writes what is stored as JSON.
pub(super) fn write<T: Serialize>(value: &T) -> Result<String, EngineError> {
    serde_json::to_string(value).map_err(|error| EngineError::internal("writing a trigger", error))
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, EngineError> {
    serde_json::from_str(text).map_err(|error| EngineError::internal("reading a trigger", error))
}

pub(super) fn definition(record: &TriggerRecord) -> Result<Definition, EngineError> {
    read(&record.definition)
}

pub(super) fn detail(run: &TriggerRun) -> Result<Detail, EngineError> {
    read(&run.detail)
}

pub(crate) fn stored(error: StoreError) -> EngineError {
    not_stored("triggers in the store", error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trigger_that_starts_nothing_has_no_target() {
        let read = |target: Value| {
            let mut json =
                json!({"inputs": {}, "enabled": true, "holder": {"name": "operator", "mark": null}});
            json["target"] = target;
            serde_json::from_value::<Definition>(json).unwrap()
        };
        let named = read(json!({"skill": "a"}));
        assert_eq!(named.target().unwrap(), &RunTarget::skill("a"));
        let nothing = read(Value::Null);
        assert_eq!(nothing.target, None);
        assert!(nothing.target().is_err());
        let again: Definition = serde_json::from_str(&write(&nothing).unwrap()).unwrap();
        assert_eq!(again, nothing);
    }
}
