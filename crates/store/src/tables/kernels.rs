//! The rows of kernels. Each change names the fencing epoch under which this replica took the kernel.

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::claims::Fence;
use crate::failure::{Failure, conflict};
use crate::sql::statement::Dialect;
use crate::sql::{Column, Param, Record as _, Row, Sql, changed, check_member, params, record};
use crate::{KernelLife, KernelRecord, Owner, RuntimePaths, Scope, StoreError};

record!(RuntimePaths in "kernels" { session_dir, sandbox_id, sandbox_key_hash, socket });

record!(Owner in "kernels" { replica, epoch as "fence" });

record!(KernelRecord in "kernels" {
    id, owner, name, created_micros, session, paths as .., incarnation, life, dead_cause
});

/// A kernel that was taken, with the fencing epoch from now on.
struct TakenKernel {
    kernel: KernelRecord,
    fence: u64,
}

record!(TakenKernel in "kernels" { kernel as .., fence });

impl Column for KernelLife {
    fn read(row: &Row<'_>, column: &'static str) -> Result<Self, Failure> {
        let text: String = row.get(column)?;
        Ok(Self::parse(&text)?)
    }
}

impl<'a> From<&'a KernelLife> for Param<'a> {
    fn from(life: &'a KernelLife) -> Self {
        Self::Text(Some(life.as_str()))
    }
}

pub(crate) const INSERT: &str = "
INSERT INTO himalia.kernels (id, owner, name, created_micros, session, session_dir, sandbox_id, sandbox_key_hash, socket,
    incarnation, life, dead_cause, replica, fence)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, {replica}, 1 WHERE {member}";

/// A change of the kernel `$1` under the fencing epoch `$2`.
macro_rules! fenced {
    ($change:literal) => {
        concat!(
            $change,
            " WHERE id = $1 AND fence = $2{postgres  AND replica = {replica}} AND {member}"
        )
    };
}
pub(super) use fenced;

pub(crate) const UPDATE: &str = fenced!(
    "UPDATE himalia.kernels SET owner = $3, name = $4, created_micros = $5, session = $6, session_dir = $7, sandbox_id = $8,
         sandbox_key_hash = $9, socket = $10, incarnation = $11, life = $12, dead_cause = $13"
);
pub(crate) const SET_LIFE: &str =
    fenced!("UPDATE himalia.kernels SET life = $3, incarnation = $4, dead_cause = $5");
pub(crate) const MOVE: &str = fenced!(
    "UPDATE himalia.kernels SET sandbox_id = $3, sandbox_key_hash = $4, socket = $5, incarnation = $6,
         life = 'starting', dead_cause = NULL, session = {postgres session || }$7"
);
pub(crate) const AMEND: &str = fenced!("UPDATE himalia.kernels SET session = {postgres session || }$3");
pub(crate) const DELETE: &str = fenced!("DELETE FROM himalia.kernels");

/// Takes the kernels of an earlier process of this replica. In a file that no other gateway has open, these are all.
const TAKE: &str = "
UPDATE himalia.kernels SET fence = fence + 1{sqlite , replica = {replica}}
WHERE {postgres replica = {replica} AND }{member} RETURNING *";

const FENCE: &str = "SELECT fence FROM himalia.kernels WHERE id = $1";

const LISTS: [&str; 2] = [
    "SELECT * FROM himalia.kernels{postgres  WHERE replica = {replica}} ORDER BY created_micros, id",
    "SELECT * FROM himalia.kernels ORDER BY created_micros, id",
];

pub(crate) async fn insert_kernel(sql: &impl Sql, kernel: KernelRecord) -> Result<(), Failure> {
    let inserted = changed(sql, INSERT, &kernel.values()).await;
    if !inserted.map_err(|failure| conflict(failure, "kernel", kernel.id))? {
        return Err(StoreError::LeaseLost.into());
    }
    sql.claim(kernel.id, Some(1));
    Ok(())
}

pub(crate) async fn take_kernels(sql: &impl Sql) -> Result<Vec<KernelRecord>, Failure> {
    let mut kernels = Vec::new();
    for taken in sql.list::<TakenKernel>(TAKE, &[]).await? {
        sql.claim(taken.kernel.id, Some(taken.fence));
        kernels.push(taken.kernel);
    }
    kernels.sort_by_key(|kernel| (kernel.created_micros, kernel.id));
    Ok(kernels)
}

