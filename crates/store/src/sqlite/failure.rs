//! Failures of jobs, until they become errors of the store.

use uuid::Uuid;

use crate::StoreError;

/// Why a job failed.
#[derive(Debug)]
pub(super) enum Failure {
    Store(StoreError),
    Sqlite(rusqlite::Error),
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

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => error,
            Failure::Sqlite(error) => Self::Database {
                reason: error.to_string(),
            },
        }
    }
}

/// A broken uniqueness rule of an insert is a [`StoreError::Conflict`].
pub(super) fn conflict(failure: Failure, what: &'static str, id: Uuid) -> Failure {
    match failure {
        Failure::Sqlite(error)
            if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) =>
        {
            Failure::Store(StoreError::Conflict {
                what,
                id: id.to_string(),
            })
        }
        other => other,
    }
}
