//! The rows of triggers, their runs and deliveries, which all replicas share.

use tokio_postgres::Row;
use uuid::Uuid;

use super::connection::Param;
use super::failure::Failure;
use super::membership::check_member;
use super::{Me, PostgresStore};
use crate::{
    DeliveryRecord, DueDelivery, FairBatch, OpenRun, StoreError, TriggerAdded, TriggerRecord, TriggerRun,
    TriggerRunFilter, TriggerRunState, TriggerRunsOf,
};

const TIME: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros";

/// Two replicas that add at once can exceed the number, each by one.
const INSERT: &str = "
INSERT INTO himalia.triggers (id, kind, owner, name, definition, key_id, sealed, next_micros, version, created_micros)
SELECT $3, $4, $5, $6, $7, $8, $9, $10, $11, $12
WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
  AND (SELECT count(*) < $13::bigint FROM himalia.triggers WHERE owner = $5 AND kind = $4)
ON CONFLICT DO NOTHING";

const NAMED: &str = "SELECT 1 FROM himalia.triggers WHERE owner = $1 AND kind = $2 AND name = $3";

const ONE: &str = "SELECT * FROM himalia.triggers WHERE id = $1";

const ALL: &str = "
SELECT * FROM himalia.triggers WHERE kind = $2 AND ($1::text IS NULL OR owner = $1) ORDER BY owner, name";

/// Owners take turns: the first one of each, then the second one of each.
const DUE: &str = "
SELECT triggers.* FROM himalia.triggers JOIN (
    SELECT id, row_number() OVER (PARTITION BY owner ORDER BY next_micros, id) AS place
    FROM himalia.triggers WHERE next_micros <= $1) placed USING (id)
ORDER BY placed.place, next_micros, id LIMIT $2";

const CHANGE: &str = "
UPDATE himalia.triggers SET name = $4, definition = $5, key_id = $6, sealed = $7, next_micros = $8, version = version + 1
WHERE id = $3 AND version = $9 AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const CHANGE_AND_RUN: &str = "
WITH changed AS (
    UPDATE himalia.triggers SET name = $4, definition = $5, key_id = $6, sealed = $7, next_micros = $8, version = version + 1
    WHERE id = $3 AND version = $9 AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
    RETURNING id)
INSERT INTO himalia.trigger_runs (id, trigger_id, owner, key, due_micros, state, not_before_micros, detail, claim)
SELECT $10::uuid, changed.id, $11::text, $12::text, $13::bigint, $14::text, $15::bigint, $16::text, '' FROM changed";

const DELETE: &str = "
WITH gone AS (
    DELETE FROM himalia.triggers
    WHERE id = $3 AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
    RETURNING id),
runs AS (DELETE FROM himalia.trigger_runs WHERE trigger_id IN (SELECT id FROM gone)),
answers AS (DELETE FROM himalia.prompt_answers WHERE trigger_id IN (SELECT id FROM gone)),
told AS (DELETE FROM himalia.deliveries WHERE trigger_id IN (SELECT id FROM gone))
SELECT id FROM gone";

const ADD_RUN: &str = "
INSERT INTO himalia.trigger_runs (id, trigger_id, owner, key, due_micros, state, not_before_micros, detail, claim)
SELECT $3, $4, $5, $6, $7, $8, $9, $10, ''
WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
ON CONFLICT (trigger_id, key) DO NOTHING";

const RUN_OF_KEY: &str = "SELECT * FROM himalia.trigger_runs WHERE trigger_id = $1 AND key = $2";

const ONE_RUN: &str = "SELECT * FROM himalia.trigger_runs WHERE id = $1";

const RUNS_OF_TRIGGER: &str = "
SELECT run.* FROM himalia.trigger_runs run WHERE run.trigger_id = $1
    AND ($2::bigint IS NULL OR (run.due_micros, run.id) < ($2, $3::uuid))
ORDER BY run.due_micros DESC, run.id DESC LIMIT $4";

const RUNS_OF_OWNER: &str = "
SELECT run.* FROM himalia.triggers one JOIN himalia.trigger_runs run ON run.trigger_id = one.id
WHERE one.owner = $1 AND one.kind IN ('schedule', 'webhook')
    AND ($2::bigint IS NULL OR (run.due_micros, run.id) < ($2, $3::uuid))
ORDER BY run.due_micros DESC, run.id DESC LIMIT $4";

const RUNS_AMONG: &str = "
SELECT run.id FROM himalia.trigger_runs run JOIN himalia.triggers one ON one.id = run.trigger_id
WHERE run.id = ANY($1) AND one.kind IN ('schedule', 'webhook')";

