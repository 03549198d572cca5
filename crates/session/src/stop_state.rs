//! State of the gateway's stop.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// State of a stop, which happens once.
#[derive(Default)]
pub(crate) struct StopState {
    /// Ends actors and leaves their kernels running.
    pub(crate) actors_end: CancellationToken,
    pub(crate) actors: TaskTracker,
    began: AtomicBool,
    /// Set when the kernels that were started in advance have ended, or were given up.
    pub(crate) spare_ended: OnceCell<()>,
}

impl StopState {
    /// Begins the stop; returns false if it began before.
    pub(crate) fn begin(&self) -> bool {
        !self.began.swap(true, Ordering::AcqRel)
    }
}
