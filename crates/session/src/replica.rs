//! State of this gateway as one replica of several.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use crate::start::TakeOvers;

/// Epoch, take-overs and the number of replicas. A gateway without a shared store is the only replica.
pub(crate) struct Replica {
    /// Epoch that shims see; increases at each take-over.
    link_epoch: AtomicU64,
    /// Sessions that are being taken over from other replicas.
    pub(crate) take_overs: TakeOvers,
    /// Number of live replicas, with this one.
    pub(crate) living: watch::Sender<u32>,
}

impl Replica {
    pub(crate) fn new(epoch: u64) -> Self {
        Self {
            link_epoch: AtomicU64::new(epoch),
            take_overs: TakeOvers::default(),
            living: watch::Sender::new(1),
        }
    }

    /// The epoch for the links of a new sandbox.
    pub(crate) fn link_epoch(&self) -> u64 {
        self.link_epoch.load(Ordering::Acquire)
    }

    /// Raises the epoch for the links of later sandboxes.
    pub(crate) fn raise_link_epoch(&self, epoch: u64) {
        self.link_epoch.fetch_max(epoch, Ordering::AcqRel);
    }
}
