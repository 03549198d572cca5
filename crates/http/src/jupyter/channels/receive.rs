//! From the client to the kernel.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};

use himalia_engine::{Clients, EngineError, KernelId};
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use super::framing::{Framing, Refusal};
use super::session::End;
use super::transmit::OutgoingMessage;
use crate::ws::{Close, IncomingMessage, Reader};

/// The target of requests. A seam for tests; [`himalia_engine::Requests`] is the real one.
pub(crate) trait Sink: Send + Sync {
    /// As [`himalia_engine::Requests::send`].
    fn send(&self, frame: Frame) -> impl Future<Output = Result<(), EngineError>> + Send;
}

impl Sink for himalia_engine::Requests {
    async fn send(&self, frame: Frame) -> Result<(), EngineError> {
        Self::send(self, frame).await
    }
}

/// Shell messages that wait here while the kernel's shell lane is full, so that control messages and answers to
/// `input()` still pass them. Beyond it the socket is not read.
const BACKLOG_MESSAGES: usize = 256;
/// The same in bytes; one message always fits.
const BACKLOG_BYTES: usize = 8 << 20;
/// Dropped messages that are logged one by one for a connection; how many there were in all is said at its end.
const LOGGED_DROPS: u64 = 5;

/// The shared state of the two directions of a connection.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// Something was received since the last look.
    pub(super) alive: AtomicBool,
    /// The socket is not being read, so silence says nothing.
    pub(super) paused: AtomicBool,
}

/// The direction from client to kernel.
#[derive(Debug)]
pub(super) struct Receive<'a, R, S> {
    pub(super) kernel: KernelId,
    pub(super) reader: &'a mut Reader<R>,
    pub(super) requests: &'a S,
    pub(super) framing: Framing,
    pub(super) limits: Limits,
    pub(super) signs: &'a Liveness,
    pub(super) out: mpsc::Sender<OutgoingMessage>,
    pub(super) clients: &'a Clients,
}

/// A request and what became of it.
type SendResult = (Frame, Result<(), EngineError>);

impl<R: AsyncRead + Unpin, S: Sink> Receive<'_, R, S> {
    /// Until the connection has to end.
    pub(super) async fn run(self) -> End {
        let mut backlog = Backlog::default();
        let requests = self.requests;
        let mut sending = pin!(None);
        let mut drops = Drops::of(self.kernel);
        loop {
            if sending.is_none()
                && let Some(frame) = backlog.pop()
            {
                sending.set(Some(send(requests, frame)));
            }
            let has_room = backlog.has_room();
            self.signs.paused.store(!has_room, Ordering::Relaxed);
            let incoming = tokio::select! {
                biased;
                (frame, sent) = completed(sending.as_mut()), if sending.is_some() => {
                    sending.set(None);
                    match self.judge(&frame, sent) {
                        Some(end) => return end,
                        None => continue,
                    }
                }
                incoming = self.reader.next(), if has_room => incoming,
            };
            self.signs.alive.store(true, Ordering::Relaxed);
            let message = match incoming {
                Ok(message @ (IncomingMessage::Text(_) | IncomingMessage::Binary(_))) => message,
                Ok(IncomingMessage::Ping(payload)) => {
                    // A full queue means that an earlier pong is on its way, which answers this ping too.
                    let _ = self.out.try_send(OutgoingMessage::Pong(payload));
                    continue;
                }
                Ok(IncomingMessage::Pong) => continue,
                Ok(IncomingMessage::Close(payload)) => return End::PeerClosed(payload),
                Ok(IncomingMessage::End) => return End::PeerGone,
                Err(close) => return End::Close(close),
            };
            if let IncomingMessage::Text(bytes) | IncomingMessage::Binary(bytes) = &message {
                self.clients.websocket_in.inc_by(bytes.len() as u64);
            }
            match self.framing.decode(&message, &self.limits) {
                Ok(frame) if frame.channel() == Channel::Shell => backlog.push(frame),
                Ok(frame) => {
                    let (frame, sent) = send(requests, frame).await;
                    if let Some(end) = self.judge(&frame, sent) {
                        return end;
                    }
                }
                Err(Refusal::Close(close)) => return End::Close(close),
                Err(Refusal::Drop(reason)) => drops.add(reason),
            }
        }
    }

    /// Handles the result of a request. A kernel that is gone is reported in the other direction.
    fn judge(&self, frame: &Frame, sent: Result<(), EngineError>) -> Option<End> {
        match sent {
            Ok(()) => None,
            Err(error) if error.is_absent() => None,
            Err(error @ EngineError::BadRequest { .. }) => {
                Some(End::Close(Close::invalid(error.to_string())))
            }
            Err(error) => {
                let channel = frame.channel();
                tracing::warn!(kernel = %self.kernel, %channel, %error, "a client's message was not sent");
                let parent = frame.share(frame.header());
                let text = format!("himalia: a message was not sent to the kernel: {error}\n");
                let _ = self.out.try_send(OutgoingMessage::Notice { parent, text });
                None
            }
        }
    }
}

async fn send(requests: &impl Sink, frame: Frame) -> SendResult {
    let sent = requests.send(frame.clone()).await;
    (frame, sent)
}

async fn completed(sending: Pin<&mut Option<impl Future<Output = SendResult>>>) -> SendResult {
    match sending.as_pin_mut() {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}

/// Messages of a client that are dropped, for example on an unknown channel: the connection continues, as with `jupyter_server`.
#[derive(Debug)]
struct Drops {
    kernel: KernelId,
    count: u64,
}

impl Drops {
    fn of(kernel: KernelId) -> Self {
        Self { kernel, count: 0 }
    }

    fn add(&mut self, reason: &'static str) {
        self.count += 1;
        if self.count <= LOGGED_DROPS {
            tracing::warn!(kernel = %self.kernel, reason, "a client's message is dropped");
        }
    }
}

impl Drop for Drops {
    fn drop(&mut self) {
        if self.count > LOGGED_DROPS {
            let (kernel, count) = (self.kernel, self.count);
            tracing::warn!(%kernel, count, "messages of a client were dropped");
        }
    }
}

#[derive(Debug, Default)]
struct Backlog {
    frames: VecDeque<Frame>,
    bytes: usize,
}

impl Backlog {
    fn push(&mut self, frame: Frame) {
        self.bytes += frame.bytes().len();
        self.frames.push_back(frame);
    }

    fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.bytes().len();
        Some(frame)
    }

    fn has_room(&self) -> bool {
        self.frames.len() < BACKLOG_MESSAGES && self.bytes < BACKLOG_BYTES
    }
}
