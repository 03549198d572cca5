//! The turn of a start. An interpreter that starts takes a processor for as long as it takes to get ready, so the turn of a start lasts
//! until then.

use std::time::Duration;

use himalia_budget::Turn;
use himalia_kernel::Phase;
use himalia_model::{EngineError, Principal};
use tokio::time::timeout;

use crate::{SessionKernel, SessionManager};

/// Longest turn of a start after its process is there: not every kernel gets ready.
const LONGEST: Duration = Duration::from_secs(5);

impl SessionManager {
    /// The turn for a start, which may take a while to come. None comes once the gateway stops.
    pub async fn turn_to_start(&self, principal: &Principal) -> Result<Turn, EngineError> {
        tokio::select! {
            biased;
            () = self.draining.cancelled() => Err(EngineError::unavailable("the gateway is stopping")),
            turn = self.budget.coming_up(principal) => turn,
        }
    }

    /// Keeps the turn of a start until its kernel is ready or over.
    pub fn until_up(&self, handle: &SessionKernel, turn: Turn) {
        let (mut snapshot, draining) = (handle.snapshot.clone(), self.draining.clone());
        self.background.spawn(async move {
            let is_up = snapshot.wait_for(|now| now.ready || matches!(now.phase, Phase::Dead | Phase::Ended));
            tokio::select! {
                () = draining.cancelled() => {}
                // An error: its actor has ended.
                _ = timeout(LONGEST, is_up) => {}
            }
            drop(turn);
        });
    }
}
