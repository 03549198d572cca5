//! Why a write to a kernel did nothing.

use uuid::Uuid;

pub(super) use crate::claims::Claims;

use super::Me;
use super::connection::Link;
use super::failure::Failure;
use crate::StoreError;

/// What there is of this process and of the kernel.
const FIND: &str = "
SELECT (SELECT epoch FROM himalia.replicas WHERE name = $1),
       (SELECT fence FROM himalia.kernels WHERE id = $2)";

/// The fencing epoch of no kernel, for a write to one that this replica never took.
const NONE: i64 = 0;

/// A write to a kernel under a fencing epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) id: Uuid,
    held: Option<u64>,
}

impl Claim {
    pub(super) fn new(claims: &Claims, id: Uuid) -> Self {
        Self {
            id,
            held: claims.epoch(id),
        }
    }

    /// As statements name it.
    pub(super) fn fence(self) -> i64 {
        self.held.map_or(NONE, |held| i64::try_from(held).unwrap_or(NONE))
    }

    /// Why a write under this claim changed no row: `Ok`, if there is no such kernel.
    pub(super) async fn explain(self, link: &Link, me: &Me) -> Result<(), Failure> {
        let name: &str = &me.name;
        let Some(row) = link.query_opt(FIND, &[&name, &self.id]).await? else {
            return Ok(());
        };
        let (epoch, fence): (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        if epoch != Some(me.epoch) {
            return Err(StoreError::LeaseLost.into());
        }
        match fence {
            None => Ok(()),
            Some(fence) => Err(StoreError::Fenced {
                id: self.id,
                held: self.held,
                current: super::rows::fence(fence)?,
            }
            .into()),
        }
    }
}
