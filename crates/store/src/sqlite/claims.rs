//! What this replica has taken, and under which fencing epochs.

use std::collections::HashMap;

use parking_lot::Mutex;
use rusqlite::{OptionalExtension as _, Transaction};
use uuid::Uuid;

use super::failure::Failure;
use crate::StoreError;

/// The fencing epochs of the kernels that this replica inserted or took.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<HashMap<Uuid, u64>>);

impl Claims {
    pub(super) fn set(&self, id: Uuid, epoch: u64) {
        self.0.lock().insert(id, epoch);
    }

    pub(super) fn remove(&self, id: Uuid) {
        self.0.lock().remove(&id);
    }

    /// What a write to this kernel must find.
    pub(super) fn of(&self, id: Uuid) -> Claim {
        Claim {
            id,
            epoch: self.0.lock().get(&id).copied(),
        }
    }
}

/// A write to a kernel under a fencing epoch; `None`: this replica never took it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    id: Uuid,
    epoch: Option<u64>,
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