const LAST_RUNS: &str = "
SELECT DISTINCT ON (run.trigger_id) run.*
FROM himalia.trigger_runs run JOIN himalia.triggers ON triggers.id = run.trigger_id
WHERE triggers.kind = $2 AND ($1::text IS NULL OR triggers.owner = $1)
ORDER BY run.trigger_id, run.due_micros DESC, run.id DESC";

/// What a process has claimed whose lease has ended, or that was followed by another of its name, is free.
const OPEN_RUNS: &str = "
SELECT run.*, placed.kind FROM himalia.trigger_runs run JOIN (
    SELECT open.id, triggers.kind,
        row_number() OVER (PARTITION BY open.owner, triggers.kind ORDER BY open.due_micros, open.id) AS place
    FROM himalia.trigger_runs open JOIN himalia.triggers ON triggers.id = open.trigger_id
    WHERE open.state IN ('due', 'running') AND open.not_before_micros <= $1
      AND NOT EXISTS (SELECT 1 FROM himalia.replicas r
                      WHERE r.name || '/' || r.epoch = open.claim AND r.lease_until > clock_timestamp())) placed USING (id)
WHERE placed.place <= $2 ORDER BY placed.place, run.due_micros, run.id LIMIT $3";

const COUNT_OPEN: &str = "
SELECT count(*) FROM himalia.trigger_runs WHERE trigger_id = $1 AND state IN ('due', 'running')";

const CLAIM_RUN: &str = "
UPDATE himalia.trigger_runs SET claim = $5
WHERE id = $3 AND claim = $4 AND claim <> $5 AND state <> 'over'
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const CHANGE_RUN: &str = "
UPDATE himalia.trigger_runs SET state = $4, not_before_micros = $5, detail = $6, claim = $7
WHERE id = $3 AND claim = $8 AND state <> 'over'
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const CHANGE_RUN_AND_TELL: &str = "
WITH changed AS (
    UPDATE himalia.trigger_runs SET state = $4, not_before_micros = $5, detail = $6, claim = $7
    WHERE id = $3 AND claim = $8 AND state <> 'over'
      AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
    RETURNING id, owner)
INSERT INTO himalia.deliveries (id, trigger_id, run_id, owner, created_micros, next_micros, detail, claim)
SELECT $9::uuid, $10::uuid, changed.id, changed.owner, $11::bigint, $12::bigint, $13::text, '' FROM changed";

const FORGET_RUNS: &str = "
DELETE FROM himalia.trigger_runs WHERE id IN (
    SELECT id FROM (
        SELECT id, state, due_micros, row_number() OVER (PARTITION BY trigger_id ORDER BY due_micros DESC, id DESC) AS place
        FROM himalia.trigger_runs) placed
    WHERE place > $3 AND due_micros < $4 AND state = 'over')
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const FORGET_DELIVERIES: &str = "
DELETE FROM himalia.deliveries WHERE NOT EXISTS (SELECT 1 FROM himalia.trigger_runs run WHERE run.id = run_id)
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const FORGET_ANSWERS: &str = "
DELETE FROM himalia.prompt_answers WHERE answered_micros < $3
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const ONE_DELIVERY: &str = "SELECT * FROM himalia.deliveries WHERE id = $1";

const DELIVERIES: &str = "
SELECT * FROM himalia.deliveries WHERE trigger_id = $1 ORDER BY created_micros DESC, id DESC LIMIT $2";

/// Owners take turns, and of an owner the URLs, so that one that does not answer is not before all others.
const DUE_DELIVERIES: &str = "
SELECT told.*, placed.owner AS whose, placed.kind FROM himalia.deliveries told JOIN (
    SELECT id, owner, kind, row_number() OVER (PARTITION BY owner, kind ORDER BY turn, next_micros, id) AS place FROM (
        SELECT due.id, due.next_micros, triggers.owner, triggers.kind, row_number() OVER (
            PARTITION BY triggers.owner, triggers.kind, due.detail::json ->> 'url' ORDER BY due.next_micros, due.id) AS turn
        FROM himalia.deliveries due JOIN himalia.triggers ON triggers.id = due.trigger_id
        WHERE due.next_micros <= $1
          AND NOT EXISTS (SELECT 1 FROM himalia.replicas r
                          WHERE r.name || '/' || r.epoch = due.claim AND r.lease_until > clock_timestamp())) turns) placed USING (id)
