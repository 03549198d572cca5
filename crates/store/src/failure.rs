//! Failures of jobs, until they become errors of the store.

use std::error::Error as _;

use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::StoreError;

/// The reason why a job failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Store(StoreError),
    Sqlite(rusqlite::Error),
    Postgres(tokio_postgres::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        let reason = match failure {
            Failure::Store(error) => return error,
            Failure::Sqlite(error) => error.to_string(),
            Failure::Postgres(error) => reason(&error),
        };
        Self::Database { reason }
    }
}

/// The message of the database without its details, which can hold the content of rows.
fn reason(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", said.message(), said.code().code());
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}

/// A broken uniqueness rule of an insert is a [`StoreError::Conflict`].
pub(crate) fn conflict(failure: Failure, what: &'static str, id: Uuid) -> Failure {
    let broken = match &failure {
        Failure::Store(_) => false,
        Failure::Sqlite(error) => error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation),
        Failure::Postgres(error) => error.code() == Some(&SqlState::UNIQUE_VIOLATION),
    };
    if !broken {
        return failure;
    }
    StoreError::Conflict {
        what,
        id: id.to_string(),
    }
    .into()
}
