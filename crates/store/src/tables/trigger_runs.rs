//! Runs that triggers have started.

use uuid::Uuid;

use super::deliveries::{DeliveryRecord, FairBatch, free};
use crate::StoreError;
use crate::failure::Failure;
use crate::part::part;
use crate::sql::{Column, Param, Row, Sql, any, changed, count, params, record};

/// One row of `trigger_runs`.
///
/// One process of a gateway at a time has claimed a run that has not ended. A claim of a process that does not live any more is free.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TriggerRun {
    pub id: Uuid,
    /// The trigger that has started it.
    pub trigger: Uuid,
    pub owner: String,
    /// The key, one of the trigger: the due time, or the id that the sender of a webhook has chosen.
    pub key: String,
    /// The time when it was due, in microseconds since the Unix epoch.
    pub due_micros: i64,
    pub state: TriggerRunState,
    /// The time before which it is not tried, in microseconds since the Unix epoch.
    pub not_before_micros: i64,
    /// All else, JSON.
    pub detail: String,
    /// The process that has claimed it; empty: none.
    pub claim: String,
}

/// The state of a run of a trigger.
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
    fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Running => "running",
            Self::Over => "over",
        }
    }
}

impl<'a> From<&'a TriggerRunState> for Param<'a> {
    fn from(state: &'a TriggerRunState) -> Self {
        Self::Text(Some(state.as_str()))
    }
}

impl Column for TriggerRunState {
    fn read(row: &Row<'_>, column: &'static str) -> Result<Self, Failure> {
        let text: String = row.get(column)?;
        let known = [Self::Due, Self::Running].into_iter();
        // The schema has no other texts.
        Ok(known
            .clone()
            .find(|state| state.as_str() == text)
            .unwrap_or(Self::Over))
    }
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

/// A run that has not ended and that no living process has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenRun {
    pub run: TriggerRun,
    /// The kind of its trigger.
    pub kind: String,
}

record!(TriggerRun in "trigger_runs" {
    id, trigger as "trigger_id", owner, key, due_micros, state, not_before_micros, detail, claim
});

record!(OpenRun in "trigger_runs" { run as .., kind });

part! {
    /// Runs of triggers.
    TriggerRunStore {
        /// Adds a run, if there is none with its key, which is given back else.
        write fn add_trigger_run(run: TriggerRun) -> Option<TriggerRun>;

        /// One run.
        read fn trigger_run(id: Uuid) -> Option<TriggerRun> = one("SELECT * FROM himalia.trigger_runs WHERE id = $1", id);

        /// The run of a trigger with this key.
        read fn trigger_run_of(trigger: Uuid, key: String) -> Option<TriggerRun> = one(OF_KEY, trigger, key);

        /// A page of runs of triggers, the latest first.
        read fn trigger_runs(filter: TriggerRunFilter) -> Vec<TriggerRun>;

        /// The runs of schedules and webhooks among `ids`.
        read fn trigger_runs_among(ids: Vec<Uuid>) -> Vec<Uuid> = list(AMONG, ids);

        /// The latest run of each trigger of a kind, of an owner or of all.
        read fn last_trigger_runs(owner: Option<String>, kind: String) -> Vec<TriggerRun> = list(LAST, owner, kind);

        /// Runs that have not ended, are to be tried at `micros`, and that no living process has claimed: owners take turns.
        read fn open_trigger_runs(micros: i64, most: FairBatch) -> Vec<OpenRun> = list(OPEN, micros, most.of_one, most.all);

        /// Runs of a trigger that have not ended.
        read fn count_open_trigger_runs(trigger: Uuid) -> i64;

        /// Claims a run for this process, if its claim is still `held`.
        write fn claim_trigger_run(id: Uuid, held: String) -> bool = changed(CLAIM, id, held);

        /// Writes a run that this process has claimed and that has not ended; the claim ends unless it `keeps` it. Adds a delivery with it:
        /// both or neither.
        write fn change_trigger_run(run: TriggerRun, keeps: bool, delivery: Option<DeliveryRecord>) -> bool;

        /// Forgets runs that have ended, were due before `before`, and are not among the latest `keep` of their trigger; gives back how many.
        write fn forget_trigger_runs(keep: i64, before: i64) -> usize;
    }
}

const ADD: &str = "
INSERT INTO himalia.trigger_runs (id, trigger_id, owner, key, due_micros, state, not_before_micros, detail, claim)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, '' WHERE {member} ON CONFLICT (trigger_id, key) DO NOTHING";

const OF_KEY: &str = "SELECT * FROM himalia.trigger_runs WHERE trigger_id = $1 AND key = $2";

macro_rules! page {
    () => {
        " AND ((run.due_micros, run.id) < ($2, $3) OR $2 IS NULL) ORDER BY run.due_micros DESC, run.id DESC LIMIT $4"
    };
}

const OF_TRIGGER: &str = concat!(
    "SELECT run.* FROM himalia.trigger_runs run WHERE run.trigger_id = $1",
    page!()
);

const OF_OWNER: &str = concat!(
    "SELECT run.* FROM himalia.triggers one JOIN himalia.trigger_runs run ON run.trigger_id = one.id
WHERE one.owner = $1 AND one.kind IN ('schedule', 'webhook')",
    page!()
);