WHERE placed.place <= $2 ORDER BY placed.place, told.next_micros, told.id LIMIT $3";

const CLAIM_DELIVERY: &str = "
UPDATE himalia.deliveries SET claim = $5
WHERE id = $3 AND claim = $4 AND claim <> $5 AND next_micros = $6
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const CHANGE_DELIVERY: &str = "
UPDATE himalia.deliveries SET next_micros = $4, detail = $5, claim = ''
WHERE id = $3 AND claim = $6 AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

/// What claims of this process are written as.
fn claimant(me: &Me) -> String {
    format!("{}/{}", me.name, me.epoch)
}

impl PostgresStore {
    /// Changes rows by one statement, whose first two parameters are this process; gives back how many.
    pub(super) async fn changed<F>(&self, sql: &'static str, params: F) -> Result<u64, StoreError>
    where
        F: FnOnce(&Me) -> Vec<Box<dyn tokio_postgres::types::ToSql + Send + Sync>> + Send + 'static,
    {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let owned = params(&me);
                let name: &str = &me.name;
                let mut all: Vec<Param<'_>> = vec![&name, &me.epoch];
                all.extend(owned.iter().map(|one| &**one as Param<'_>));
                link.execute(sql, &all).await
            })
            .await
    }

    pub(super) async fn do_shared_time(&self) -> Result<Option<i64>, StoreError> {
        self.any_worker()?
            .run(|link| async move {
                let rows = link.query(TIME, &[]).await?;
                let first = rows.first().map(|row| row.try_get("micros"));
                Ok(first.transpose()?)
            })
            .await
    }

    pub(super) async fn do_insert_trigger(
        &self,
        record: TriggerRecord,
        most: i64,
    ) -> Result<TriggerAdded, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let sealed: &[u8] = &record.sealed;
                let params: &[Param<'_>] = &[
                    &replica,
                    &me.epoch,
                    &record.id,
                    &record.kind,
                    &record.owner,
                    &record.name,
                    &record.definition,
                    &record.key_id,
                    &sealed,
                    &record.next_micros,
                    &record.version,
                    &record.created_micros,
                    &most,
                ];
                if link.execute(INSERT, params).await? == 1 {
                    return Ok(TriggerAdded::Added);
                }
                let named = link
                    .query(NAMED, &[&record.owner, &record.kind, &record.name])
                    .await?;
                if !named.is_empty() {
                    return Ok(TriggerAdded::Taken);
                }
                check_member(&link, &me).await?;
                Ok(TriggerAdded::Full)
            })
            .await
    }

    pub(super) async fn do_trigger(&self, id: Uuid) -> Result<Option<TriggerRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move { link.query(ONE, &[&id]).await?.first().map(trigger).transpose() })
            .await
    }

    pub(super) async fn do_triggers(
        &self,
        owner: Option<String>,
        kind: String,
    ) -> Result<Vec<TriggerRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                link.query(ALL, &[&owner, &kind])
                    .await?
                    .iter()
                    .map(trigger)
                    .collect()
            })
            .await
    }

    pub(super) async fn do_due_triggers(
        &self,
        micros: i64,
        most: i64,
    ) -> Result<Vec<TriggerRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                link.query(DUE, &[&micros, &most])
                    .await?
                    .iter()
                    .map(trigger)
                    .collect()
            })
            .await
    }

    pub(super) async fn do_change_trigger(
        &self,
        record: TriggerRecord,
        run: Option<TriggerRun>,
    ) -> Result<bool, StoreError> {
        let sql = if run.is_some() { CHANGE_AND_RUN } else { CHANGE };
        let changed = self.changed(sql, move |_| {
            let mut params: Vec<Box<dyn tokio_postgres::types::ToSql + Send + Sync>> = vec![
                Box::new(record.id),
                Box::new(record.name),
                Box::new(record.definition),
                Box::new(record.key_id),
                Box::new(record.sealed),
                Box::new(record.next_micros),
                Box::new(record.version),
            ];
            if let Some(run) = run {
                params.push(Box::new(run.id));
                params.push(Box::new(run.owner));
                params.push(Box::new(run.key));
                params.push(Box::new(run.due_micros));
                params.push(Box::new(run.state.as_str()));
                params.push(Box::new(run.not_before_micros));
                params.push(Box::new(run.detail));
            }
            params
        });
        Ok(changed.await? == 1)
    }

    pub(super) async fn do_delete_trigger(&self, id: Uuid) -> Result<bool, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let gone = link.query(DELETE, &[&replica, &me.epoch, &id]).await?;
                Ok(!gone.is_empty())
            })
            .await
    }

    pub(super) async fn do_add_trigger_run(&self, run: TriggerRun) -> Result<Option<TriggerRun>, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let state = run.state.as_str();
                let params: &[Param<'_>] = &[
                    &replica,
                    &me.epoch,
                    &run.id,
                    &run.trigger,
                    &run.owner,
                    &run.key,
                    &run.due_micros,
                    &state,
                    &run.not_before_micros,
                    &run.detail,
                ];
                if link.execute(ADD_RUN, params).await? == 1 {
                    return Ok(None);
                }
                let there = link.query(RUN_OF_KEY, &[&run.trigger, &run.key]).await?;
                match there.first() {
                    Some(row) => Ok(Some(read_run(row)?)),
                    None => Err(StoreError::LeaseLost.into()),
                }
            })
            .await
    }

    pub(super) async fn do_trigger_run(&self, id: Uuid) -> Result<Option<TriggerRun>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                link.query(ONE_RUN, &[&id])
                    .await?
                    .first()
                    .map(read_run)
                    .transpose()
            })
            .await
    }

    pub(super) async fn do_trigger_run_of(
        &self,
        trigger: Uuid,
        key: String,
    ) -> Result<Option<TriggerRun>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let found = link.query(RUN_OF_KEY, &[&trigger, &key]).await?;
                found.first().map(read_run).transpose()
            })
            .await
    }

    pub(super) async fn do_trigger_runs(
        &self,
        filter: TriggerRunFilter,
    ) -> Result<Vec<TriggerRun>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let (due, id) = filter.after.unzip();
                let rows = match &filter.of {
                    TriggerRunsOf::Trigger(of) => {
                        link.query(RUNS_OF_TRIGGER, &[of, &due, &id, &filter.limit])
                            .await?
                    }
                    TriggerRunsOf::Owner(of) => {
                        link.query(RUNS_OF_OWNER, &[of, &due, &id, &filter.limit]).await?
                    }
                };
                rows.iter().map(read_run).collect()
            })
            .await
    }

    pub(super) async fn do_trigger_runs_among(&self, ids: Vec<Uuid>) -> Result<Vec<Uuid>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let rows = link.query(RUNS_AMONG, &[&ids]).await?;
                rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
            })
            .await
    }

    pub(super) async fn do_last_trigger_runs(
        &self,
        owner: Option<String>,
        kind: String,
    ) -> Result<Vec<TriggerRun>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                link.query(LAST_RUNS, &[&owner, &kind])
                    .await?
                    .iter()
                    .map(read_run)
                    .collect()
            })
            .await
    }

    pub(super) async fn do_open_trigger_runs(
        &self,
        micros: i64,
        most: FairBatch,
    ) -> Result<Vec<OpenRun>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                link.query(OPEN_RUNS, &[&micros, &most.of_one, &most.all])
                    .await?
                    .iter()
                    .map(|row| {
                        Ok(OpenRun {
                            run: read_run(row)?,
                            kind: row.try_get("kind")?,
                        })
                    })
                    .collect()
            })
            .await
    }

    pub(super) async fn do_count_open_trigger_runs(&self, trigger: Uuid) -> Result<i64, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let rows = link.query(COUNT_OPEN, &[&trigger]).await?;
                Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(0))
            })
            .await
    }

    pub(super) async fn do_claim_trigger_run(&self, id: Uuid, held: String) -> Result<bool, StoreError> {
        let changed = self.changed(CLAIM_RUN, move |me| {
            vec![Box::new(id), Box::new(held), Box::new(claimant(me))]
        });
        Ok(changed.await? == 1)
    }

    pub(super) async fn do_change_trigger_run(
        &self,
        run: TriggerRun,
        keeps: bool,
        delivery: Option<DeliveryRecord>,
    ) -> Result<bool, StoreError> {
        let sql = if delivery.is_some() {
            CHANGE_RUN_AND_TELL
        } else {
            CHANGE_RUN
        };
        let changed = self.changed(sql, move |me| {
            let mine = claimant(me);
            let mut params: Vec<Box<dyn tokio_postgres::types::ToSql + Send + Sync>> = vec![
                Box::new(run.id),
                Box::new(run.state.as_str()),
                Box::new(run.not_before_micros),
                Box::new(run.detail),
                Box::new(if keeps { mine.clone() } else { String::new() }),
                Box::new(mine),
            ];
            if let Some(delivery) = delivery {
                params.push(Box::new(delivery.id));
                params.push(Box::new(delivery.trigger));
                params.push(Box::new(delivery.created_micros));
                params.push(Box::new(delivery.next_micros));
                params.push(Box::new(delivery.detail));
            }
            params
        });
        Ok(changed.await? == 1)
    }

    pub(super) async fn do_forget_trigger_runs(&self, keep: i64, before: i64) -> Result<usize, StoreError> {
        let forgotten = self.changed(FORGET_RUNS, move |_| vec![Box::new(keep), Box::new(before)]);
        let forgotten = forgotten.await?;
        self.changed(FORGET_DELIVERIES, |_| Vec::new()).await?;
        self.changed(FORGET_ANSWERS, move |_| vec![Box::new(before)])
            .await?;
        Ok(usize::try_from(forgotten).unwrap_or(usize::MAX))
    }

    pub(super) async fn do_delivery(&self, id: Uuid) -> Result<Option<DeliveryRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                link.query(ONE_DELIVERY, &[&id])
                    .await?
                    .first()
                    .map(delivery)
                    .transpose()
            })
            .await
    }

    pub(super) async fn do_deliveries(
        &self,
        trigger: Uuid,
        most: i64,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                link.query(DELIVERIES, &[&trigger, &most])
                    .await?
                    .iter()
                    .map(delivery)
                    .collect()
            })
            .await
    }

    pub(super) async fn do_due_deliveries(
        &self,
        micros: i64,
        most: FairBatch,
    ) -> Result<Vec<DueDelivery>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                link.query(DUE_DELIVERIES, &[&micros, &most.of_one, &most.all])
                    .await?
                    .iter()
                    .map(|row| {
                        Ok(DueDelivery {
                            record: delivery(row)?,
                            owner: row.try_get("whose")?,
                            kind: row.try_get("kind")?,
                        })
                    })
                    .collect()
            })
            .await
    }

    pub(super) async fn do_claim_delivery(
        &self,
        record: DeliveryRecord,
    ) -> Result<Option<DeliveryRecord>, StoreError> {
        let mine = claimant(&self.me());
        let (id, held, next, claim) = (record.id, record.claim.clone(), record.next_micros, mine.clone());
        let changed = self.changed(CLAIM_DELIVERY, move |_| {
            vec![Box::new(id), Box::new(held), Box::new(claim), Box::new(next)]
        });
        let claimed = DeliveryRecord {
            claim: mine,
            ..record
        };
        Ok((changed.await? == 1).then_some(claimed))
    }

    pub(super) async fn do_change_delivery(&self, record: DeliveryRecord) -> Result<bool, StoreError> {
        let changed = self.changed(CHANGE_DELIVERY, move |_| {
            vec![
                Box::new(record.id),
                Box::new(record.next_micros),
                Box::new(record.detail),
                Box::new(record.claim),
            ]
        });
        Ok(changed.await? == 1)
    }
}

