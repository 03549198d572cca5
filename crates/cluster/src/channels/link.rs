//! The link of a WebSocket to the owner of its kernel.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use himalia_engine::{Delivery, FeedClosed};
use himalia_wire::v1::{self, Frame};
use himalia_wire::{Channel, Limits, build};
use parking_lot::Mutex;
use time::OffsetDateTime;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::LAST_TIME;
use super::attach::{AttachRequest, AttachResponse, Upstream};
use super::stream::{StreamDecoder, StreamItem, next_item};

/// Messages that are handed on together.
const BATCH: usize = 64;

/// The shared state of the WebSocket and its link.
#[derive(Debug, Default)]
pub(super) struct SharedState {
    pub(super) kernel_session: Mutex<String>,
    /// The headers of requests that no owner has accepted yet, by number.
    pub(super) open: Mutex<BTreeMap<u64, Bytes>>,
}

/// The end of the stream of one owner.
#[derive(Debug)]
enum End {
    ClientGone,
    /// The owner is gone, or stops.
    Lost,
    Closed(FeedClosed),
}

/// The link of a WebSocket to the owner of its kernel. It ends with the WebSocket.
#[derive(Debug)]
pub struct Link {
    pub(super) client: LinkedClient,
    pub(super) upstream: Upstream,
}

/// The client's end of a link.
#[derive(Debug)]
pub(super) struct LinkedClient {
    pub(super) attaching: AttachRequest,
    pub(super) shared: Arc<SharedState>,
    pub(super) deliveries: mpsc::Sender<Result<Vec<Delivery>, FeedClosed>>,
    pub(super) requests: mpsc::Receiver<Frame>,
    pub(super) acknowledged: watch::Receiver<u64>,
    /// The last message that was handed on.
    pub(super) last: u64,
}

impl Link {
    /// Serves the client until it is gone, or until its feed has ended.
    pub async fn run(self) {
        let Self {
            mut client,
            mut upstream,
        } = self;
        loop {
            match client.serve(upstream).await {
                End::ClientGone | End::Closed(_) => return,
                End::Lost => match client.reattach().await {
                    Ok(next) => upstream = next,
                    Err(closed) => {
                        let _ = client.deliveries.send(Err(closed)).await;
                        return;
                    }
                },
            }
        }
    }
}

impl LinkedClient {
    /// Forwards in both directions, until the client or the owner is gone.
    async fn serve(&mut self, upstream: Upstream) -> End {
        let Upstream { sender, mut body } = upstream;
        let (shared, last) = (Arc::clone(&self.shared), &mut self.last);
        let mut writing = OwnerWriter {
            sender,
            requests: &mut self.requests,
            acknowledged: &mut self.acknowledged,
            shared: &shared,
            number: 0,
            feed_is_gone: false,
        };
        let mut reading = Reading {
            body: &mut body,
            decoder: StreamDecoder::default(),
            deliveries: &self.deliveries,
            shared: &shared,
            last,
        };
        let end = tokio::select! {
            end = reading.run() => end,
            () = writing.run() => End::ClientGone,
        };
        // The last position reaches the owner before the stream is dropped. The owner ends it then.
        let closed = match &end {
            End::Lost => return end,
            End::ClientGone => None,
            End::Closed(closed) => Some(closed.clone()),
        };
        let rest = async {
            if let Some(closed) = closed {
                let _ = self.deliveries.send(Err(closed)).await;
                writing.run().await;
            }
            drop(writing);
            reading.drain().await;
        };
        let _ = timeout(LAST_TIME, rest).await;
        end
    }

    /// Attaches the client to the next owner, from its position.
    async fn reattach(&mut self) -> Result<Upstream, FeedClosed> {
        let kernel = self.attaching.kernel;
        tracing::info!(%kernel, position = self.last, "a relayed client waits for the next owner of its kernel");
        self.tell_lost().await;
        let after = (self.last > 0).then_some(self.last);
        let attached = tokio::select! {
            attached = self.attaching.attach(after) => attached,
            () = self.deliveries.closed() => return Err(FeedClosed::Draining),
        };
        match attached {
            Ok(AttachResponse::Upstream(upstream)) => Ok(upstream),
            Ok(AttachResponse::Refused(refused))
                if matches!(refused.status(), StatusCode::NOT_FOUND | StatusCode::GONE) =>
            {
                Err(FeedClosed::KernelGone)
            }
            Ok(AttachResponse::Refused(_)) | Err(_) => Err(FeedClosed::Draining),
        }
    }

