//! Triggers as commands take and show them.

use std::time::Duration;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::definition::{Definition, Times};
use super::target::{RunTarget, Runnable};
use crate::run::RunInfo;

/// A trigger that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTrigger {
    /// Lower-case letters, digits and hyphens; one of its owner and kind.
    pub name: String,
    /// The skill or workflow that it starts; `None` for a webhook of prompts, which starts nothing.
    pub target: Option<RunTarget>,
    /// The inputs of each run.
    pub inputs: Map<String, Value>,
    /// The template of the sessions of runs.
    pub template: Option<String>,
    /// The time that a run may take, if that is less than its target says.
    pub timeout: Option<Duration>,
    /// When it is due; `None` for a webhook.
    pub times: Option<Times>,
    /// True if it starts runs.
    pub enabled: bool,
    /// The URL to which the result of each run is posted.
    pub callback: Option<String>,
}

/// The secrets of a new trigger, which are shown once.
#[derive(Clone, Default)]
pub struct NewSecrets {
    /// With which senders of a webhook sign.
    pub incoming: Option<String>,
    /// With which results are signed that are posted to a callback.
    pub outgoing: Option<String>,
}

impl std::fmt::Debug for NewSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NewSecrets")
    }
}

/// A change of a trigger; `None`: the member stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TriggerChange {
    /// The skill or workflow that it starts.
    pub target: Option<RunTarget>,
    /// The inputs of each run.
    pub inputs: Option<Map<String, Value>>,
    /// The template; empty: none.
    pub template: Option<String>,
    /// The time that a run may take.
    pub timeout: Option<Duration>,
    /// The cron expression.
    pub cron: Option<String>,
    /// The time zone.
    pub time_zone: Option<String>,
    /// The policy for missed due times.
    pub missed: Option<himalia_schedules::MissedPolicy>,
    /// The policy for due times while a run is in progress.
    pub overlap: Option<himalia_schedules::Overlap>,
    /// True if it starts runs.
    pub enabled: Option<bool>,
}

impl TriggerChange {
    /// Returns true if the change only switches the trigger on or off.
    pub(super) fn only_switches(&self) -> bool {
        let switch = Self {
            enabled: self.enabled,
            ..Self::default()
        };
        *self == switch
    }
}

/// A trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct TriggerInfo {
    /// The id.
    pub id: Uuid,
    /// The name.
    pub name: String,
    /// A tenant, or the operator.
    pub owner: String,
    /// As whom runs are started.
    pub caller: String,
    /// The skill or workflow that it starts; `None` for a webhook of prompts, which starts nothing.
    pub target: Option<RunTarget>,
    /// The inputs of each run.
    pub inputs: Map<String, Value>,
    /// The template of the sessions of runs.
    pub template: Option<String>,
    /// Seconds that a run may take.
    pub timeout_s: Option<u64>,
    /// When it is due.
    pub times: Option<Times>,
    /// True if it starts runs.
    pub enabled: bool,
    /// The origin of the URL to which the result of each run is posted.
    pub callback: Option<String>,
    /// The reason why the gateway has stopped it.
    pub stopped: Option<String>,
    /// When it is due next, microseconds since 1970.
    pub next_micros: Option<i64>,
    /// When it was made, microseconds since 1970.
    pub created_micros: i64,
    /// The latest run.
    pub last_run: Option<RunInfo>,
}

impl TriggerChange {
    pub(super) fn apply(self, definition: &mut Definition) {
        fn set<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        if let Some(target) = self.target {
            if matches!(target.what, Runnable::Workflow(_)) {
                // Those are of the sessions of a skill.
                (definition.template, definition.timeout_s) = (None, None);
            }
            definition.target = Some(target);
        }
        set(&mut definition.inputs, self.inputs);
        set(&mut definition.enabled, self.enabled);
        if let Some(template) = self.template {
            definition.template = Some(template).filter(|name| !name.is_empty());
        }
        if let Some(time) = self.timeout {
            definition.timeout_s = Some(time.as_secs());
        }
        if let Some(times) = &mut definition.times {
            set(&mut times.cron, self.cron);
            set(&mut times.time_zone, self.time_zone);
            set(&mut times.missed, self.missed);
            set(&mut times.overlap, self.overlap);
        }
    }
}
