//! From the kernel's log to the client.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use himalia_engine::{Clients, Delivery, Feed, FeedClosed};
use himalia_wire::{Channel, build, v1};
use time::OffsetDateTime;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;

use super::framing::Framing;
use super::positions::Positions;
use super::receive::Liveness;
use super::session::End;
use crate::socket::WriteHalf;
use crate::ws::{Close, Outbox};

/// The source of messages. A seam for tests; [`himalia_engine::Feed`] is the real one.
pub(crate) trait Source: Send {
    fn next(&mut self) -> impl Future<Output = Result<Vec<Delivery>, FeedClosed>> + Send;
    /// As [`Feed::acknowledge`].
    fn acknowledge(&self, seq: u64);
    /// As [`Feed::kernel_session`].
    fn kernel_session(&self) -> String;
}

impl Source for Feed {
    async fn next(&mut self) -> Result<Vec<Delivery>, FeedClosed> {
        Self::next(self).await
    }

    fn acknowledge(&self, seq: u64) {
        Self::acknowledge(self, seq);
    }

    fn kernel_session(&self) -> String {
        Self::kernel_session(self)
    }
}

/// A message of the other direction that is to be sent.
#[derive(Debug)]
pub(super) enum OutgoingMessage {
    /// The answer to a ping.
    Pong(Bytes),
    /// A line on the client's standard error, below the request with this header (empty: none).
    Notice { parent: Bytes, text: String },
}

/// Acknowledgements are looked at after a write. One that follows the last look within this time and these bytes is looked
/// at when the time has passed.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
const LOOK_AGAIN_BYTES: u64 = 64 << 10;
/// Interval of the checks for acknowledgements while nothing is written.
const SETTLE: Duration = Duration::from_millis(100);

/// Bytes that are written without a pause.
const STRETCH: u64 = 1 << 20;

/// The direction from log to client, with all that outlives a cancelled run of it.
#[derive(Debug)]
pub(super) struct Transmit<F> {
    pub(super) feed: F,
    pub(super) socket: WriteHalf,
    pub(super) framing: Framing,
    pub(super) outbox: Outbox,
    pub(super) positions: Positions,
    pub(super) ping_interval: Duration,
    pub(super) pong_timeout: Duration,
    pub(super) stall_timeout: Duration,
    pub(super) clients: Arc<Clients>,
    /// Written bytes that are counted.
    pub(super) counted: u64,
}

impl<F: Source> Transmit<F> {
    /// Until the connection has to end. Messages that the feed has handed out are in the outbox when this is cancelled.
    pub(super) async fn run(
        &mut self,
        signs: &Liveness,
        shutdown: &CancellationToken,
        mut asked: mpsc::Receiver<OutgoingMessage>,
    ) -> End {
        let mut shutdown = pin!(shutdown.cancelled());
        let mut ping = interval_at(Instant::now() + self.ping_interval, self.ping_interval);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_sign = Instant::now();
        // The last look: when, and after how many bytes.
        let mut looked: Option<(Instant, u64)> = None;
        let mut look = pin!(sleep_until(last_sign));
        // When `look` is due, if it is.
        let mut next_look: Option<Instant> = None;
        let mut rested_at = 0;
        loop {
            tokio::select! {
                biased;
                () = shutdown.as_mut() => return End::Close(Close::draining()),
                Some(outgoing) = asked.recv() => self.put(outgoing),
                now = ping.tick() => {
                    if signs.alive.swap(false, Ordering::Relaxed) || signs.paused.load(Ordering::Relaxed) {
                        last_sign = now;
                    }
                    if now.duration_since(last_sign) >= self.pong_timeout {
                        return End::Silent;
                    }
                    self.outbox.ping();
                }
                () = look.as_mut(), if next_look.is_some() => (next_look, looked) = (None, None),
                batch = self.feed.next() => match batch {
                    Ok(batch) => self.put_all(&batch),
                    Err(closed) => return End::Close(Close::of(&closed)),
                },
            }
            let flushed = self.outbox.flush(&self.socket, self.stall_timeout).await;
            let written = self.outbox.written();
            self.clients.websocket_out.inc_by(written - self.counted);
            self.counted = written;
            match flushed {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return End::Stalled,
                Err(_) => return End::PeerGone,
            }
            if self.outbox.written() - rested_at >= STRETCH {
                // Neither a full log nor a willing socket ever waits: let the other direction, and other tasks, run.
                tokio::task::yield_now().await;
                rested_at = self.outbox.written();
            }
            if !self.positions.pending() {
                continue;
            }
            let (now, written) = (Instant::now(), self.outbox.written());
            let later = looked
                .filter(|(_, bytes)| written - bytes < LOOK_AGAIN_BYTES)
                .map(|(at, _)| at + LOOK_AGAIN)
                .filter(|later| now < *later);
            if later.is_none() {
                looked = Some((now, written));
                let before = self.positions.acknowledged();
                self.settle();
                if self.positions.acknowledged() > before {
                    last_sign = now;
                }
            }
            let due = later.unwrap_or(now + SETTLE);
            if self.positions.pending() && next_look.is_none_or(|next| due < next) {
                look.as_mut().reset(due);
                next_look = Some(due);
            }
        }
    }

    fn put_all(&mut self, batch: &[Delivery]) {
        for delivery in batch {
            match self.framing.put(&mut self.outbox, delivery) {
                Some(end) => self.positions.mark(end, delivery.seq),
                None => self.put(OutgoingMessage::Notice {
                    parent: Bytes::new(),
                    text: "himalia: a message of the kernel is not valid JSON and was left out\n".into(),
                }),
            }
        }
    }

    fn put(&mut self, outgoing: OutgoingMessage) {
        match outgoing {
            OutgoingMessage::Pong(payload) => self.outbox.pong(payload),
            OutgoingMessage::Notice { parent, text } => {
                let parent = (!parent.is_empty()).then_some(&parent[..]);
                let parts = build::stream(&self.feed.kernel_session(), parent, "stderr", &text);
                let frame = v1::encode(Channel::Iopub, &parts);
                let at = OffsetDateTime::now_utc();
                self.framing.put(
                    &mut self.outbox,
                    &Delivery {
                        seq: 0,
                        at,
                        channel: Channel::Iopub,
                        frame,
                    },
                );
            }
        }
    }

    pub(super) fn settle(&mut self) {
        settle(&self.feed, &self.socket, &self.outbox, &mut self.positions);
    }
}

/// Looks at what the peer's TCP has acknowledged and keeps the position.
pub(super) fn settle(feed: &impl Source, socket: &WriteHalf, outbox: &Outbox, positions: &mut Positions) {
    if positions.pending()
        && let Some(unacknowledged) = socket.unacknowledged()
        && let Some(seq) = positions.settle(outbox.written(), unacknowledged)
    {
        feed.acknowledge(seq);
    }
}
