//! Take-over: other replicas take the kernels, ended sessions and logs of a replica whose lease has ended. In each statement `$1` is the name of the replica and `$2` the epoch
//! of its process.
//!
//! A take-over marks dead replicas first: a renewal that is being made at the same time is done before, and the lease is valid then, or
//! after, and finds that it has ended. A replica that is marked lives again only when a process joins under its name, so each statement
//! holds the rows of the marked ones, which a join has to wait for. Several replicas hold them at once. What another one is just taking
//! they skip.

use std::sync::Arc;

use uuid::Uuid;

use super::connection::Param;
use super::membership::NEXT_EPOCH;
use super::{PostgresStore, rows};
use crate::sql::Row;
use crate::{DeadReplica, KernelRecord, StoreError, TakeOver, TakeOverResult};

/// The dead replicas that have something which another replica can take: kernels with a place, ended sessions with a shared log, logs of their own.
/// Only kernels and ended sessions without a shared log stay with a dead replica.
const DEAD: &str = "
SELECT r.name, ARRAY(SELECT DISTINCT k.session->>'place' FROM himalia.kernels AS k
                     WHERE k.replica = r.name AND k.session->>'place' IS NOT NULL) AS places,
       (SELECT count(DISTINCT k.sandbox_id) FROM himalia.kernels AS k
        WHERE k.replica = r.name AND k.session->>'place' IS NOT NULL) AS sandboxes
FROM himalia.replicas AS r
WHERE r.name <> $1 AND r.lease_until <= clock_timestamp() AND (
       EXISTS (SELECT 1 FROM himalia.kernels AS k WHERE k.replica = r.name AND k.session->>'place' IS NOT NULL)
    OR EXISTS (SELECT 1 FROM himalia.ended_sessions AS e WHERE e.replica = r.name
               AND (e.removed_micros IS NOT NULL OR EXISTS (SELECT 1 FROM himalia.logs AS l WHERE l.name = e.session_dir)))
    OR EXISTS (SELECT 1 FROM himalia.logs AS l WHERE l.replica = r.name
               AND NOT EXISTS (SELECT 1 FROM himalia.kernels AS k WHERE k.session_dir = l.name)
               AND NOT EXISTS (SELECT 1 FROM himalia.ended_sessions AS e
                               WHERE e.session_dir = l.name AND e.removed_micros IS NULL)))
ORDER BY r.name";

/// Ends the leases that have ended, for ever.
const MARK: &str = "
UPDATE himalia.replicas SET lease_until = '-infinity', address = NULL
WHERE name <> $1 AND lease_until <= clock_timestamp() AND lease_until > '-infinity'
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

/// A statement about the dead replicas that a common table expression names.
macro_rules! of_dead {
    ($rest:literal) => {
        concat!(
            "WITH dead AS (
                SELECT r.name FROM himalia.replicas AS r
                WHERE r.name <> $1 AND r.lease_until = '-infinity'
                  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
                FOR SHARE OF r
            ) ",
            $rest
        )
    };
}

/// The kernels of at most `$5` sandboxes with their logs: at the places `$3`, or of the replicas `$4`. The oldest kernel of a sandbox
/// stands for it, so that no two replicas take parts of one.
const KERNELS: &str = of_dead!(
    ", chosen AS (
        SELECT k.sandbox_id FROM himalia.kernels AS k JOIN dead ON k.replica = dead.name
        WHERE (k.session->>'place' = ANY($3) OR (k.session->>'place' IS NOT NULL AND k.replica = ANY($4)))
          AND NOT EXISTS (SELECT 1 FROM himalia.kernels AS older WHERE older.sandbox_id = k.sandbox_id AND older.replica = k.replica
                          AND (older.created_micros, older.id) < (k.created_micros, k.id))
        ORDER BY k.created_micros, k.id LIMIT $5
        FOR UPDATE OF k SKIP LOCKED
    ), taken AS (
        UPDATE himalia.kernels AS k SET replica = $1, fence = k.fence + 1
        FROM dead
        WHERE k.replica = dead.name AND k.sandbox_id IN (SELECT sandbox_id FROM chosen)
        RETURNING k.*, dead.name AS had
    ), logs AS (
        UPDATE himalia.logs AS l SET replica = $1, epoch = $2
        FROM taken
        WHERE l.name = taken.session_dir AND l.replica = taken.had
    )
    SELECT * FROM taken"
);

/// The kernels that this process has by a statement whose answer it did not get: a kernel that it has started has the fencing epoch 1, and
/// it knows of all others that it has. Their fencing epochs stay: no other process had them under these, and if this statement itself is
/// done late, this process may know them by then.
const UNKNOWN: &str = "
SELECT k.*, $1 AS had FROM himalia.kernels AS k
WHERE k.replica = $1 AND k.fence > 1 AND k.id <> ALL($3)
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

