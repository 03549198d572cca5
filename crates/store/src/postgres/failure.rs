//! Failures of jobs, until they become errors of the store.

use std::error::Error as _;

use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::StoreError;

/// Why a job failed.
#[derive(Debug)]
pub(super) enum Failure {
    Store(StoreError),
    Postgres(tokio_postgres::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => error,
            Failure::Postgres(error) => Self::Database {
                reason: reason(&error),
            },
        }
    }
}

/// What the database says, without details, which can hold what is in rows.
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
pub(super) fn conflict(failure: Failure, what: &'static str, id: Uuid) -> Failure {
    match failure {
        Failure::Postgres(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
            Failure::Store(StoreError::Conflict {
                what,
                id: id.to_string(),
            })
        }
        other => other,
    }
}
