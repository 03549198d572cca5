//! The seam between tables and databases: statements that are written once, and the [`Sql`] that runs them.
//!
//! A job is an `async fn` over `&impl Sql`. On `SQLite` it runs inside one transaction on the thread of the connection, where each
//! statement is complete when it returns, so the future never waits. On Postgres it runs on the task of a connection, where each
//! statement commits by itself. A write that changes several tables is one statement there: see [`statement`].

mod param;
mod row;
pub(crate) mod statement;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

pub(crate) use param::Param;
pub(crate) use row::{Column, FromRow, Record, Row};
pub(crate) use statement::Dialect;
use uuid::Uuid;

use crate::StoreError;
use crate::failure::Failure;

/// The process of a replica, as statements name it.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) name: Arc<str>,
    pub(crate) epoch: i64,
    /// The text by which rows name the process that has claimed them.
    pub(crate) claimant: Arc<str>,
}

impl Process {
    pub(crate) fn new(name: &str, epoch: u64) -> Self {
        Self {
            name: name.into(),
            epoch: i64::try_from(epoch).unwrap_or(i64::MAX),
            claimant: format!("{name}/{epoch}").into(),
        }
    }
}

/// A connection that runs statements for a process. The text of a statement is explained in [`statement`].
pub(crate) trait Sql {
    /// The database.
    const DIALECT: Dialect;

    /// The process that runs the statements.
    fn process(&self) -> &Process;

    /// Notes, when the statements have committed, the fencing epoch under which this replica has a kernel; `None`: it does not have it any
    /// more.
    fn claim(&self, kernel: Uuid, epoch: Option<u64>);

    /// Runs a statement; gives back how many rows its last step has changed.
    fn execute(
        &self,
        statement: &'static str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<u64, Failure>> + Send;

    /// All rows of a query.
    fn list<T: FromRow>(
        &self,
        statement: &'static str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<Vec<T>, Failure>> + Send;

    /// The first row of a query, if it has any.
    fn one<T: FromRow>(
        &self,
        statement: &'static str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<Option<T>, Failure>> + Send;
}

/// Returns true if a query finds a row.
pub(crate) async fn exists(
    sql: &impl Sql,
    statement: &'static str,
    params: &[Param<'_>],
) -> Result<bool, Failure> {
    Ok(sql.one::<()>(statement, params).await?.is_some())
}

/// Runs a write; returns true if it has changed one row.
pub(crate) async fn changed(
    sql: &impl Sql,
    statement: &'static str,
    params: &[Param<'_>],
) -> Result<bool, Failure> {
    Ok(sql.execute(statement, params).await? == 1)
}

/// Runs a write; gives back how many rows it has changed.
pub(crate) async fn count(
    sql: &impl Sql,
    statement: &'static str,
    params: &[Param<'_>],
) -> Result<usize, Failure> {
    Ok(usize::try_from(sql.execute(statement, params).await?).unwrap_or(usize::MAX))
}

/// Refuses a process that is not a replica any more: a write that has changed nothing does not show why.
pub(crate) async fn check_member(sql: &impl Sql) -> Result<(), Failure> {
    if exists(sql, "SELECT 1 WHERE {member}", &[]).await? {
        return Ok(());
    }
    Err(StoreError::LeaseLost.into())
}

/// Runs a job whose statements are complete when they return.
pub(crate) fn completed<T>(job: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    match pin!(job).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => Err(StoreError::Closed.into()),
    }
}

/// The parameters of a statement, `$1` first.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::sql::Param::from(&$value)),*] };
}
pub(crate) use params;

/// Reads a record from the columns that its fields name, and lists its values in this order for a statement that writes them. A field
/// `as ..` is itself a record of the same row.
macro_rules! record {
    ($record:ident in $table:literal { $($field:ident $(as $column:tt)?),* $(,)? }) => {
        impl $crate::sql::FromRow for $record {
            const TABLE: &'static str = $table;

            fn from_row(row: &$crate::sql::Row<'_>) -> Result<Self, $crate::failure::Failure> {
                Ok(Self { $($field: $crate::sql::field!(row $field $($column)?)?),* })
            }
        }

        impl $crate::sql::Record for $record {
            fn put<'a>(&'a self, values: &mut Vec<$crate::sql::Param<'a>>) {
                $($crate::sql::put!(values self $field $($column)?);)*
            }
        }
    };
}
pub(crate) use record;

macro_rules! field {
    ($row:ident $field:ident) => {
        $row.get(stringify!($field))
    };
    ($row:ident $field:ident ..) => {
        $crate::sql::FromRow::from_row($row)
    };
    ($row:ident $field:ident $column:literal) => {
        $row.get($column)
    };
}
pub(crate) use field;

macro_rules! put {
    ($values:ident $record:ident $field:ident ..) => {
        $crate::sql::Record::put(&$record.$field, $values)
    };
    ($values:ident $record:ident $field:ident $($column:literal)?) => {
        $values.push($crate::sql::Param::from(&$record.$field))
    };
}
pub(crate) use put;

/// A condition: the value before it is an element of the list in a parameter.
macro_rules! any {
    ($param:literal) => {
        concat!(
            "{postgres = ANY(",
            $param,
            ")}{sqlite IN (SELECT value FROM json_each(",
            $param,
            "))}"
        )
    };
}
pub(crate) use any;

/// The elements of the JSON array in a parameter, as rows with one column, `value`.
macro_rules! each {
    ($param:literal) => {
        concat!(
            "{postgres jsonb_array_elements(",
            $param,
            ")}{sqlite json_each(",
            $param,
            ")}"
        )
    };
}
pub(crate) use each;
