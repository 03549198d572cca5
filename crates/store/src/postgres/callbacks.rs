//! The rows of callbacks of runs that a client has started, which all replicas share.

use tokio_postgres::Row;

use super::PostgresStore;
use super::connection::Param;
use super::failure::Failure;
use super::membership::check_member;
use crate::{CallbackAdded, CallbackQuota, NewCallback, StoreError};

/// Whether something is to be done with a callback: its run continues, or its delivery has not ended.
macro_rules! is_open {
    () => {
        "(EXISTS (SELECT 1 FROM himalia.trigger_runs run WHERE run.trigger_id = one.id AND run.state <> 'over')
    OR EXISTS (SELECT 1 FROM himalia.deliveries told WHERE told.trigger_id = one.id AND told.next_micros IS NOT NULL))"
    };
}
pub(super) use is_open;

/// How many an owner ($1) has of a kind ($2): all, and those with which something is to be done.
pub(super) const COUNT: &str = concat!(
    "SELECT count(*), count(*) FILTER (WHERE ",
    is_open!(),
    ") FROM himalia.triggers one WHERE one.owner = $1 AND one.kind = $2"
);

/// The trigger and its run: both or neither. Two replicas that add at once can exceed the quota, each by one.
const ADD: &str = concat!(
    "
WITH added AS (
    INSERT INTO himalia.triggers (id, kind, owner, name, definition, key_id, sealed, next_micros, version, created_micros)
    SELECT $3, $4, $5, $6, $7, $8, $9, NULL, $10, $11
    WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
      AND (SELECT count(*) < $12::bigint AND count(*) FILTER (WHERE ",
    is_open!(),
    ") < $13::bigint
           FROM himalia.triggers one WHERE one.owner = $5 AND one.kind = $4)
    ON CONFLICT DO NOTHING
    RETURNING id, owner)
INSERT INTO himalia.trigger_runs (id, trigger_id, owner, key, due_micros, state, not_before_micros, detail, claim)
SELECT $14::uuid, added.id, added.owner, $15::text, $16::bigint, $17::text, $18::bigint, $19::text, '' FROM added"
);

const PRESENT: &str = "SELECT 1 FROM himalia.triggers WHERE id = $1";

/// Of those whose run is not kept any more, and with which nothing is to be done.
const FORGET: &str = concat!(
    "
WITH gone AS (
    DELETE FROM himalia.triggers one WHERE one.kind = $3 AND one.created_micros < $4
        AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
        AND NOT EXISTS (SELECT 1 FROM himalia.workflow_runs flow WHERE flow.id = one.name)
        AND NOT EXISTS (SELECT 1 FROM himalia.kernels kernel WHERE kernel.id = one.id)
        AND NOT EXISTS (SELECT 1 FROM himalia.ended_sessions ended WHERE ended.id = one.id AND ended.removed_micros IS NULL)
        AND NOT ",
    is_open!(),
    "
    RETURNING id),
runs AS (DELETE FROM himalia.trigger_runs WHERE trigger_id IN (SELECT id FROM gone)),
told AS (DELETE FROM himalia.deliveries WHERE trigger_id IN (SELECT id FROM gone))
SELECT id FROM gone"
);

impl PostgresStore {
    pub(super) async fn do_add_callback(&self, new: NewCallback) -> Result<CallbackAdded, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let (trigger, run) = (&new.trigger, &new.run);
                let (sealed, state): (&[u8], _) = (&trigger.sealed, run.state.as_str());
                let params: &[Param<'_>] = &[
                    &replica,
                    &me.epoch,
                    &trigger.id,
                    &trigger.kind,
                    &trigger.owner,
                    &trigger.name,
                    &trigger.definition,
                    &trigger.key_id,
                    &sealed,
                    &trigger.version,
                    &trigger.created_micros,
                    &new.quota.kept,
                    &new.quota.open,
                    &run.id,
                    &run.key,
                    &run.due_micros,
                    &state,
                    &run.not_before_micros,
                    &run.detail,
                ];
                if link.execute(ADD, params).await? == 1 {
                    return Ok(CallbackAdded::Added);
                }
                if !link.query(PRESENT, &[&trigger.id]).await?.is_empty() {
                    return Ok(CallbackAdded::Present);
                }
                check_member(&link, &me).await?;
                Ok(CallbackAdded::Full)
            })
            .await
    }

    pub(super) async fn do_has_callback_room(
        &self,
        owner: String,
        kind: String,
        quota: CallbackQuota,
    ) -> Result<bool, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let counted = link.query(COUNT, &[&owner, &kind]).await?;
                has_room(&counted, quota)
            })
            .await
    }

    pub(super) async fn do_forget_callbacks(&self, kind: String, before: i64) -> Result<usize, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let gone = link.query(FORGET, &[&replica, &me.epoch, &kind, &before]).await?;
                Ok(gone.len())
            })
            .await
    }
}

/// Whether what [`COUNT`] has found is less than the quota.
pub(super) fn has_room(counted: &[Row], quota: CallbackQuota) -> Result<bool, Failure> {
    let Some(row) = counted.first() else {
        return Ok(true);
    };
    let (kept, open): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    Ok(kept < quota.kept && open < quota.open)
}
