//! The other end of a connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::waiting::Waiting;

/// Put into every request's extensions; an upgraded connection keeps it. The connection counts until the last clone
/// is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Peer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    address: SocketAddr,
    admitted: AtomicBool,
    place: u64,
    evicted: CancellationToken,
    waiting: Arc<Waiting>,
    _permit: OwnedSemaphorePermit,
}

impl Peer {
    /// A new connection, waiting to be admitted.
    pub(crate) fn new(address: SocketAddr, permit: OwnedSemaphorePermit, waiting: &Arc<Waiting>) -> Self {
        let (place, evicted) = waiting.enter();
        let (admitted, waiting) = (AtomicBool::new(false), waiting.clone());
        Self(Arc::new(Inner {
            address,
            admitted,
            place,
            evicted,
            waiting,
            _permit: permit,
        }))
    }

    /// Its address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// It showed a right token: it no longer has to give way.
    pub(crate) fn admit(&self) {
        if !self.0.admitted.swap(true, Ordering::Relaxed) {
            self.0.waiting.leave(self.0.place);
        }
    }

    /// Resolves when it has to give way to newer connections.
    pub(crate) async fn evicted(&self) {
        self.0.evicted.cancelled().await;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !*self.admitted.get_mut() {
            self.waiting.leave(self.place);
        }
    }
}
