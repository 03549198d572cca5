//! Messages that wait for one ZMQ client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::flow::Flow;

/// Bytes that may wait for one client. A message that is larger waits alone.
const HELD_BYTES: usize = 64 << 20;
/// Counted for each message on top of its frames.
const MESSAGE_BYTES: usize = 256;
/// Time after which a client that reads nothing, and for which all others wait, loses its connection.
const STALL: Duration = Duration::from_secs(30);

pub(crate) type Frames = Vec<Bytes>;

/// The end at which messages are put in.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: mpsc::UnboundedSender<Frames>,
    held: Arc<AtomicUsize>,
    taken: Arc<Notify>,
    flow: Arc<Flow>,
    /// Ends the connection.
    cut: CancellationToken,
}

/// The end at which one task takes them.
#[derive(Debug)]
pub(crate) struct OutboxReceiver {
    queue: mpsc::UnboundedReceiver<Frames>,
    held: Arc<AtomicUsize>,
    taken: Arc<Notify>,
}

/// An empty one. `cut` is cancelled for a client that takes nothing.
pub(crate) fn outbox(flow: Arc<Flow>, cut: CancellationToken) -> (Outbox, OutboxReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let (held, taken) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let waiting = OutboxReceiver {
        queue: receiver,
        held: Arc::clone(&held),
        taken: Arc::clone(&taken),
    };
    let outbox = Outbox {
        queue: sender,
        held,
        taken,
        flow,
        cut,
    };
    (outbox, waiting)
}

fn weight(frames: &Frames) -> usize {
    frames.iter().map(Bytes::len).sum::<usize>() + MESSAGE_BYTES
}

impl Outbox {
    /// Waits for room, and puts a message in. Of a client that is gone, or goes now because it takes nothing, it is dropped. For one task
    /// at a time.
    pub(crate) async fn put(&self, frames: Frames) {
        let weight = weight(&frames);
        while !self.has_room(weight) && !self.cut.is_cancelled() {
            let before = self.flow.taken();
            let moved = tokio::select! {
                moved = tokio::time::timeout(STALL, self.taken.notified()) => moved.is_ok(),
                () = self.cut.cancelled() => return,
            };
            if !moved && self.flow.taken() == before {
                self.cut.cancel();
            }
        }
        self.held.fetch_add(weight, Ordering::Relaxed);
        // An error says that the connection has ended.
        let _ = self.queue.send(frames);
    }

    fn has_room(&self, weight: usize) -> bool {
        let held = self.held.load(Ordering::Relaxed);
        held == 0 || held.saturating_add(weight) <= HELD_BYTES
    }

    /// The connection ended.
    pub(crate) fn close(&self) {
        self.cut.cancel();
    }
}

impl OutboxReceiver {
    /// The next message; it counts until [`OutboxReceiver::done`]. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Frames> {
        self.queue.recv().await
    }

    /// A message of these lengths was given to the socket.
    pub(crate) fn done(&self, frames: usize) {
        self.held.fetch_sub(frames + MESSAGE_BYTES, Ordering::Relaxed);
        self.taken.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> Frames {
        vec![Bytes::from(vec![0; bytes])]
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_one_waits_for_a_client_that_reads_and_closes_one_that_does_not() {
        let (flow, cut) = (Arc::new(Flow::default()), CancellationToken::new());
        let (outbox, mut waiting) = outbox(Arc::clone(&flow), cut.clone());
        // One that is too large is taken alone.
        outbox.put(message(HELD_BYTES + 1)).await;
        let slow = async {
            // No message is through for a long time, but bytes are.
            for _ in 0..10 {
                tokio::time::sleep(STALL / 2).await;
                flow.took(1);
            }
            let frames = waiting.next().await.unwrap();
            waiting.done(frames[0].len());
        };
        tokio::join!(outbox.put(message(HELD_BYTES / 2)), slow);
        assert!(!cut.is_cancelled());
        assert_eq!(waiting.next().await.unwrap()[0].len(), HELD_BYTES / 2);
        let end = tokio::time::Instant::now() + STALL;
        outbox.put(message(HELD_BYTES)).await;
        assert!(cut.is_cancelled() && tokio::time::Instant::now() >= end);
        // Later messages do not wait.
        outbox.put(message(HELD_BYTES)).await;
    }
}
