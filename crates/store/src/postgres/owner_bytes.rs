//! Bytes of the rows of owners. Triggers of the database count them.

use super::PostgresStore;
use super::connection::Link;
use super::failure::Failure;
use crate::StoreError;

const SUM: &str = "SELECT coalesce(sum(bytes), 0)::bigint FROM himalia.owner_bytes WHERE owner = $1";

const OF_RUNS: &str = "
SELECT coalesce(sum(bytes), 0)::bigint FROM himalia.owner_bytes WHERE owner = $1 AND kind = 'runs'";

/// The runs that ended first, until so many bytes are free.
const FORGET_RUNS: &str = "
WITH ended AS (
    SELECT id, sum(bytes) OVER (ORDER BY ended_micros, id) - bytes AS before
    FROM (SELECT run.id, run.ended_micros, run.row_bytes + coalesce(
              (SELECT sum(step.row_bytes) FROM himalia.workflow_steps step WHERE step.run = run.id), 0) AS bytes
          FROM himalia.workflow_runs run WHERE run.owner = $1 AND run.ended_micros IS NOT NULL) each),
gone AS (
    DELETE FROM himalia.workflow_runs WHERE id IN (SELECT id FROM ended WHERE before < $2::bigint) RETURNING id)
DELETE FROM himalia.workflow_steps WHERE run IN (SELECT id FROM gone)";

impl PostgresStore {
    pub(super) async fn do_owner_bytes(&self, owner: String) -> Result<i64, StoreError> {
        self.any_worker()?
            .run(move |link| async move { number(&link, SUM, &owner).await })
            .await
    }
}

/// Forgets runs of an owner that have ended, the first end first, if those that are kept and these bytes are more than `most`: until a
/// tenth of that is free.
pub(super) async fn forget_runs(link: &Link, owner: &str, more: i64, most: i64) -> Result<(), Failure> {
    let wanted = number(link, OF_RUNS, owner).await?.saturating_add(more);
    if wanted > most {
        let over = wanted - (most - most / 10);
        link.execute(FORGET_RUNS, &[&owner, &over]).await?;
    }
    Ok(())
}

async fn number(link: &Link, sql: &'static str, owner: &str) -> Result<i64, Failure> {
    let rows = link.query(sql, &[&owner]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(0))
}