    /// Tells the client which of its requests may not have arrived.
    async fn tell_lost(&self) {
        let open = std::mem::take(&mut *self.shared.open.lock());
        let text =
            "himalia: the replica of this kernel was lost; this request may not have reached the kernel\n";
        let session = self.shared.kernel_session.lock().clone();
        for parent in open.into_values() {
            let parts = build::stream(&session, Some(&parent), "stderr", text);
            let frame = v1::encode(Channel::Iopub, &parts);
            let notice = delivery(self.last, Channel::Iopub, frame);
            let _ = self.deliveries.send(Ok(vec![notice])).await;
        }
    }
}

fn delivery(seq: u64, channel: Channel, frame: Bytes) -> Delivery {
    Delivery {
        seq,
        at: OffsetDateTime::UNIX_EPOCH,
        channel,
        frame,
    }
}

struct OwnerWriter<'a> {
    sender: mpsc::Sender<Bytes>,
    requests: &'a mut mpsc::Receiver<Frame>,
    acknowledged: &'a mut watch::Receiver<u64>,
    shared: &'a SharedState,
    number: u64,
    feed_is_gone: bool,
}

impl OwnerWriter<'_> {
    /// Until the client is gone: its feed first, and its requests when it has answered a close.
    async fn run(&mut self) {
        loop {
            let piece = tokio::select! {
                biased;
                changed = self.acknowledged.changed(), if !self.feed_is_gone => {
                    if changed.is_err() {
                        self.feed_is_gone = true;
                        continue;
                    }
                    StreamItem::Acknowledged(*self.acknowledged.borrow_and_update()).bytes()
                }
                frame = self.requests.recv(), if !self.requests.is_closed() || !self.requests.is_empty() => {
                    let Some(frame) = frame else { continue };
                    self.number += 1;
                    let header = Bytes::copy_from_slice(frame.header());
                    self.shared.open.lock().insert(self.number, header);
                    let frame = frame.into_bytes();
                    StreamItem::Request { number: self.number, frame }.bytes()
                }
                else => return,
            };
            if self.sender.send(piece).await.is_err() {
                // The reading side sees how the owner ended.
                return std::future::pending().await;
            }
        }
    }
}

/// From the owner to the client.
struct Reading<'a> {
    body: &'a mut Body,
    decoder: StreamDecoder,
    deliveries: &'a mpsc::Sender<Result<Vec<Delivery>, FeedClosed>>,
    shared: &'a SharedState,
    last: &'a mut u64,
}

impl Reading<'_> {
    /// Until the owner ends the stream. A client that takes nothing stops it.
    async fn run(&mut self) -> End {
        loop {
            let Ok(Some(mut item)) = next_item(self.body, &mut self.decoder).await else {
                return End::Lost;
            };
            let mut batch = Vec::new();
            loop {
                match item {
                    StreamItem::Delivery { seq, frame } => {
                        let Ok(parsed) = Frame::parse(frame, &Limits::KERNEL) else {
                            return End::Closed(FeedClosed::Storage);
                        };
                        let seq = seq.max(*self.last);
                        *self.last = seq;
                        batch.push(delivery(seq, parsed.channel(), parsed.into_bytes()));
                    }
                    StreamItem::Accepted(number) => {
                        self.shared.open.lock().remove(&number);
                    }
                    StreamItem::KernelSession(text) => {
                        *self.shared.kernel_session.lock() = String::from_utf8_lossy(&text).into_owned();
                    }
                    StreamItem::Closed(closed) => {
                        self.hand_on(batch).await;
                        return if matches!(closed, FeedClosed::Draining) {
                            End::Lost
                        } else {
                            End::Closed(closed)
                        };
                    }
                    StreamItem::Request { .. } | StreamItem::Acknowledged(_) => return End::Lost,
                }
                match self.decoder.take() {
                    Ok(Some(next)) if batch.len() < BATCH => item = next,
                    Ok(Some(next)) => {
                        self.hand_on(std::mem::take(&mut batch)).await;
                        item = next;
                    }
                    Ok(None) => break,
                    Err(_) => return End::Lost,
                }
            }
            self.hand_on(batch).await;
        }
    }

    async fn hand_on(&mut self, batch: Vec<Delivery>) {
        if !batch.is_empty() {
            let _ = self.deliveries.send(Ok(batch)).await;
        }
    }

    /// Until the owner has ended the stream too.
    async fn drain(&mut self) {
        while let Ok(Some(_)) = next_item(self.body, &mut self.decoder).await {}
    }
}
