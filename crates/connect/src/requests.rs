//! Requests that wait for the gateway.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};

/// Bytes of requests that may wait, of each kind. When they are full, clients are not read from.
const HELD_BYTES: u32 = 64 << 20;

/// A message for the gateway, with the room that it takes.
type QueuedRequest = (Bytes, OwnedSemaphorePermit);

#[derive(Debug)]
struct Queue {
    room: Arc<Semaphore>,
    sender: mpsc::UnboundedSender<QueuedRequest>,
    /// Locked by the one task that sends, for as long as a connection lasts.
    receiver: Mutex<mpsc::UnboundedReceiver<QueuedRequest>>,
}

impl Queue {
    fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            room: Arc::new(Semaphore::new(HELD_BYTES as usize)),
            sender,
            receiver: Mutex::new(receiver),
        }
    }
}

/// Requests of all clients. Those of the control channel do not wait behind others.
#[derive(Debug)]
pub(crate) struct Requests {
    control: Queue,
    others: Queue,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self {
            control: Queue::new(),
            others: Queue::new(),
        }
    }

    /// Waits for room, and puts a message in.
    pub(crate) async fn put(&self, control: bool, frame: Bytes) {
        let queue = if control { &self.control } else { &self.others };
        let weight = u32::try_from(frame.len())
            .unwrap_or(HELD_BYTES)
            .clamp(1, HELD_BYTES);
        // Neither is ever closed.
        if let Ok(permit) = Arc::clone(&queue.room).acquire_many_owned(weight).await {
            let _ = queue.sender.send((frame, permit));
        }
    }

    /// The next message. Cancel-safe; for one task at a time.
    pub(crate) async fn next(&self) -> Option<Bytes> {
        let (mut control, mut others) = (
            self.control.receiver.lock().await,
            self.others.receiver.lock().await,
        );
        let held = tokio::select! {
            biased;
            held = control.recv() => held,
            held = others.recv() => held,
        };
        held.map(|(frame, _)| frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn control_goes_first() {
        let requests = Requests::new();
        requests.put(false, Bytes::from_static(b"shell")).await;
        requests.put(true, Bytes::from_static(b"control")).await;
        assert_eq!(requests.next().await.unwrap(), "control");
        assert_eq!(requests.next().await.unwrap(), "shell");
    }

    #[tokio::test]
    async fn a_full_queue_makes_its_own_kind_wait() {
        let requests = Requests::new();
        let large = Bytes::from(vec![0; HELD_BYTES as usize]);
        requests.put(false, large.clone()).await;
        let full = requests.put(false, Bytes::from_static(b"x"));
        tokio::pin!(full);
        assert!(futures_util::poll!(&mut full).is_pending());
        requests.put(true, Bytes::from_static(b"c")).await;
        assert_eq!(requests.next().await.unwrap(), "c");
        assert_eq!(requests.next().await.unwrap().len(), large.len());
        full.await;
    }
}
