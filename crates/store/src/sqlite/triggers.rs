//! The rows of triggers, their runs and deliveries.

use rusqlite::types::Type;
use rusqlite::{OptionalExtension as _, Row, Transaction, named_params, params};
use uuid::Uuid;

use super::SqliteStore;
use super::failure::Failure;
use crate::{
    DeliveryRecord, DueDelivery, FairBatch, OpenRun, StoreError, TriggerAdded, TriggerRecord, TriggerRun,
    TriggerRunFilter, TriggerRunState, TriggerRunsOf,
};

const INSERT: &str = "
INSERT INTO triggers (id, kind, owner, name, definition, key_id, sealed, next_micros, version, created_micros)
VALUES (:id, :kind, :owner, :name, :definition, :key_id, :sealed, :next_micros, :version, :created_micros)";

const CHANGE: &str = "
UPDATE triggers SET name = :name, definition = :definition, key_id = :key_id, sealed = :sealed, next_micros = :next_micros,
    version = version + 1
WHERE id = :id AND version = :version";

const INSERT_RUN: &str = "
INSERT INTO trigger_runs (id, trigger_id, owner, key, due_micros, state, not_before_micros, detail, claim)
VALUES (:id, :trigger, :owner, :key, :due_micros, :state, :not_before_micros, :detail, '')";

const RUN_OF_KEY: &str = "SELECT * FROM trigger_runs WHERE trigger_id = ?1 AND key = ?2";

const CHANGE_RUN: &str = "
UPDATE trigger_runs SET state = :state, not_before_micros = :not_before_micros, detail = :detail, claim = :claim
WHERE id = :id AND claim = :me AND state <> 'over'";

/// Owners take turns: the first one of each, then the second one of each.
const DUE: &str = "
SELECT triggers.* FROM triggers JOIN (
    SELECT id, row_number() OVER (PARTITION BY owner ORDER BY next_micros, id) AS place
    FROM triggers WHERE next_micros <= ?1) placed USING (id)
ORDER BY placed.place, next_micros, id LIMIT ?2";

const OPEN_RUNS: &str = "
SELECT run.*, placed.kind FROM trigger_runs run JOIN (
    SELECT open.id, triggers.kind,
        row_number() OVER (PARTITION BY open.owner, triggers.kind ORDER BY open.due_micros, open.id) AS place
    FROM trigger_runs open JOIN triggers ON triggers.id = open.trigger_id
    WHERE open.state IN ('due', 'running') AND open.not_before_micros <= ?1 AND open.claim <> ?2) placed USING (id)
WHERE placed.place <= ?3 ORDER BY placed.place, run.due_micros, run.id LIMIT ?4";

const RUNS_OF_TRIGGER: &str = "SELECT run.* FROM trigger_runs run WHERE run.trigger_id = :of";

const RUNS_OF_OWNER: &str = "
SELECT run.* FROM triggers one JOIN trigger_runs run ON run.trigger_id = one.id
WHERE one.owner = :of AND one.kind IN ('schedule', 'webhook')";

const PAGE_OF_RUNS: &str = "
AND (:due IS NULL OR run.due_micros < :due OR (run.due_micros = :due AND run.id < :id))
ORDER BY run.due_micros DESC, run.id DESC LIMIT :limit";

const IS_RUN: &str = "
SELECT 1 FROM trigger_runs run JOIN triggers ON triggers.id = run.trigger_id
WHERE run.id = ?1 AND triggers.kind IN ('schedule', 'webhook')";

const LAST_RUNS: &str = "
SELECT * FROM (
    SELECT run.*, row_number() OVER (PARTITION BY run.trigger_id ORDER BY run.due_micros DESC, run.id DESC) AS place
    FROM trigger_runs run JOIN triggers ON triggers.id = run.trigger_id
    WHERE triggers.kind = ?2 AND (?1 IS NULL OR triggers.owner = ?1))
WHERE place = 1";

const FORGET_RUNS: &str = "
DELETE FROM trigger_runs WHERE id IN (
    SELECT id FROM (
        SELECT id, state, due_micros, row_number() OVER (PARTITION BY trigger_id ORDER BY due_micros DESC, id DESC) AS place
        FROM trigger_runs)
    WHERE place > ?1 AND due_micros < ?2 AND state = 'over')";

const INSERT_DELIVERY: &str = "
INSERT INTO deliveries (id, trigger_id, run_id, owner, created_micros, next_micros, detail, claim)
VALUES (:id, :trigger, :run, :owner, :created_micros, :next_micros, :detail, '')";

const CHANGE_DELIVERY: &str = "
UPDATE deliveries SET next_micros = :next_micros, detail = :detail, claim = '' WHERE id = :id AND claim = :claim";

