//! Connections that have not shown a right token yet. Their number is bounded, and a new one evicts the oldest: a
//! thousand idle strangers keep no client out.

use std::collections::BTreeMap;
use std::sync::Arc;

use himalia_engine::Clients;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The waiting connections, oldest first.
#[derive(Debug)]
pub(crate) struct WaitingConnections {
    max: usize,
    clients: Arc<Clients>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    connections: BTreeMap<u64, CancellationToken>,
}

impl WaitingConnections {
    /// At most `max` connections wait.
    pub(crate) fn new(max: usize, clients: Arc<Clients>) -> Self {
        Self {
            max,
            clients,
            inner: Mutex::default(),
        }
    }

    /// Adds a connection; the returned token is cancelled when it is evicted.
    pub(crate) fn enter(&self) -> (u64, CancellationToken) {
        let mut inner = self.inner.lock();
        if inner.connections.len() >= self.max
            && let Some((_, oldest)) = inner.connections.pop_first()
        {
            oldest.cancel();
            self.clients.ended("unauthenticated");
        }
        let (id, token) = (inner.next, CancellationToken::new());
        inner.next += 1;
        inner.connections.insert(id, token.clone());
        (id, token)
    }

    /// Takes a connection off: it showed a right token, or has ended.
    pub(crate) fn leave(&self, id: u64) {
        self.inner.lock().connections.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_gives_way() {
        let waiting = WaitingConnections::new(2, Arc::clone(himalia_engine::Metrics::new().clients()));
        let (first, a) = waiting.enter();
        let (_, b) = waiting.enter();
        waiting.leave(first);
        let (_, c) = waiting.enter();
        assert!(!a.is_cancelled() && !b.is_cancelled());
        let (_, d) = waiting.enter();
        assert!(b.is_cancelled() && !c.is_cancelled() && !d.is_cancelled());
        assert_eq!(waiting.inner.lock().connections.len(), 2);
    }
}
