//! The check of a write to a kernel.

use rusqlite::{OptionalExtension as _, Transaction};
use uuid::Uuid;

use super::failure::Failure;
use crate::StoreError;

/// A write to a kernel under a fencing epoch; `None`: this replica never took it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) id: Uuid,
    pub(super) epoch: Option<u64>,
}

impl Claim {
    /// Refuses the write if another replica has taken the kernel since. `false`: there is no such kernel.
    pub(super) fn check(self, transaction: &Transaction<'_>) -> Result<bool, Failure> {
        let found: Option<i64> = transaction
            .prepare_cached(FENCE)?
            .query_row([self.id.to_string()], |row| row.get(0))
            .optional()?;
        match found.map(epoch).transpose()? {
            None => Ok(false),
            Some(current) if Some(current) == self.epoch => Ok(true),
            Some(current) => Err(StoreError::Fenced {
                id: self.id,
                held: self.epoch,
                current,
            }
            .into()),
        }
    }
}

/// A fencing epoch as the database has it.
pub(super) fn epoch(number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|error| StoreError::BadRow {
        table: "kernels",
        column: "fence",
        reason: error.to_string(),
    })
}

pub(super) const FENCE: &str = "SELECT fence FROM kernels WHERE id = ?1";