/// Owners take turns, and of an owner the URLs, so that one that does not answer is not before all others.
const DUE_DELIVERIES: &str = "
SELECT told.*, placed.owner AS whose, placed.kind FROM deliveries told JOIN (
    SELECT id, owner, kind, row_number() OVER (PARTITION BY owner, kind ORDER BY turn, next_micros, id) AS place FROM (
        SELECT due.id, due.next_micros, triggers.owner, triggers.kind, row_number() OVER (
            PARTITION BY triggers.owner, triggers.kind, json_extract(due.detail, '$.url') ORDER BY due.next_micros, due.id) AS turn
        FROM deliveries due JOIN triggers ON triggers.id = due.trigger_id
        WHERE due.next_micros <= ?1 AND due.claim <> ?2)) placed USING (id)
WHERE placed.place <= ?3 ORDER BY placed.place, told.next_micros, told.id LIMIT ?4";

const CLAIM_DELIVERY: &str = "
UPDATE deliveries SET claim = ?1 WHERE id = ?2 AND claim = ?3 AND claim <> ?1 AND next_micros = ?4";

impl SqliteStore {
    /// What claims of this process are written as.
    fn claimant(&self) -> String {
        format!("{}/{}", self.replica, self.inner.epoch)
    }

    pub(super) async fn do_insert_trigger(
        &self,
        record: TriggerRecord,
        most: i64,
    ) -> Result<TriggerAdded, StoreError> {
        self.write(move |transaction| {
            let (all, taken): (i64, i64) = transaction
                .prepare_cached("SELECT count(*), coalesce(sum(name = ?3), 0) FROM triggers WHERE owner = ?1 AND kind = ?2")?
                .query_row(params![record.owner, record.kind, record.name], |row| Ok((row.get(0)?, row.get(1)?)))?;
            if taken > 0 {
                return Ok(TriggerAdded::Taken);
            }
            if all >= most {
                return Ok(TriggerAdded::Full);
            }
            insert(transaction, &record)?;
            Ok(TriggerAdded::Added)
        })
        .await
    }

