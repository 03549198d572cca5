//! One caller at a time per name: of a path, of a session.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// Turns by name. A name is held only while a caller has or awaits a turn, so the map is as large as the number of
/// calls under way.
#[derive(Debug, Default)]
pub struct Gate {
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

/// A turn; the next caller's begins when it is dropped.
#[derive(Debug)]
pub struct Turn {
    gate: Arc<Gate>,
    name: String,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Gate {
    /// Waits for a turn on `name`.
    pub async fn enter(self: &Arc<Self>, name: &str) -> Turn {
        let lock = Arc::clone(self.turns.lock().entry(name.to_owned()).or_default());
        // Made before the wait, so that a caller that leaves while it waits cleans up too.
        let mut turn = Turn {
            gate: Arc::clone(self),
            name: name.to_owned(),
            guard: None,
        };
        turn.guard = Some(lock.lock_owned().await);
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = self.gate.turns.lock();
        self.guard = None;
        // Others hold a clone while they wait; clones are taken under the lock of the map.
        if turns
            .get(&self.name)
            .is_some_and(|lock| Arc::strong_count(lock) == 1)
        {
            turns.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_at_a_time_and_nothing_is_kept() {
        let gate = Arc::new(Gate::default());
        let first = gate.enter("a").await;
        drop(gate.enter("b").await);
        let mut second = Box::pin(gate.enter("a"));
        let pending = std::future::poll_fn(|context| {
            std::task::Poll::Ready(second.as_mut().poll(context).is_pending())
        });
        assert!(pending.await);
        drop(first);
        drop(second.await);
        let third = gate.enter("a").await;
        let mut leaves = Box::pin(gate.enter("a"));
        std::future::poll_fn(|context| std::task::Poll::Ready(leaves.as_mut().poll(context).is_pending()))
            .await;
        drop(leaves);
        drop(third);
        assert!(gate.turns.lock().is_empty());
    }
}
