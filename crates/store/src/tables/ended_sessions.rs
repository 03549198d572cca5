//! The rows of ended sessions.

use super::kernels::{explain, fenced};
use crate::claims::Fence;
use crate::failure::Failure;
use crate::sql::{Sql, any, changed, count, params, record};
use crate::{EndedRecord, Scope};

record!(EndedRecord in "ended_sessions" {
    id, owner, name, session_dir, created_micros, ended_micros, cause, removed_micros, facts
});

/// Only if the kernel was ours, or there is none.
pub(crate) const END: &str = concat!(
    fenced!("DELETE FROM himalia.kernels"),
    ";
INSERT INTO himalia.ended_sessions
    (id, owner, name, session_dir, created_micros, ended_micros, cause, removed_micros, facts{postgres , replica})
SELECT $1, $3, $4, $5, $6, $7, $8, $9, $10{postgres , {replica}}
WHERE {member} AND ({postgres {before} OR }NOT EXISTS (SELECT 1 FROM himalia.kernels WHERE id = $1))
ON CONFLICT (session_dir) DO UPDATE SET id = excluded.id, owner = excluded.owner, name = excluded.name,
    created_micros = excluded.created_micros, ended_micros = excluded.ended_micros, cause = excluded.cause,
    removed_micros = excluded.removed_micros, facts = excluded.facts{postgres , replica = excluded.replica}"
);

pub(crate) const REMOVED: &str = concat!(
    "UPDATE himalia.ended_sessions SET removed_micros = $2, facts = '{}' WHERE session_dir ",
    any!("$1"),
    "{postgres  AND replica = {replica}} AND {member}"
);

pub(crate) const FORGET: &str = "
DELETE FROM himalia.ended_sessions
WHERE removed_micros IS NOT NULL AND removed_micros < $1{postgres  AND replica = {replica}} AND {member}";

const LISTS: [&str; 2] = [
    "SELECT * FROM himalia.ended_sessions{postgres  WHERE replica = {replica}} ORDER BY ended_micros, session_dir",
    "SELECT * FROM himalia.ended_sessions ORDER BY ended_micros, session_dir",
];

pub(crate) async fn end_kernel(sql: &impl Sql, held: Fence, ended: EndedRecord) -> Result<(), Failure> {
    let fence = held.number();
    let values = params![
        ended.id,
        fence,
        ended.owner,
        ended.name,
        ended.session_dir,
        ended.created_micros,
        ended.ended_micros,
        ended.cause,
        ended.removed_micros,
        ended.facts,
    ];
    if !changed(sql, END, values).await? {
        explain(sql, held, ended.id).await?;
    }
    sql.claim(ended.id, None);
    Ok(())
}

pub(crate) async fn set_removed(sql: &impl Sql, dirs: Vec<String>, at_micros: i64) -> Result<usize, Failure> {
    count(sql, REMOVED, params![dirs, at_micros]).await
}

pub(crate) async fn forget_ended(sql: &impl Sql, micros: i64) -> Result<usize, Failure> {
    count(sql, FORGET, params![micros]).await
}

pub(crate) async fn ended_sessions(sql: &impl Sql, scope: Scope) -> Result<Vec<EndedRecord>, Failure> {
    sql.list(scope.of(LISTS), &[]).await
}
