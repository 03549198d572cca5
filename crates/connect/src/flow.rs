//! Measures how many bytes of a client's socket the client has received.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Bytes that may be on their way to a client inside of the `zeromq` crate, which bounds its queue by messages alone.
const WINDOW: u64 = 1 << 20;

/// Bytes of one connection.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    given: AtomicU64,
    taken: AtomicU64,
    moved: Notify,
}

impl Flow {
    /// The client took so many, of messages and of the handshake.
    pub(crate) fn took(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        self.moved.notify_one();
    }

    /// All that it took.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// A message with frames of these lengths was given to the socket.
    pub(crate) fn gave(&self, frames: impl Iterator<Item = usize>) {
        let on_the_wire = frames.map(|length| length as u64 + if length > 255 { 9 } else { 2 });
        self.given.fetch_add(on_the_wire.sum(), Ordering::Relaxed);
    }

    /// Waits until there is room for one more message. For one task at a time.
    pub(crate) async fn room(&self) {
        while self.given.load(Ordering::Relaxed).saturating_sub(self.taken()) >= WINDOW {
            self.moved.notified().await;
        }
    }
}
