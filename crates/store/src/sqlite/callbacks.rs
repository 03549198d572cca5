//! The rows of callbacks of runs that a client has started.

use rusqlite::{Transaction, params};

use super::failure::Failure;
use super::{SqliteStore, triggers};
use crate::{CallbackAdded, CallbackQuota, NewCallback, StoreError};

const COUNT: &str = "
SELECT count(*), count(*) FILTER (WHERE
    EXISTS (SELECT 1 FROM trigger_runs run WHERE run.trigger_id = one.id AND run.state <> 'over')
    OR EXISTS (SELECT 1 FROM deliveries told WHERE told.trigger_id = one.id AND told.next_micros IS NOT NULL))
FROM triggers one WHERE one.owner = ?1 AND one.kind = ?2";

/// Of those whose run is not kept any more, and with which nothing is to be done.
const FORGET: &str = "
DELETE FROM triggers WHERE kind = ?1 AND created_micros < ?2
    AND name NOT IN (SELECT id FROM workflow_runs)
    AND id NOT IN (SELECT id FROM kernels)
    AND id NOT IN (SELECT id FROM ended_sessions WHERE removed_micros IS NULL)
    AND NOT EXISTS (SELECT 1 FROM trigger_runs run WHERE run.trigger_id = triggers.id AND run.state <> 'over')
    AND NOT EXISTS (SELECT 1 FROM deliveries told WHERE told.trigger_id = triggers.id AND told.next_micros IS NOT NULL)";

impl SqliteStore {
    pub(super) async fn do_add_callback(&self, new: NewCallback) -> Result<CallbackAdded, StoreError> {
        self.write(move |transaction| insert(transaction, &new)).await
    }

    pub(super) async fn do_has_callback_room(
        &self,
        owner: String,
        kind: String,
        quota: CallbackQuota,
    ) -> Result<bool, StoreError> {
        self.read(move |connection| {
            let mut count = connection.prepare_cached(COUNT)?;
            let (kept, open): (i64, i64) =
                count.query_row([owner, kind], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(kept < quota.kept && open < quota.open)
        })
        .await
    }

    pub(super) async fn do_forget_callbacks(&self, kind: String, before: i64) -> Result<usize, StoreError> {
        self.write(move |transaction| {
            let forgotten = transaction
                .prepare_cached(FORGET)?
                .execute(params![kind, before])?;
            if forgotten > 0 {
                for dependent in [
                    "DELETE FROM deliveries WHERE trigger_id NOT IN (SELECT id FROM triggers)",
                    "DELETE FROM trigger_runs WHERE trigger_id NOT IN (SELECT id FROM triggers)",
                ] {
                    transaction.prepare_cached(dependent)?.execute([])?;
                }
            }
            Ok(forgotten)
        })
        .await
    }
}

/// Adds a callback and its run, in the transaction of its caller.
pub(super) fn insert(transaction: &Transaction<'_>, new: &NewCallback) -> Result<CallbackAdded, Failure> {
    let trigger = &new.trigger;
    let mut there = transaction.prepare_cached("SELECT 1 FROM triggers WHERE id = ?1")?;
    if there.exists([trigger.id.to_string()])? {
        return Ok(CallbackAdded::Present);
    }
    let (kept, open): (i64, i64) = transaction
        .prepare_cached(COUNT)?
        .query_row([&trigger.owner, &trigger.kind], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    if kept >= new.quota.kept || open >= new.quota.open {
        return Ok(CallbackAdded::Full);
    }
    triggers::insert(transaction, trigger)?;
    triggers::insert_run(transaction, &new.run)?;
    Ok(CallbackAdded::Added)
}
