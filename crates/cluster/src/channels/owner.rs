//! At the owner: a kernel's feed and queue, for the client of another replica.

use std::collections::VecDeque;
use std::pin::{Pin, pin};

use axum::body::{Body, Bytes};
use bytes::BytesMut;
use himalia_engine::{Attachment, EngineError, Feed, FeedClosed, Requests};
use himalia_wire::v1::{self, Frame};
use himalia_wire::{Channel, Limits, build};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::LAST_TIME;
use super::stream::{BrokenStream, StreamDecoder, StreamItem, next_item, outgoing};

/// Shell messages that wait while the kernel's lane is full: as for a client of this replica.
const BACKLOG_MESSAGES: usize = 256;
const BACKLOG_BYTES: usize = 8 << 20;
/// Most notes from the reading side that wait.
const NOTES: usize = 32;
/// Bytes of messages that are written together.
const PIECE_BYTES: usize = 64 << 10;

/// Attaches the client of a peer. `body` is the body of its request. Returns the body of the response, and the task that serves the client
/// until the stream ends.
pub fn serve_channels(
    attachment: Attachment,
    body: Body,
    limits: Limits,
    shutdown: CancellationToken,
) -> (Body, impl Future<Output = ()> + Send + 'static) {
    let Attachment { requests, feed } = attachment;
    let (pieces, response) = outgoing();
    let (notes, noted) = mpsc::channel(NOTES);
    let (acknowledged, positions) = watch::channel(0);
    let receive = Receive {
        body,
        decoder: StreamDecoder::default(),
        requests,
        limits,
        notes,
        acknowledged,
    };
    let transmit = Transmit {
        feed,
        noted,
        positions,
        pieces,
        kernel_session: String::new(),
        shutdown,
    };
    (response, run(receive, transmit))
}

/// Until the peer has ended its stream. Its last acknowledgement counts before the feed is let go, which is what a newer
/// connection of the client waits for.
async fn run(receive: Receive, mut transmit: Transmit) {
    {
        let mut receiving = pin!(receive.run());
        let gone = tokio::select! {
            biased;
            () = &mut receiving => true,
            gone = transmit.run() => gone,
        };
        if !gone {
            let _ = timeout(LAST_TIME, receiving).await;
        }
    }
    transmit.settle();
}

/// A note from the reading side to the writing side.
enum Note {
    Accepted(u64),
    /// A line on the client's standard error, below the request with this header.
    Notice {
        parent: Bytes,
        text: String,
    },
}

/// From the peer to the kernel.
struct Receive {
    body: Body,
    decoder: StreamDecoder,
    requests: Requests,
    limits: Limits,
    notes: mpsc::Sender<Note>,
    acknowledged: watch::Sender<u64>,
}

type SendResult = (u64, Frame, Result<(), EngineError>);

impl Receive {
    /// Until the stream ends. Shell messages wait for room; others pass them.
    async fn run(self) {
        let Self {
            mut body,
            mut decoder,
            requests,
            limits,
            notes,
            acknowledged,
        } = self;
        let (mut backlog, mut bytes) = (VecDeque::new(), 0);
        let mut sending = pin!(None);
        loop {
            if sending.is_none()
                && let Some((number, frame)) = backlog.pop_front()
            {
                bytes -= Frame::bytes(&frame).len();
                sending.set(Some(send(&requests, number, frame)));
            }
            let has_room = backlog.len() < BACKLOG_MESSAGES && bytes < BACKLOG_BYTES;
            let item = tokio::select! {
                biased;
                sent = completed(sending.as_mut()), if sending.is_some() => {
                    sending.set(None);
                    report(&notes, sent).await;
                    continue;
                }
                item = next_item(&mut body, &mut decoder), if has_room => item,
            };
            match item {
                Ok(Some(StreamItem::Acknowledged(seq))) => {
                    acknowledged.send_replace(seq);
                }
                Ok(Some(StreamItem::Request { number, frame })) => match Frame::parse(frame, &limits) {
                    Ok(frame) if frame.channel() == Channel::Shell => {
                        bytes += frame.bytes().len();
                        backlog.push_back((number, frame));
                    }
                    Ok(frame) => {
                        let sent = send(&requests, number, frame).await;
                        report(&notes, sent).await;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a peer relayed a message that cannot be read");
                        return;
                    }
                },
                Ok(Some(_) | None) | Err(BrokenStream) => return,
            }
        }
    }
}

