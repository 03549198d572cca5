//! The link of a WebSocket to the owner of its kernel.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::stream;
use himalia_engine::{Delivery, FeedClosed, KernelId, Principal};
use himalia_relay::{HEADER, SendError};
use himalia_wire::v1::{self, Frame};
use himalia_wire::{Channel, Limits, build};
use time::OffsetDateTime;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt as _;

use super::client::Shared;
use super::frame::{Decoder, Item};
use super::owner::next;
use crate::cluster::forward::received;
use crate::cluster::{Cluster, Location, PAUSE, Relayed, ResourceRef, Routes, caller, no_owner};
use crate::error::ApiError;
use crate::prefix::encode_segment;
use crate::ws;

/// Messages that are handed on together.
const BATCH: usize = 64;

/// Whose channels, and how an owner is asked for them.
pub(super) struct Attaching {
    pub(super) cluster: Cluster,
    pub(super) principal: Principal,
    pub(super) kernel: KernelId,
    pub(super) wire_session: String,
    pub(super) routes: Option<Routes>,
}

/// The stream to and from an owner.
pub(super) struct Upstream {
    /// What it is sent. Its end is the end of the client.
    sender: mpsc::Sender<Bytes>,
    body: Body,
}

/// What an owner says.
pub(super) enum Attached {
    Upstream(Upstream),
    Refused(Response),
}

impl Attaching {
    /// Asks the owner, for as long as the cluster has patience. The response of an owner that refuses is for the client.
    pub(super) async fn attach(&self, after: Option<u64>) -> Result<Attached, ApiError> {
        let caller = caller(&self.principal)?;
        let sought = ResourceRef::Kernel(self.kernel);
        let start = Instant::now();
        let mut again = false;
        loop {
            let reason = match self.cluster.locate(&self.principal, &sought, again).await? {
                None | Some(Location::Here) => return Ok(self.attach_here(after).await),
                Some(Location::Lost { replica }) => format!("replica {replica} is gone"),
                Some(Location::At(peer)) => {
                    let (sender, body) = outgoing();
                    let request = self.request(after, himalia_relay::body(body));
                    match self.cluster.send(&peer, &self.principal, &caller, request).await {
                        Ok(response) if response.headers().contains_key(HEADER) => {
                            format!("replica {} does not have it", peer.replica)
                        }
                        Ok(response) => return Ok(accepted(sender, received(response))),
                        // Attaching twice is as attaching once.
                        Err(SendError::NotSent(reason) | SendError::Lost(reason)) => reason,
                        Err(error) => return Err(no_owner(&error.to_string())),
                    }
                }
            };
            if start.elapsed() + PAUSE >= self.cluster.patience {
                return Err(no_owner(&reason));
            }
            if again {
                sleep(PAUSE).await;
            }
            again = true;
        }
    }

    /// This replica has become the owner: the same stream, without a network.
    async fn attach_here(&self, after: Option<u64>) -> Attached {
        let (sender, body) = outgoing();
        let mut request = self.request(after, body);
        request.extensions_mut().insert(Relayed(self.principal.clone()));
        let response = match &self.routes {
            Some(Routes(routes)) => match routes.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
            None => axum::response::IntoResponse::into_response(ApiError::internal("continuing a socket")),
        };
        accepted(sender, response)
    }

    fn request<B>(&self, after: Option<u64>, body: B) -> axum::http::Request<B> {
        let (kernel, session) = (self.kernel, encode_segment(&self.wire_session));
        let mut target = format!("/relay/channels/{kernel}?session_id={session}");
        if let Some(after) = after {
            target = format!("{target}&after={after}");
        }
        let mut request = axum::http::Request::new(body);
        *request.method_mut() = axum::http::Method::POST;
        if let Ok(target) = target.parse() {
            *request.uri_mut() = target;
        }
        request
    }
}

fn accepted(sender: mpsc::Sender<Bytes>, response: Response) -> Attached {
    if response.status() == StatusCode::OK {
        let body = response.into_body();
        Attached::Upstream(Upstream { sender, body })
    } else {
        Attached::Refused(response)
    }
}

/// A body that is written piece by piece.
fn outgoing() -> (mpsc::Sender<Bytes>, Body) {
    let (sender, receiver) = mpsc::channel(1);
    let pieces = stream::unfold(receiver, async |mut pieces: mpsc::Receiver<Bytes>| {
        let piece = pieces.recv().await?;
        Some((Ok::<_, Infallible>(piece), pieces))
    });
    (sender, Body::from_stream(pieces))
}