fn trigger(row: &Row) -> Result<TriggerRecord, Failure> {
    Ok(TriggerRecord {
        id: row.try_get("id")?,
        kind: row.try_get("kind")?,
        owner: row.try_get("owner")?,
        name: row.try_get("name")?,
        definition: row.try_get("definition")?,
        key_id: row.try_get("key_id")?,
        sealed: row.try_get("sealed")?,
        next_micros: row.try_get("next_micros")?,
        version: row.try_get("version")?,
        created_micros: row.try_get("created_micros")?,
    })
}

fn read_run(row: &Row) -> Result<TriggerRun, Failure> {
    let state: String = row.try_get("state")?;
    Ok(TriggerRun {
        id: row.try_get("id")?,
        trigger: row.try_get("trigger_id")?,
        owner: row.try_get("owner")?,
        key: row.try_get("key")?,
        due_micros: row.try_get("due_micros")?,
        // The schema has no other texts.
        state: TriggerRunState::parse(&state).unwrap_or(TriggerRunState::Over),
        not_before_micros: row.try_get("not_before_micros")?,
        detail: row.try_get("detail")?,
        claim: row.try_get("claim")?,
    })
}

fn delivery(row: &Row) -> Result<DeliveryRecord, Failure> {
    Ok(DeliveryRecord {
        id: row.try_get("id")?,
        trigger: row.try_get("trigger_id")?,
        run: row.try_get("run_id")?,
        created_micros: row.try_get("created_micros")?,
        next_micros: row.try_get("next_micros")?,
        detail: row.try_get("detail")?,
        claim: row.try_get("claim")?,
    })
}
