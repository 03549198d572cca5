//! Triggers, which start runs: schedules, webhooks, and callbacks of single runs.

use uuid::Uuid;

use crate::TriggerRun;
use crate::failure::Failure;
use crate::part::part;
use crate::sql::{Param, Record as _, Sql, changed, check_member, exists, params, record};

/// One row of `triggers`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TriggerRecord {
    pub id: Uuid,
    /// The kind of trigger, as the writer names it.
    pub kind: String,
    /// A tenant, or the operator.
    pub owner: String,
    /// The name, one of that owner and kind.
    pub name: String,
    /// The target and how it is started, JSON.
    pub definition: String,
    /// The id of the key with which its secrets are sealed; empty if it has none.
    pub key_id: String,
    /// The sealed secrets.
    pub sealed: Vec<u8>,
    /// The time when it is due, in microseconds since the Unix epoch; `None`: it is not.
    pub next_micros: Option<i64>,
    /// Counts its changes.
    pub version: i64,
    /// The time when it was made, in microseconds since the Unix epoch.
    pub created_micros: i64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TriggerAdded {
    /// The trigger is stored.
    Added,
    /// The owner has one of this kind and name.
    Taken,
    /// The owner has as many of this kind as it may.
    Full,
}

record!(TriggerRecord in "triggers" {
    id, kind, owner, name, definition, key_id, sealed, next_micros, version, created_micros
});

part! {
    /// Schedules, webhooks and callbacks.
    TriggerStore {
        /// Adds a trigger, if its owner has fewer than `most` of its kind.
        write fn insert_trigger(record: TriggerRecord, most: i64) -> TriggerAdded;

        /// One trigger.
        read fn trigger(id: Uuid) -> Option<TriggerRecord> = one("SELECT * FROM himalia.triggers WHERE id = $1", id);

        /// The triggers of a kind, of an owner or of all, by owner and name.
        read fn triggers(owner: Option<String>, kind: String) -> Vec<TriggerRecord> = list(LIST, owner, kind);

        /// The triggers that are due at `micros`: owners take turns, each with its earliest first.
        read fn due_triggers(micros: i64, most: i64) -> Vec<TriggerRecord> = list(DUE, micros, most);

        /// Replaces a trigger, if it has still the version that `record` names, which grows by one, and adds a run of it: both or neither.
        write fn change_trigger(record: TriggerRecord, run: Option<TriggerRun>) -> bool;

        /// Forgets a trigger, its runs and their deliveries; `false` when there was none.
        write fn delete_trigger(id: Uuid) -> bool = changed(DELETE, id);
    }
}

/// Two replicas that add at once can exceed the number, each by one.
const INSERT: &str = "
INSERT INTO himalia.triggers (id, kind, owner, name, definition, key_id, sealed, next_micros, version, created_micros)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10
WHERE {member} AND (SELECT count(*) < $11 FROM himalia.triggers WHERE owner = $3 AND kind = $2)
ON CONFLICT DO NOTHING";

const NAMED: &str = "SELECT 1 FROM himalia.triggers WHERE owner = $1 AND kind = $2 AND name = $3";

const LIST: &str = "
SELECT * FROM himalia.triggers WHERE kind = $2 AND (owner = $1 OR $1 IS NULL) ORDER BY owner, name";

/// Owners take turns: the first one of each, then the second one of each.
const DUE: &str = "
SELECT triggers.* FROM himalia.triggers JOIN (
    SELECT id, row_number() OVER (PARTITION BY owner ORDER BY next_micros, id) AS place
    FROM himalia.triggers WHERE next_micros <= $1) placed USING (id)
ORDER BY placed.place, next_micros, id LIMIT $2";

macro_rules! change {
    () => {
        "
UPDATE himalia.triggers SET name = $2, definition = $3, key_id = $4, sealed = $5, next_micros = $6, version = version + 1
WHERE id = $1 AND version = $7 AND {member}"
    };
}

const CHANGE: &str = change!();

const CHANGE_AND_RUN: &str = concat!(
    change!(),
    ";
INSERT INTO himalia.trigger_runs (id, trigger_id, owner, key, due_micros, state, not_before_micros, detail, claim)
SELECT $8, $1, $9, $10, $11, $12, $13, $14, '' WHERE {before}"
);

const DELETE: &str = "
DELETE FROM himalia.deliveries WHERE trigger_id = $1 AND {member};
DELETE FROM himalia.trigger_runs WHERE trigger_id = $1 AND {member};
DELETE FROM himalia.prompt_answers WHERE trigger_id = $1 AND {member};
DELETE FROM himalia.triggers WHERE id = $1 AND {member}";

async fn insert_trigger(sql: &impl Sql, record: TriggerRecord, most: i64) -> Result<TriggerAdded, Failure> {
    let mut values = record.values();
    values.push(Param::from(&most));
    if changed(sql, INSERT, &values).await? {
        return Ok(TriggerAdded::Added);
    }
    if exists(sql, NAMED, params![record.owner, record.kind, record.name]).await? {
        return Ok(TriggerAdded::Taken);
    }
    check_member(sql).await?;
    Ok(TriggerAdded::Full)
}

async fn change_trigger(
    sql: &impl Sql,
    record: TriggerRecord,
    run: Option<TriggerRun>,
) -> Result<bool, Failure> {
    let mut values = params![
        record.id,
        record.name,
        record.definition,
        record.key_id,
        record.sealed,
        record.next_micros,
        record.version,
    ]
    .to_vec();
    let Some(run) = &run else {
        return changed(sql, CHANGE, &values).await;
    };
    values.extend(params![
        run.id,
        run.owner,
        run.key,
        run.due_micros,
        run.state,
        run.not_before_micros,
        run.detail,
    ]);
    changed(sql, CHANGE_AND_RUN, &values).await
}