async fn send(requests: &Requests, number: u64, frame: Frame) -> SendResult {
    let sent = requests.send(frame.clone()).await;
    (number, frame, sent)
}

async fn completed(sending: Pin<&mut Option<impl Future<Output = SendResult>>>) -> SendResult {
    match sending.as_pin_mut() {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}

/// Reports the result of a request. A kernel that is gone is reported in the other direction.
async fn report(notes: &mpsc::Sender<Note>, (number, frame, sent): SendResult) {
    if let Err(error) = &sent
        && !error.is_absent()
    {
        let parent = frame.share(frame.header());
        let text = format!("himalia: a message was not sent to the kernel: {error}\n");
        let _ = notes.send(Note::Notice { parent, text }).await;
    }
    let _ = notes.send(Note::Accepted(number)).await;
}

/// From the log to the peer.
struct Transmit {
    feed: Feed,
    noted: mpsc::Receiver<Note>,
    positions: watch::Receiver<u64>,
    pieces: mpsc::Sender<Bytes>,
    kernel_session: String,
    shutdown: CancellationToken,
}

impl Transmit {
    /// Until the feed ends (`false`), or the peer takes no more (`true`). Nothing is read from the log that the stream
    /// has no room for.
    async fn run(&mut self) -> bool {
        loop {
            if !self.room().await {
                return true;
            }
            let mut out = BytesMut::new();
            let closed = tokio::select! {
                biased;
                Some(note) = self.noted.recv() => {
                    self.put_note(note, &mut out);
                    while out.len() < PIECE_BYTES && let Ok(note) = self.noted.try_recv() {
                        self.put_note(note, &mut out);
                    }
                    None
                }
                changed = self.positions.changed() => {
                    if changed.is_err() {
                        return true;
                    }
                    self.settle();
                    continue;
                }
                () = self.shutdown.cancelled() => Some(FeedClosed::Draining),
                batch = self.feed.next() => match batch {
                    Ok(batch) => {
                        self.put_kernel_session(&mut out);
                        for delivery in batch {
                            StreamItem::Delivery { seq: delivery.seq, frame: delivery.frame }.write(&mut out);
                        }
                        None
                    }
                    Err(closed) => Some(closed),
                },
            };
            if let Some(closed) = &closed {
                StreamItem::Closed(closed.clone()).write(&mut out);
            }
            if self.pieces.send(out.freeze()).await.is_err() {
                return true;
            }
            if closed.is_some() {
                return false;
            }
        }
    }

    /// Waits until the stream takes more, while acknowledgements count.
    async fn room(&mut self) -> bool {
        loop {
            tokio::select! {
                biased;
                room = self.pieces.reserve() => return room.is_ok(),
                changed = self.positions.changed() => {
                    if changed.is_err() {
                        return false;
                    }
                    let seq = *self.positions.borrow_and_update();
                    acknowledge(&self.feed, seq);
                }
            }
        }
    }

    fn put_note(&mut self, note: Note, out: &mut BytesMut) {
        match note {
            Note::Accepted(number) => StreamItem::Accepted(number).write(out),
            Note::Notice { parent, text } => {
                let parts = build::stream(&self.feed.kernel_session(), Some(&parent), "stderr", &text);
                let frame = v1::encode(Channel::Iopub, &parts);
                StreamItem::Delivery { seq: 0, frame }.write(out);
            }
        }
    }

    /// The client's replica needs it for messages of its own.
    fn put_kernel_session(&mut self, out: &mut BytesMut) {
        let now = self.feed.kernel_session();
        if now != self.kernel_session {
            StreamItem::KernelSession(Bytes::copy_from_slice(now.as_bytes())).write(out);
            self.kernel_session = now;
        }
    }

    fn settle(&mut self) {
        let seq = *self.positions.borrow_and_update();
        acknowledge(&self.feed, seq);
    }
}

fn acknowledge(feed: &Feed, seq: u64) {
    if seq > 0 {
        feed.acknowledge(seq);
    }
}