pub(crate) async fn owner(sql: &impl Sql, id: Uuid) -> Result<Option<Owner>, Failure> {
    sql.one(
        "SELECT replica, fence FROM himalia.kernels WHERE id = $1",
        params![id],
    )
    .await
}

pub(crate) async fn update_kernel(
    sql: &impl Sql,
    held: Fence,
    kernel: KernelRecord,
) -> Result<bool, Failure> {
    let values = kernel.values();
    change(sql, held, kernel.id, UPDATE, values.get(1..).unwrap_or_default()).await
}

pub(crate) async fn move_kernel(
    sql: &impl Sql,
    held: Fence,
    id: Uuid,
    paths: RuntimePaths,
    incarnation: u32,
    changes: Map<String, Value>,
) -> Result<bool, Failure> {
    let session = amended(sql, id, changes).await?;
    let RuntimePaths {
        sandbox_id,
        sandbox_key_hash,
        socket,
        ..
    } = &paths;
    let values = params![sandbox_id, sandbox_key_hash, socket, incarnation, session];
    change(sql, held, id, MOVE, values).await
}

pub(crate) async fn set_kernel_life(
    sql: &impl Sql,
    held: Fence,
    id: Uuid,
    life: KernelLife,
    incarnation: u32,
    dead_cause: Option<String>,
) -> Result<bool, Failure> {
    change(sql, held, id, SET_LIFE, params![life, incarnation, dead_cause]).await
}

pub(crate) async fn amend_session(
    sql: &impl Sql,
    held: Fence,
    id: Uuid,
    changes: Map<String, Value>,
) -> Result<bool, Failure> {
    let session = amended(sql, id, changes).await?;
    change(sql, held, id, AMEND, params![session]).await
}

pub(crate) async fn delete_kernel(sql: &impl Sql, held: Fence, id: Uuid) -> Result<bool, Failure> {
    let deleted = change(sql, held, id, DELETE, &[]).await?;
    sql.claim(id, None);
    Ok(deleted)
}

pub(crate) async fn kernel(sql: &impl Sql, id: Uuid) -> Result<Option<KernelRecord>, Failure> {
    sql.one("SELECT * FROM himalia.kernels WHERE id = $1", params![id])
        .await
}

pub(crate) async fn kernels(sql: &impl Sql, scope: Scope) -> Result<Vec<KernelRecord>, Failure> {
    sql.list(scope.of(LISTS), &[]).await
}

pub(crate) async fn count_kernels(sql: &impl Sql, owner: String) -> Result<usize, Failure> {
    let count: Option<i64> = sql
        .one(
            "SELECT count(*) FROM himalia.kernels WHERE owner = $1",
            params![owner],
        )
        .await?;
    Ok(usize::try_from(count.unwrap_or(0)).unwrap_or(0))
}

/// Changes a kernel that this replica has; `false` when there is none. `values` are `$3` and what follows.
async fn change(
    sql: &impl Sql,
    held: Fence,
    id: Uuid,
    statement: &'static str,
    values: &[Param<'_>],
) -> Result<bool, Failure> {
    let fence = held.number();
    let mut all = params![id, fence].to_vec();
    all.extend(values);
    if changed(sql, statement, &all).await? {
        return Ok(true);
    }
    explain(sql, held, id).await?;
    Ok(false)
}

/// Finds the reason why a write under this fencing epoch changed no row: `Ok`, if there is no such kernel.
pub(super) async fn explain(sql: &impl Sql, held: Fence, id: Uuid) -> Result<(), Failure> {
    check_member(sql).await?;
    match sql.one::<i64>(FENCE, params![id]).await? {
        None => Ok(()),
        Some(fence) => Err(StoreError::Fenced {
            id,
            held: held.0,
            current: u64::try_from(fence).unwrap_or(0),
        }
        .into()),
    }
}

/// The value with which a statement sets members of a session: on Postgres these members, which it adds to the others.
async fn amended<S: Sql>(sql: &S, id: Uuid, changes: Map<String, Value>) -> Result<Value, Failure> {
    if S::DIALECT == Dialect::Postgres {
        return Ok(Value::Object(changes));
    }
    let kernel = kernel(sql, id).await?;
    let mut session = kernel.map_or(Value::Null, |kernel| kernel.session);
    if let Some(members) = session.as_object_mut() {
        members.extend(changes);
    }
    Ok(session)
}