/// At most `$3` of them, with their logs.
const ENDED: &str = of_dead!(
    ", chosen AS (
        SELECT e.session_dir FROM himalia.ended_sessions AS e JOIN dead ON e.replica = dead.name
        WHERE e.removed_micros IS NOT NULL OR EXISTS (SELECT 1 FROM himalia.logs AS l WHERE l.name = e.session_dir)
        LIMIT $3
        FOR UPDATE OF e SKIP LOCKED
    ), logs AS (
        UPDATE himalia.logs AS l SET replica = $1, epoch = $2
        FROM dead
        WHERE l.replica = dead.name AND l.name IN (SELECT session_dir FROM chosen)
    )
    UPDATE himalia.ended_sessions AS e SET replica = $1
    FROM dead
    WHERE e.replica = dead.name AND e.session_dir IN (SELECT session_dir FROM chosen)
    RETURNING e.*"
);

/// At most `$3` logs: of kernels that waited in a pool, and of starts that were under way.
const ORPHANS: &str = of_dead!(
    ", chosen AS (
        SELECT l.name FROM himalia.logs AS l JOIN dead ON l.replica = dead.name
        WHERE NOT EXISTS (SELECT 1 FROM himalia.kernels AS k WHERE k.session_dir = l.name)
          AND NOT EXISTS (SELECT 1 FROM himalia.ended_sessions AS e
                          WHERE e.session_dir = l.name AND e.removed_micros IS NULL)
        LIMIT $3
        FOR UPDATE OF l SKIP LOCKED
    )
    UPDATE himalia.logs AS l SET replica = $1, epoch = $2
    FROM dead
    WHERE l.replica = dead.name AND l.name IN (SELECT name FROM chosen)
    RETURNING l.name"
);

const JUPYTER: &str = of_dead!(
    "UPDATE himalia.jupyter_sessions AS j SET replica = $1
    FROM dead
    WHERE j.replica = dead.name AND j.kernel_id = ANY($3)"
);

impl PostgresStore {
    pub(crate) async fn do_dead_replicas(&self) -> Result<Vec<DeadReplica>, StoreError> {
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &me.name;
                let mut dead = Vec::new();
                for row in link.query(DEAD, &[&name]).await? {
                    let sandboxes: i64 = row.try_get(2)?;
                    dead.push(DeadReplica {
                        name: row.try_get(0)?,
                        places: row.try_get(1)?,
                        sandboxes: u32::try_from(sandboxes).unwrap_or(u32::MAX),
                    });
                }
                Ok(dead)
            })
            .await
    }

    pub(crate) async fn do_take_over(&self, what: TakeOver) -> Result<TakeOverResult, StoreError> {
        self.check_lease()?;
        let (me, claims) = (self.me(), Arc::clone(&self.claims));
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &me.name;
                let mut taken = TakeOverResult::default();
                let (most, known) = (i64::from(what.most), claims.all());
                link.execute(MARK, &[&name, &me.epoch]).await?;
                let own: [Param<'_>; 3] = [&name, &me.epoch, &known];
                let mut found = link.query(UNKNOWN, &own).await?;
                let params: [Param<'_>; 5] = [&name, &me.epoch, &what.places, &what.given_up, &most];
                found.extend(link.query(KERNELS, &params).await?);
                let mut fences = Vec::new();
                for row in found {
                    let kernel: KernelRecord = Row::from_postgres(&row)?;
                    fences.push((kernel.id, rows::fence(row.try_get("fence")?)?));
                    taken.kernels.push((kernel, row.try_get("had")?));
                }
                taken
                    .kernels
                    .sort_by_key(|(kernel, _)| (kernel.created_micros, kernel.id));
                if !taken.kernels.is_empty() {
                    let row = link.query_opt(NEXT_EPOCH, &[]).await?;
                    taken.epoch = rows::replica_epoch(row.map_or(Ok(0), |row| row.try_get(0))?)?;
                }
                // Clients wait for kernels; all else is for the call that finds none.
                if taken.kernels.is_empty() {
                    let params: [Param<'_>; 3] = [&name, &me.epoch, &most];
                    for row in link.query(ENDED, &params).await? {
                        taken.ended.push(Row::from_postgres(&row)?);
                    }
                    taken.orphans = rows::objects(&link.query(ORPHANS, &params).await?)?;
                }
                // Last: after an error, the next call finds them.
                for (id, fence) in fences {
                    claims.set(id, Some(fence));
                }
                Ok(taken)
            })
            .await
    }

    pub(crate) async fn do_take_jupyter_sessions(&self, kernels: Vec<Uuid>) -> Result<usize, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &me.name;
                let count = link.execute(JUPYTER, &[&name, &me.epoch, &kernels]).await?;
                Ok(usize::try_from(count).unwrap_or(usize::MAX))
            })
            .await
    }
}
