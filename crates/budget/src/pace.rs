//! Turns of work that is done part by part.

use std::sync::Arc;

use himalia_journal::may_block;
use himalia_model::{EngineError, Principal};
use himalia_proc::with_long_slice;

use super::turns::{Turn, Turns};
use super::{HeldShare, SMALL_ANSWER, TURN};

/// Work on so many bytes is done where a blocking thread is expected.
const BLOCKING_BYTES: usize = 1 << 20;

/// A client of events: it counts as one, and takes a turn for each part of what it reads that is large or that is read from the disk.
#[derive(Debug)]
pub struct Pace {
    turns: Arc<Turns>,
    principal: Principal,
    _held: HeldShare,
}

impl Pace {
    pub(super) fn new(turns: &Arc<Turns>, principal: &Principal, held: HeldShare) -> Self {
        Self {
            turns: Arc::clone(turns),
            principal: principal.clone(),
            _held: held,
        }
    }

    /// The next turn. The number of clients is what bounds the wait.
    pub async fn turn(&self) -> Turn {
        self.turns.next_of_many(&self.principal).await
    }

    /// The same for work on so many bytes, if they are many.
    pub async fn turn_for(&self, bytes: usize) -> Option<Turn> {
        if bytes <= SMALL_ANSWER {
            return None;
        }
        Some(self.turn().await)
    }
}

/// Reading in a log that a caller waits for.
#[derive(Debug)]
pub struct Reading(Option<Turn>);

impl Reading {
    pub(super) fn new(turn: Option<Turn>) -> Self {
        Self(turn)
    }

    /// Without turns: for what no other caller waits for.
    pub fn free() -> Self {
        Self(None)
    }

    /// Between two parts: lets others have their turns.
    pub async fn go_on(&mut self) -> Result<(), EngineError> {
        // Neither a log nor a disk ever waits: let other tasks run.
        tokio::task::yield_now().await;
        if let Some(turn) = self.0.take() {
            self.0 = Some(turn.go_on(TURN).await?);
        }
        Ok(())
    }
}

/// Work on so many bytes. If they are many, it leaves its thread and its processor to others.
pub fn work<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes >= BLOCKING_BYTES {
        may_block(|| with_long_slice(work))
    } else if bytes > SMALL_ANSWER {
        with_long_slice(work)
    } else {
        work()
    }
}
