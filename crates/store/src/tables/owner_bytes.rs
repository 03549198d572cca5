//! Bytes of the rows of owners. Triggers of the database count them.

use crate::failure::Failure;
use crate::part::part;
use crate::sql::{Sql, any, params};

part! {
    /// The room that owners take.
    OwnerBytesStore {
        /// Bytes of an owner's rows: of skills, workflows, triggers, their runs and deliveries, credentials and access tokens.
        read fn owner_bytes(owner: String) -> i64;
    }
}

const SUM: &str = "SELECT CAST(coalesce(sum(bytes), 0) AS bigint) FROM himalia.owner_bytes WHERE owner = $1";

const OF_RUNS: &str = "
SELECT CAST(coalesce(sum(bytes), 0) AS bigint) FROM himalia.owner_bytes WHERE owner = $1 AND kind = 'runs'";

/// The runs that ended first, as many as have these bytes, with their steps.
const ENDED_RUNS: &str = "
SELECT id FROM (
    SELECT id, sum(bytes) OVER (ORDER BY ended_micros, id) - bytes AS before FROM (
        SELECT run.id, run.ended_micros, octet_length(run.principal) + octet_length(run.inputs)
            + coalesce(octet_length(run.outputs), 0) + coalesce(octet_length(run.error), 0)
            + (SELECT coalesce(sum(coalesce(octet_length(step.outputs), 0) + coalesce(octet_length(step.error), 0)
                   + coalesce(octet_length(step.prompt), 0)), 0)
               FROM himalia.workflow_steps step WHERE step.run = run.id) AS bytes
        FROM himalia.workflow_runs run WHERE run.owner = $1 AND run.ended_micros IS NOT NULL) each) placed
WHERE before < CAST($2 AS bigint)";

const FORGET_RUNS: &str = concat!(
    "DELETE FROM himalia.workflow_steps WHERE run ",
    any!("$1"),
    " AND {member}; DELETE FROM himalia.workflow_runs WHERE id ",
    any!("$1"),
    " AND {member}"
);

async fn owner_bytes(sql: &impl Sql, owner: String) -> Result<i64, Failure> {
    Ok(sql.one(SUM, params![owner]).await?.unwrap_or(0))
}

/// Forgets runs of an owner that have ended, the first end first, if the bytes of its runs are more than `most`: until a tenth of that is
/// free.
pub(super) async fn forget_runs(sql: &impl Sql, owner: &str, most: i64) -> Result<(), Failure> {
    let held: i64 = sql.one(OF_RUNS, params![owner]).await?.unwrap_or(0);
    if held <= most {
        return Ok(());
    }
    let excess = held - (most - most / 10);
    let ids: Vec<String> = sql.list(ENDED_RUNS, params![owner, excess]).await?;
    sql.execute(FORGET_RUNS, params![ids]).await.map(drop)
}
