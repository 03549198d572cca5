//! Callbacks of runs that a client has started: a trigger of one run each, with that run, which is in progress already.

use crate::failure::Failure;
use crate::part::part;
use crate::sql::{Param, Sql, changed, check_member, exists, params};
use crate::{TriggerRecord, TriggerRun};

/// A callback that is to be added.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewCallback {
    /// The trigger. It has the id of the run, and as its name the id that the run has for its caller.
    pub trigger: TriggerRecord,
    /// The run, which has begun.
    pub run: TriggerRun,
    /// The number of callbacks of this kind that the owner may have.
    pub quota: CallbackQuota,
}

/// The number of callbacks that an owner may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CallbackQuota {
    /// Callbacks whose run continues, or whose delivery has not ended.
    pub open: i64,
    pub kept: i64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CallbackAdded {
    /// The callback is stored.
    Added,
    /// The run has one already.
    Present,
    /// The owner has as many callbacks as it may.
    Full,
}

part! {
    /// Callbacks of runs.
    CallbackStore {
        /// Adds a callback and its run, if the run has none and the owner has fewer than the quota: both or neither.
        write fn add_callback(new: NewCallback) -> CallbackAdded;

        /// Returns true if an owner has fewer callbacks of a kind than the quota.
        read fn has_callback_room(owner: String, kind: String, quota: CallbackQuota) -> bool;

        /// Forgets callbacks of a kind that were added before `before`, whose run has ended and is not kept any more (a run of a workflow,
        /// or the log of a session), and whose delivery has ended; gives back how many.
        write fn forget_callbacks(kind: String, before: i64) -> usize = count(FORGET, kind, before);
    }
}

/// A condition: the run of the callback `one` continues, or its delivery has not ended.
macro_rules! is_open {
    () => {
        "(EXISTS (SELECT 1 FROM himalia.trigger_runs run WHERE run.trigger_id = one.id AND run.state <> 'over')
    OR EXISTS (SELECT 1 FROM himalia.deliveries told WHERE told.trigger_id = one.id AND told.next_micros IS NOT NULL))"
    };
}
pub(super) use is_open;

const ROOM: &str = concat!(
    "SELECT 1 FROM (SELECT count(*) AS kept, count(*) FILTER (WHERE ",
    is_open!(),
    ") AS open FROM himalia.triggers one WHERE one.owner = $1 AND one.kind = $2) held WHERE kept < $3 AND open < $4"
);

/// Two replicas that add at once can exceed the quota, each by one.
const ADD: &str = concat!(
    "
INSERT INTO himalia.triggers (id, kind, owner, name, definition, key_id, sealed, next_micros, version, created_micros)
SELECT $1, $2, $3, $4, $5, $6, $7, NULL, $8, $9
WHERE {member}
  AND (SELECT count(*) < $10 AND count(*) FILTER (WHERE ",
    is_open!(),
    ") < $11 FROM himalia.triggers one WHERE one.owner = $3 AND one.kind = $2)
ON CONFLICT DO NOTHING;
INSERT INTO himalia.trigger_runs (id, trigger_id, owner, key, due_micros, state, not_before_micros, detail, claim)
SELECT $12, $1, $3, $13, $14, $15, $16, $17, '' WHERE {before}"
);

const PRESENT: &str = "SELECT 1 FROM himalia.triggers WHERE id = $1";

/// The callbacks whose run is not kept any more, and with which nothing is to be done.
macro_rules! gone {
    () => {
        concat!(
            "SELECT one.id FROM himalia.triggers one WHERE one.kind = $1 AND one.created_micros < $2
    AND NOT EXISTS (SELECT 1 FROM himalia.workflow_runs flow WHERE flow.id = one.name)
    AND NOT EXISTS (SELECT 1 FROM himalia.kernels kernel WHERE kernel.id = one.id)
    AND NOT EXISTS (SELECT 1 FROM himalia.ended_sessions ended WHERE ended.id = one.id AND ended.removed_micros IS NULL)
    AND NOT ",
            is_open!()
        )
    };
}

const FORGET: &str = concat!(
    "DELETE FROM himalia.deliveries WHERE trigger_id IN (",
    gone!(),
    ") AND {member}; DELETE FROM himalia.trigger_runs WHERE trigger_id IN (",
    gone!(),
    ") AND {member}; DELETE FROM himalia.triggers WHERE id IN (",
    gone!(),
    ") AND {member}"
);

async fn add_callback(sql: &impl Sql, new: NewCallback) -> Result<CallbackAdded, Failure> {
    let NewCallback { trigger, run, quota } = &new;
    let values: &[Param<'_>] = params![
        trigger.id,
        trigger.kind,
        trigger.owner,
        trigger.name,
        trigger.definition,
        trigger.key_id,
        trigger.sealed,
        trigger.version,
        trigger.created_micros,
        quota.kept,
        quota.open,
        run.id,
        run.key,
        run.due_micros,
        run.state,
        run.not_before_micros,
        run.detail,
    ];
    if changed(sql, ADD, values).await? {
        return Ok(CallbackAdded::Added);
    }
    if exists(sql, PRESENT, params![trigger.id]).await? {
        return Ok(CallbackAdded::Present);
    }
    check_member(sql).await?;
    Ok(CallbackAdded::Full)
}

async fn has_callback_room(
    sql: &impl Sql,
    owner: String,
    kind: String,
    quota: CallbackQuota,
) -> Result<bool, Failure> {
    has_room(sql, &owner, &kind, quota).await
}

/// Returns true if an owner has fewer callbacks of a kind than the quota.
pub(super) async fn has_room(
    sql: &impl Sql,
    owner: &str,
    kind: &str,
    quota: CallbackQuota,
) -> Result<bool, Failure> {
    exists(sql, ROOM, params![owner, kind, quota.kept, quota.open]).await
}