    pub(super) async fn do_trigger(&self, id: Uuid) -> Result<Option<TriggerRecord>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached("SELECT * FROM triggers WHERE id = ?1")?;
            Ok(select.query_row([id.to_string()], trigger).optional()?)
        })
        .await
    }

    pub(super) async fn do_triggers(
        &self,
        owner: Option<String>,
        kind: String,
    ) -> Result<Vec<TriggerRecord>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(
                "SELECT * FROM triggers WHERE kind = ?2 AND (?1 IS NULL OR owner = ?1) ORDER BY owner, name",
            )?;
            let rows = select.query_map(params![owner, kind], trigger)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_due_triggers(
        &self,
        micros: i64,
        most: i64,
    ) -> Result<Vec<TriggerRecord>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(DUE)?;
            let rows = select.query_map([micros, most], trigger)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_change_trigger(
        &self,
        record: TriggerRecord,
        run: Option<TriggerRun>,
    ) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            let changed = transaction.prepare_cached(CHANGE)?.execute(named_params! {
                ":id": record.id.to_string(),
                ":name": record.name,
                ":definition": record.definition,
                ":key_id": record.key_id,
                ":sealed": record.sealed,
                ":next_micros": record.next_micros,
                ":version": record.version,
            })?;
            if let Some(run) = run.filter(|_| changed == 1) {
                insert_run(transaction, &run)?;
            }
            Ok(changed == 1)
        })
        .await
    }

    pub(super) async fn do_delete_trigger(&self, id: Uuid) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            let id = id.to_string();
            for dependent in [
                "DELETE FROM deliveries WHERE trigger_id = ?1",
                "DELETE FROM trigger_runs WHERE trigger_id = ?1",
                "DELETE FROM prompt_answers WHERE trigger_id = ?1",
            ] {
                transaction.prepare_cached(dependent)?.execute([&id])?;
            }
            let mut delete = transaction.prepare_cached("DELETE FROM triggers WHERE id = ?1")?;
            Ok(delete.execute([&id])? == 1)
        })
        .await
    }

    pub(super) async fn do_add_trigger_run(&self, run: TriggerRun) -> Result<Option<TriggerRun>, StoreError> {
        self.write(move |transaction| {
            let mut select = transaction.prepare_cached(RUN_OF_KEY)?;
            let there = select
                .query_row(params![run.trigger.to_string(), run.key], read_run)
                .optional()?;
            if there.is_none() {
                insert_run(transaction, &run)?;
            }
            Ok(there)
        })
        .await
    }

    pub(super) async fn do_trigger_run(&self, id: Uuid) -> Result<Option<TriggerRun>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached("SELECT * FROM trigger_runs WHERE id = ?1")?;
            Ok(select.query_row([id.to_string()], read_run).optional()?)
        })
        .await
    }

    pub(super) async fn do_trigger_run_of(
        &self,
        trigger: Uuid,
        key: String,
    ) -> Result<Option<TriggerRun>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(RUN_OF_KEY)?;
            Ok(select
                .query_row(params![trigger.to_string(), key], read_run)
                .optional()?)
        })
        .await
    }

    pub(super) async fn do_trigger_runs(
        &self,
        filter: TriggerRunFilter,
    ) -> Result<Vec<TriggerRun>, StoreError> {
        self.read(move |connection| {
            let (runs, of) = match filter.of {
                TriggerRunsOf::Trigger(id) => (RUNS_OF_TRIGGER, id.to_string()),
                TriggerRunsOf::Owner(owner) => (RUNS_OF_OWNER, owner),
            };
            let mut select = connection.prepare_cached(&format!("{runs} {PAGE_OF_RUNS}"))?;
            let given = named_params! {
                ":of": of,
                ":due": filter.after.map(|(due, _)| due),
                ":id": filter.after.map(|(_, id)| id.to_string()),
                ":limit": filter.limit,
            };
            let rows = select.query_map(given, read_run)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_trigger_runs_among(&self, mut ids: Vec<Uuid>) -> Result<Vec<Uuid>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(IS_RUN)?;
            let mut found = Vec::new();
            for id in ids.drain(..) {
                if select.exists([id.to_string()])? {
                    found.push(id);
                }
            }
            Ok(found)
        })
        .await
    }

    pub(super) async fn do_last_trigger_runs(
        &self,
        owner: Option<String>,
        kind: String,
    ) -> Result<Vec<TriggerRun>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(LAST_RUNS)?;
            let rows = select.query_map(params![owner, kind], read_run)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_open_trigger_runs(
        &self,
        micros: i64,
        most: FairBatch,
    ) -> Result<Vec<OpenRun>, StoreError> {
        let me = self.claimant();
        self.read(move |connection| {
            let mut select = connection.prepare_cached(OPEN_RUNS)?;
            let rows = select.query_map(params![micros, me, most.of_one, most.all], |row| {
                Ok(OpenRun {
                    run: read_run(row)?,
                    kind: row.get("kind")?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_count_open_trigger_runs(&self, trigger: Uuid) -> Result<i64, StoreError> {
        self.read(move |connection| {
            let mut count = connection.prepare_cached(
                "SELECT count(*) FROM trigger_runs WHERE trigger_id = ?1 AND state IN ('due', 'running')",
            )?;
            Ok(count.query_row([trigger.to_string()], |row| row.get(0))?)
        })
        .await
    }

    pub(super) async fn do_claim_trigger_run(&self, id: Uuid, held: String) -> Result<bool, StoreError> {
        let me = self.claimant();
        self.write(move |transaction| {
            let mut claim = transaction.prepare_cached(
                "UPDATE trigger_runs SET claim = ?1 WHERE id = ?2 AND claim = ?3 AND claim <> ?1 AND state <> 'over'",
            )?;
            Ok(claim.execute(params![me, id.to_string(), held])? == 1)
        })
        .await
    }

    pub(super) async fn do_change_trigger_run(
        &self,
        run: TriggerRun,
        keeps: bool,
        delivery: Option<DeliveryRecord>,
    ) -> Result<bool, StoreError> {
        let me = self.claimant();
        self.write(move |transaction| {
            let changed = transaction.prepare_cached(CHANGE_RUN)?.execute(named_params! {
                ":id": run.id.to_string(),
                ":state": run.state.as_str(),
                ":not_before_micros": run.not_before_micros,
                ":detail": run.detail,
                ":claim": if keeps { &*me } else { "" },
                ":me": me,
            })?;
            if let Some(delivery) = delivery.filter(|_| changed == 1) {
                transaction
                    .prepare_cached(INSERT_DELIVERY)?
                    .execute(named_params! {
                        ":id": delivery.id.to_string(),
                        ":trigger": delivery.trigger.to_string(),
                        ":run": delivery.run.to_string(),
                        ":owner": run.owner,
                        ":created_micros": delivery.created_micros,
                        ":next_micros": delivery.next_micros,
                        ":detail": delivery.detail,
                    })?;
            }
            Ok(changed == 1)
        })
        .await
    }

    pub(super) async fn do_forget_trigger_runs(&self, keep: i64, before: i64) -> Result<usize, StoreError> {
        self.write(move |transaction| {
            let forgotten = transaction.prepare_cached(FORGET_RUNS)?.execute([keep, before])?;
            transaction
                .prepare_cached("DELETE FROM prompt_answers WHERE answered_micros < ?1")?
                .execute([before])?;
            transaction
                .prepare_cached("DELETE FROM deliveries WHERE run_id NOT IN (SELECT id FROM trigger_runs)")?
                .execute([])?;
            Ok(forgotten)
        })
        .await
    }

    pub(super) async fn do_delivery(&self, id: Uuid) -> Result<Option<DeliveryRecord>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached("SELECT * FROM deliveries WHERE id = ?1")?;
            Ok(select.query_row([id.to_string()], delivery).optional()?)
        })
        .await
    }

    pub(super) async fn do_deliveries(
        &self,
        trigger: Uuid,
        most: i64,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(
                "SELECT * FROM deliveries WHERE trigger_id = ?1 ORDER BY created_micros DESC, id DESC LIMIT ?2",
            )?;
            let rows = select.query_map(params![trigger.to_string(), most], delivery)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_due_deliveries(
        &self,
        micros: i64,
        most: FairBatch,
    ) -> Result<Vec<DueDelivery>, StoreError> {
        let me = self.claimant();
        self.read(move |connection| {
            let mut select = connection.prepare_cached(DUE_DELIVERIES)?;
            let rows = select.query_map(params![micros, me, most.of_one, most.all], |row| {
                Ok(DueDelivery {
                    record: delivery(row)?,
                    owner: row.get("whose")?,
                    kind: row.get("kind")?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_claim_delivery(
        &self,
        mut record: DeliveryRecord,
    ) -> Result<Option<DeliveryRecord>, StoreError> {
        let me = self.claimant();
        self.write(move |transaction| {
            let mut claim = transaction.prepare_cached(CLAIM_DELIVERY)?;
            let claimed = claim.execute(params![
                me,
                record.id.to_string(),
                record.claim,
                record.next_micros
            ])?;
            record.claim = me;
            Ok((claimed == 1).then_some(record))
        })
        .await
    }

    pub(super) async fn do_change_delivery(&self, record: DeliveryRecord) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            let mut change = transaction.prepare_cached(CHANGE_DELIVERY)?;
            Ok(change.execute(named_params! {
                ":id": record.id.to_string(),
                ":next_micros": record.next_micros,
                ":detail": record.detail,
                ":claim": record.claim,
            })? == 1)
        })
        .await
    }
}

pub(super) fn insert(transaction: &Transaction<'_>, record: &TriggerRecord) -> Result<(), Failure> {
    transaction.prepare_cached(INSERT)?.execute(named_params! {
        ":id": record.id.to_string(),
        ":kind": record.kind,
        ":owner": record.owner,
        ":name": record.name,
        ":definition": record.definition,
        ":key_id": record.key_id,
        ":sealed": record.sealed,
        ":next_micros": record.next_micros,
        ":version": record.version,
        ":created_micros": record.created_micros,
    })?;
    Ok(())
}

pub(super) fn insert_run(transaction: &Transaction<'_>, run: &TriggerRun) -> Result<(), Failure> {
    transaction.prepare_cached(INSERT_RUN)?.execute(named_params! {
        ":id": run.id.to_string(),
        ":trigger": run.trigger.to_string(),
        ":owner": run.owner,
        ":key": run.key,
        ":due_micros": run.due_micros,
        ":state": run.state.as_str(),
        ":not_before_micros": run.not_before_micros,
        ":detail": run.detail,
    })?;
    Ok(())
}

pub(super) fn id(row: &Row<'_>, column: &str) -> Result<Uuid, rusqlite::Error> {
    let text: String = row.get(column)?;
    Uuid::try_parse(&text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into()))
}

fn trigger(row: &Row<'_>) -> Result<TriggerRecord, rusqlite::Error> {
    Ok(TriggerRecord {
        id: id(row, "id")?,
        kind: row.get("kind")?,
        owner: row.get("owner")?,
        name: row.get("name")?,
        definition: row.get("definition")?,
        key_id: row.get("key_id")?,
        sealed: row.get("sealed")?,
        next_micros: row.get("next_micros")?,
        version: row.get("version")?,
        created_micros: row.get("created_micros")?,
    })
}

fn read_run(row: &Row<'_>) -> Result<TriggerRun, rusqlite::Error> {
    let state: String = row.get("state")?;
    Ok(TriggerRun {
        id: id(row, "id")?,
        trigger: id(row, "trigger_id")?,
        owner: row.get("owner")?,
        key: row.get("key")?,
        due_micros: row.get("due_micros")?,
        // The schema has no other texts.
        state: TriggerRunState::parse(&state).unwrap_or(TriggerRunState::Over),
        not_before_micros: row.get("not_before_micros")?,
        detail: row.get("detail")?,
        claim: row.get("claim")?,
    })
}

fn delivery(row: &Row<'_>) -> Result<DeliveryRecord, rusqlite::Error> {
    Ok(DeliveryRecord {
        id: id(row, "id")?,
        trigger: id(row, "trigger_id")?,
        run: id(row, "run_id")?,
        created_micros: row.get("created_micros")?,
        next_micros: row.get("next_micros")?,
        detail: row.get("detail")?,
        claim: row.get("claim")?,
    })
}
