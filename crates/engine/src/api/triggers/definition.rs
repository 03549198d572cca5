//! What is stored of a trigger and of a run of it, beside what the store looks at.

use himalia_executions::ExecutionId;
use himalia_model::{EngineError, OPERATOR, Principal};
use himalia_schedules::{MissedPolicy, Overlap, Policy, Timetable};
use himalia_session::not_stored;
use himalia_store::{StoreError, TriggerRecord, TriggerRun, TriggerRunState};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::target::RunTarget;
use crate::api::runs::{RunError, RunState};

/// What a trigger is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerKind {
    /// A schedule.
    Schedule,
    /// A webhook.
    Webhook,
    /// A webhook to which prompts are posted, and which takes answers.
    Prompts,
}

impl TriggerKind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Webhook => "webhook",
            Self::Prompts => "prompt_webhook",
        }
    }

    /// The label of the sessions of its runs, with its id.
    pub(in crate::api) const fn label(self) -> &'static str {
        match self {
            Self::Schedule => "himalia.schedule",
            Self::Webhook => "himalia.webhook",
            Self::Prompts => "himalia.prompt_webhook",
        }
    }

    /// How errors name it.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Schedule => "Schedule",
            Self::Webhook => "Webhook",
            Self::Prompts => "Prompt webhook",
        }
    }
}

/// When a schedule is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// A cron expression.
    pub cron: String,
    /// A time zone of the IANA database.
    pub time_zone: String,
    /// What becomes of missed due times.
    pub missed: MissedPolicy,
    /// What becomes of due times while a run is in progress.
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

/// As whom runs are started: the holder of a token, as long as it counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::api) struct Holder {
    /// The name of the principal.
    pub(super) name: String,
    /// By which its token is found again; it says nothing of the token.
    pub(super) mark: Option<String>,
}

impl Holder {
    pub(in crate::api) fn of(principal: &Principal) -> Self {
        Self {
            name: principal.name().to_owned(),
            mark: principal.via().and_then(|via| via.mark.clone()),
        }
    }

    /// Whether it showed a token.
    pub(in crate::api) fn is_bound(&self) -> bool {
        self.mark.is_some()
    }

    /// Returns true if the runs of this holder end with the token of this mark.
    pub(in crate::api) fn ends_with(&self, mark: &str) -> bool {
        self.name != OPERATOR && self.mark.as_deref() == Some(mark)
    }

    /// The principal, if its token counts. The operator's own one is replaced at will, and counts always.
    pub(super) fn principal(&self, marked: &dyn Fn(&str) -> Option<Principal>) -> Option<Principal> {
        if self.name == OPERATOR {
            return Some(Principal::operator());
        }
        let found = marked(self.mark.as_deref()?)?;
        (found.name() == self.name && !found.is_read_only()).then_some(found)
    }
}

/// What a trigger starts, and how.
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
    /// Where the result of each run is posted.
    pub(super) callback: Option<String>,
    /// Why the gateway has stopped it.
    pub(super) stopped: Option<String>,
}

impl Definition {
    /// What it starts.
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

/// What is stored of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Detail {
    pub(super) status: RunState,
    /// What it runs; `None` until it begins, as its trigger may be changed until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<RunTarget>,
    /// Who asked for it, if that was not the trigger itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked_by: Option<String>,
    /// What it was asked for with, for the time that an earlier run is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked_overlap: Option<Overlap>,
    /// Its inputs, if they are not those of its trigger, until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) inputs: Option<Map<String, Value>>,
    pub(super) missed_before: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<RunError>,
    /// The version that runs.
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
        }
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

pub(in crate::api) fn stored(error: StoreError) -> EngineError {
    not_stored("triggers in the store", error)
}

#[cfg(test)]
mod tests {
    use himalia_model::CallOrigin;
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

    #[test]
    fn runs_are_started_as_who_holds_the_same_token() {
        let ada = Principal::of_tenant("acme", "ada").unwrap();
        let via = CallOrigin {
            mark: Some("m".into()),
            ..CallOrigin::default()
        };
        let holder = Holder::of(&ada.clone().came(via));
        let of = |found: Option<Principal>| {
            let marked = move |mark: &str| found.clone().filter(|_| mark == "m");
            holder.principal(&marked)
        };
        assert_eq!(of(Some(ada.clone())), Some(ada.clone()));
        assert_eq!(of(None), None, "revoked");
        assert_eq!(
            of(Some(ada.clone().read_only())),
            None,
            "it runs nothing any more"
        );
        assert_eq!(of(Some(Principal::of_tenant("acme", "bob").unwrap())), None);
        let unknown = Holder::of(&ada.clone());
        assert_eq!(
            unknown.principal(&|_: &str| Some(ada.clone())),
            None,
            "it showed no token"
        );
        let operator = Holder::of(&Principal::operator());
        assert_eq!(operator.principal(&|_: &str| None), Some(Principal::operator()));
    }
}
