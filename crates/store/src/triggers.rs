//! What starts runs (schedules, webhooks), the runs that it has started, and the deliveries of their results.

use uuid::Uuid;

/// One row of `triggers`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TriggerRecord {
    /// Its id.
    pub id: Uuid,
    /// What it is, as its writer says.
    pub kind: String,
    /// A tenant, or the operator.
    pub owner: String,
    /// Its name, one of that owner and kind.
    pub name: String,
    /// What it starts and how, JSON.
    pub definition: String,
    /// The id of the key with which its secrets are sealed; empty if it has none.
    pub key_id: String,
    /// Its secrets, sealed.
    pub sealed: Vec<u8>,
    /// When it is due, in microseconds since the Unix epoch; `None`: it is not.
    pub next_micros: Option<i64>,
    /// Counts its changes.
    pub version: i64,
    /// When it was made, in microseconds since the Unix epoch.
    pub created_micros: i64,
}

/// What came of adding a trigger.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TriggerAdded {
    /// It is there.
    Added,
    /// Its owner has one of this kind and name.
    Taken,
    /// Its owner has as many of this kind as it may.
    Full,
}

/// How far a run of a trigger is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TriggerRunState {
    /// It is to be started.
    Due,
    /// It was started, or is about to be.
    Running,
    /// It has ended.
    Over,
}

impl TriggerRunState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Running => "running",
            Self::Over => "over",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Due, Self::Running, Self::Over]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

/// One row of `trigger_runs`.
///
/// A run that has not ended is in the hands of one process of a gateway at a time, which has claimed it. What a process has claimed that
/// lives no more is free.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TriggerRun {
    /// Its id.
    pub id: Uuid,
    /// Its trigger.
    pub trigger: Uuid,
    /// The owner of that.
    pub owner: String,
    /// What it is a run for, one of its trigger.
    pub key: String,
    /// When it was due, in microseconds since the Unix epoch.
    pub due_micros: i64,
    /// How far it is.
    pub state: TriggerRunState,
    /// Not to be tried before this time.
    pub not_before_micros: i64,
    /// All else, JSON.
    pub detail: String,
    /// Which process has it; empty: none.
    pub claim: String,
}

/// The trigger or the owner of listed runs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TriggerRunsOf {
    /// One trigger of any kind.
    Trigger(Uuid),
    /// All schedules and webhooks of an owner.
    Owner(String),
}

/// A page of runs of triggers, the latest first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TriggerRunFilter {
    /// The trigger or the owner.
    pub of: TriggerRunsOf,
    /// Only runs that come after the run with this due time, in microseconds since the Unix epoch, and this id.
    pub after: Option<(i64, Uuid)>,
    /// At most so many.
    pub limit: i64,
}

/// One row of `deliveries`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeliveryRecord {
    /// Its id.
    pub id: Uuid,
    /// The trigger of its run.
    pub trigger: Uuid,
    /// The run that it tells of.
    pub run: Uuid,
    /// When it was made, in microseconds since the Unix epoch.
    pub created_micros: i64,
    /// When it is to be tried; `None`: it has ended.
    pub next_micros: Option<i64>,
    /// All else, JSON.
    pub detail: String,
    /// Which process has it; empty: none.
    pub claim: String,
}

/// A run that is to be seen to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenRun {
    /// The run.
    pub run: TriggerRun,
    /// The kind of its trigger.
    pub kind: String,
}

/// A delivery that is to be tried.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DueDelivery {
    /// The delivery.
    pub record: DeliveryRecord,
    /// The owner of its trigger.
    pub owner: String,
    /// The kind of its trigger.
    pub kind: String,
}

/// The number of rows that are read at once where owners take turns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FairBatch {
    /// Rows of one owner.
    pub of_one: i64,
    /// Rows of all owners together.
    pub all: i64,
}