const AMONG: &str = concat!(
    "SELECT run.id FROM himalia.trigger_runs run JOIN himalia.triggers one ON one.id = run.trigger_id
WHERE one.kind IN ('schedule', 'webhook') AND run.id ",
    any!("$1")
);

const LAST: &str = "
SELECT * FROM (
    SELECT run.*, row_number() OVER (PARTITION BY run.trigger_id ORDER BY run.due_micros DESC, run.id DESC) AS place
    FROM himalia.trigger_runs run JOIN himalia.triggers one ON one.id = run.trigger_id
    WHERE one.kind = $2 AND (one.owner = $1 OR $1 IS NULL)) placed
WHERE place = 1";

const OPEN: &str = concat!(
    "SELECT run.*, placed.kind FROM himalia.trigger_runs run JOIN (
    SELECT open.id, one.kind,
        row_number() OVER (PARTITION BY open.owner, one.kind ORDER BY open.due_micros, open.id) AS place
    FROM himalia.trigger_runs open JOIN himalia.triggers one ON one.id = open.trigger_id
    WHERE open.state IN ('due', 'running') AND open.not_before_micros <= $1 AND ",
    free!("open.claim"),
    ") placed USING (id)
WHERE placed.place <= $2 ORDER BY placed.place, run.due_micros, run.id LIMIT $3"
);

const COUNT_OPEN: &str = "
SELECT count(*) FROM himalia.trigger_runs WHERE trigger_id = $1 AND state IN ('due', 'running')";

const CLAIM: &str = "
UPDATE himalia.trigger_runs SET claim = {claimant}
WHERE id = $1 AND claim = $2 AND claim <> {claimant} AND state <> 'over' AND {member}";

macro_rules! change {
    () => {
        "
UPDATE himalia.trigger_runs SET state = $2, not_before_micros = $3, detail = $4, claim = $5
WHERE id = $1 AND claim = {claimant} AND state <> 'over' AND {member}"
    };
}

const CHANGE: &str = change!();

const CHANGE_AND_DELIVER: &str = concat!(
    change!(),
    ";
INSERT INTO himalia.deliveries (id, trigger_id, run_id, owner, created_micros, next_micros, detail, claim)
SELECT $6, $7, $1, $8, $9, $10, $11, '' WHERE {before}"
);

const FORGET: &str = "
DELETE FROM himalia.trigger_runs WHERE id IN (
    SELECT id FROM (
        SELECT id, state, due_micros, row_number() OVER (PARTITION BY trigger_id ORDER BY due_micros DESC, id DESC) AS place
        FROM himalia.trigger_runs) placed
    WHERE place > $1 AND due_micros < $2 AND state = 'over') AND {member}";

const FORGET_DELIVERIES: &str = "
DELETE FROM himalia.deliveries
WHERE NOT EXISTS (SELECT 1 FROM himalia.trigger_runs run WHERE run.id = run_id) AND {member}";

const FORGET_ANSWERS: &str = "DELETE FROM himalia.prompt_answers WHERE answered_micros < $1 AND {member}";

async fn add_trigger_run(sql: &impl Sql, run: TriggerRun) -> Result<Option<TriggerRun>, Failure> {
    let values = params![
        run.id,
        run.trigger,
        run.owner,
        run.key,
        run.due_micros,
        run.state,
        run.not_before_micros,
        run.detail,
    ];
    if changed(sql, ADD, values).await? {
        return Ok(None);
    }
    match sql.one(OF_KEY, params![run.trigger, run.key]).await? {
        Some(held) => Ok(Some(held)),
        None => Err(StoreError::LeaseLost.into()),
    }
}

async fn trigger_runs(sql: &impl Sql, filter: TriggerRunFilter) -> Result<Vec<TriggerRun>, Failure> {
    let (due, id) = filter.after.unzip();
    match filter.of {
        TriggerRunsOf::Trigger(of) => sql.list(OF_TRIGGER, params![of, due, id, filter.limit]).await,
        TriggerRunsOf::Owner(of) => sql.list(OF_OWNER, params![of, due, id, filter.limit]).await,
    }
}

async fn count_open_trigger_runs(sql: &impl Sql, trigger: Uuid) -> Result<i64, Failure> {
    Ok(sql.one(COUNT_OPEN, params![trigger]).await?.unwrap_or(0))
}

async fn change_trigger_run(
    sql: &impl Sql,
    run: TriggerRun,
    keeps: bool,
    delivery: Option<DeliveryRecord>,
) -> Result<bool, Failure> {
    let claim = if keeps { &*sql.process().claimant } else { "" };
    let mut values = params![run.id, run.state, run.not_before_micros, run.detail, claim].to_vec();
    let Some(delivery) = &delivery else {
        return changed(sql, CHANGE, &values).await;
    };
    values.extend(params![
        delivery.id,
        delivery.trigger,
        run.owner,
        delivery.created_micros,
        delivery.next_micros,
        delivery.detail,
    ]);
    changed(sql, CHANGE_AND_DELIVER, &values).await
}

async fn forget_trigger_runs(sql: &impl Sql, keep: i64, before: i64) -> Result<usize, Failure> {
    let forgotten = count(sql, FORGET, params![keep, before]).await?;
    sql.execute(FORGET_DELIVERIES, &[]).await?;
    sql.execute(FORGET_ANSWERS, params![before]).await?;
    Ok(forgotten)
}
