//! The rows of ended sessions, and the room that the tables take. In each write `$1` is the name of the replica and `$2` the epoch of
//! its process.

use std::sync::Arc;

use super::claims::Claim;
use super::connection::Param;
use super::rows;
use super::{Lists, PostgresStore};
use crate::{EndedRecord, Scope, Space, StoreError};

/// Only if the kernel was ours, or there is none.
const END: &str = "
WITH gone AS (
    DELETE FROM himalia.kernels
    WHERE id = $3 AND fence = $4 AND replica = $1
      AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
    RETURNING id
)
INSERT INTO himalia.ended_sessions
    (session_dir, id, owner, name, created_micros, ended_micros, cause, removed_micros, facts, replica)
SELECT $5, $3, $6, $7, $8, $9, $10, $11, $12, $1
WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
  AND (EXISTS (SELECT 1 FROM gone) OR NOT EXISTS (SELECT 1 FROM himalia.kernels WHERE id = $3))
ON CONFLICT (session_dir) DO UPDATE SET id = excluded.id, owner = excluded.owner, name = excluded.name,
    created_micros = excluded.created_micros, ended_micros = excluded.ended_micros, cause = excluded.cause,
    removed_micros = excluded.removed_micros, facts = excluded.facts, replica = excluded.replica";

const REMOVED: &str = "
UPDATE himalia.ended_sessions SET removed_micros = $4, facts = '{}'
WHERE session_dir = ANY($3) AND replica = $1
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const FORGET: &str = "
DELETE FROM himalia.ended_sessions
WHERE removed_micros IS NOT NULL AND removed_micros < $3 AND replica = $1
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const LISTS: Lists = Lists {
    own: "SELECT * FROM himalia.ended_sessions WHERE replica = $1 ORDER BY ended_micros, session_dir",
    all: "SELECT * FROM himalia.ended_sessions ORDER BY ended_micros, session_dir",
};

const SPACE: &str = "
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = 'himalia' AND c.relkind = 'r'";

impl PostgresStore {
    pub(super) async fn do_end_kernel(&self, ended: EndedRecord) -> Result<(), StoreError> {
        self.check_lease()?;
        let (me, claims) = (self.me(), Arc::clone(&self.claims));
        let claim = Claim::new(&claims, ended.id);
        self.worker_of(ended.id)?
            .run(move |link| async move {
                let name: &str = &me.name;
                let fence = claim.fence();
                let params: [Param<'_>; 12] = [
                    &name,
                    &me.epoch,
                    &ended.id,
                    &fence,
                    &ended.session_dir,
                    &ended.owner,
                    &ended.name,
                    &ended.created_micros,
                    &ended.ended_micros,
                    &ended.cause,
                    &ended.removed_micros,
                    &ended.facts,
                ];
                if link.execute(END, &params).await? == 0 {
                    claim.explain(&link, &me).await?;
                }
                claims.remove(ended.id);
                Ok(())
            })
            .await
    }

    pub(super) async fn do_set_removed(
        &self,
        dirs: Vec<String>,
        at_micros: i64,
    ) -> Result<usize, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &me.name;
                let count = link
                    .execute(REMOVED, &[&name, &me.epoch, &dirs, &at_micros])
                    .await?;
                Ok(usize::try_from(count).unwrap_or(usize::MAX))
            })
            .await
    }

    pub(super) async fn do_forget_ended(&self, micros: i64) -> Result<usize, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &me.name;
                let count = link.execute(FORGET, &[&name, &me.epoch, &micros]).await?;
                Ok(usize::try_from(count).unwrap_or(usize::MAX))
            })
            .await
    }

    pub(super) async fn do_ended_sessions(&self, scope: Scope) -> Result<Vec<EndedRecord>, StoreError> {
        self.do_list(scope, LISTS, rows::ended).await
    }

    pub(super) async fn do_space(&self) -> Result<Space, StoreError> {
        self.any_worker()?
            .run(|link| async move {
                let row = link.query_opt(SPACE, &[]).await?;
                let bytes: i64 = row.map_or(Ok(0), |row| row.try_get(0))?;
                Ok(Space {
                    total_bytes: u64::try_from(bytes).unwrap_or(0),
                    free_bytes: 0,
                })
            })
            .await
    }
}