/// How the stream of one owner ends.
#[derive(Debug)]
enum End {
    /// The client is gone.
    ClientGone,
    /// The owner is gone, or stops.
    Lost,
    /// The feed ends.
    Closed(FeedClosed),
}

/// Owns the stream to the owner; ends with the WebSocket.
pub(super) struct Link {
    pub(super) attaching: Attaching,
    pub(super) shared: Arc<Shared>,
    pub(super) deliveries: mpsc::Sender<Result<Vec<Delivery>, FeedClosed>>,
    pub(super) requests: mpsc::Receiver<Frame>,
    pub(super) acknowledged: watch::Receiver<u64>,
    /// The last message that was handed on.
    pub(super) last: u64,
}

impl Link {
    pub(super) async fn run(mut self, mut upstream: Upstream) {
        loop {
            match self.serve(upstream).await {
                End::ClientGone | End::Closed(_) => return,
                End::Lost => match self.reattach().await {
                    Ok(next) => upstream = next,
                    Err(closed) => {
                        let _ = self.deliveries.send(Err(closed)).await;
                        return;
                    }
                },
            }
        }
    }

    /// Passes on in both directions, until the client or the owner is gone.
    async fn serve(&mut self, upstream: Upstream) -> End {
        let Upstream { sender, mut body } = upstream;
        let (shared, last) = (Arc::clone(&self.shared), &mut self.last);
        let mut writing = Writing {
            sender,
            requests: &mut self.requests,
            acknowledged: &mut self.acknowledged,
            shared: &shared,
            number: 0,
            feed_is_gone: false,
        };
        let mut reading = Reading {
            body: &mut body,
            decoder: Decoder::default(),
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
        let _ = timeout(2 * ws::CLOSING_TIME, rest).await;
        end
    }

    /// The next owner, from where the client is.
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
            Ok(Attached::Upstream(upstream)) => Ok(upstream),
            Ok(Attached::Refused(refused))
                if matches!(refused.status(), StatusCode::NOT_FOUND | StatusCode::GONE) =>
            {
                Err(FeedClosed::KernelGone)
            }
            Ok(Attached::Refused(_)) | Err(_) => Err(FeedClosed::Draining),
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

/// From the client to the owner.
struct Writing<'a> {
    sender: mpsc::Sender<Bytes>,
    requests: &'a mut mpsc::Receiver<Frame>,
    acknowledged: &'a mut watch::Receiver<u64>,
    shared: &'a Shared,
    number: u64,
    feed_is_gone: bool,
}

impl Writing<'_> {
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
                    Item::Acknowledged(*self.acknowledged.borrow_and_update()).bytes()
                }
                frame = self.requests.recv(), if !self.requests.is_closed() || !self.requests.is_empty() => {
                    let Some(frame) = frame else { continue };
                    self.number += 1;
                    let header = Bytes::copy_from_slice(frame.header());
                    self.shared.open.lock().insert(self.number, header);
                    let frame = frame.into_bytes();
                    Item::Request { number: self.number, frame }.bytes()
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
    decoder: Decoder,
    deliveries: &'a mpsc::Sender<Result<Vec<Delivery>, FeedClosed>>,
    shared: &'a Shared,
    last: &'a mut u64,
}

impl Reading<'_> {
    /// Until the owner ends the stream. A client that takes nothing stops it.
    async fn run(&mut self) -> End {
        loop {
            let Ok(Some(mut item)) = next(self.body, &mut self.decoder).await else {
                return End::Lost;
            };
            let mut batch = Vec::new();
            loop {
                match item {
                    Item::Delivery { seq, frame } => {
                        let Ok(parsed) = Frame::parse(frame, &Limits::KERNEL) else {
                            return End::Closed(FeedClosed::Storage);
                        };
                        let seq = seq.max(*self.last);
                        *self.last = seq;
                        batch.push(delivery(seq, parsed.channel(), parsed.into_bytes()));
                    }
                    Item::Accepted(number) => {
                        self.shared.open.lock().remove(&number);
                    }
                    Item::KernelSession(text) => {
                        *self.shared.kernel_session.lock() = String::from_utf8_lossy(&text).into_owned();
                    }
                    Item::Closed(closed) => {
                        self.hand_on(batch).await;
                        return if matches!(closed, FeedClosed::Draining) {
                            End::Lost
                        } else {
                            End::Closed(closed)
                        };
                    }
                    Item::Request { .. } | Item::Acknowledged(_) => return End::Lost,
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
        while let Ok(Some(_)) = next(self.body, &mut self.decoder).await {}
    }
}
