//! One connection, from the upgrade to the end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use himalia_engine::{Clients, KernelId};
use himalia_wire::Limits;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::framing::Framing;
use super::positions::Positions;
use super::receive::{Liveness, Receive, Sink};
use super::transmit::{Source, Transmit, settle};
use crate::app::App;
use crate::ws::{self, Close, Outbox, Reader, UpgradedSocket};

/// The reason of the end of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The client says goodbye, with this payload.
    PeerClosed(Bytes),
    /// The connection broke.
    PeerGone,
    /// No sign of life for too long.
    Silent,
    /// It takes nothing of what is written to it.
    Stalled,
    /// We say goodbye.
    Close(Close),
}

/// Frame headers and offsets on top of a message's own bytes.
const FRAMING_BYTES: usize = 64 << 10;
/// Answers that wait to be written.
const ASKED: usize = 32;

/// The settings of one connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) kernel: KernelId,
    pub(super) framing: Framing,
    pub(super) limits: Limits,
    pub(super) ping_interval: Duration,
    pub(super) pong_timeout: Duration,
    pub(super) stall_timeout: Duration,
    pub(super) shutdown: CancellationToken,
    pub(super) clients: Arc<Clients>,
}

impl Session {
    pub(super) fn new(app: &App, kernel: KernelId, framing: Framing) -> Self {
        let config = app.config();
        Self {
            kernel,
            framing,
            limits: Limits {
                message_bytes: config.message_bytes,
                ..Limits::CLIENT
            },
            ping_interval: config.ping_interval,
            pong_timeout: config.pong_timeout,
            stall_timeout: config.stall_timeout,
            shutdown: app.shutdown().clone(),
            clients: Arc::clone(app.engine().clients()),
        }
    }

    /// Serves until the connection ends. The position is kept before the feed is let go.
    pub(super) async fn run(self, socket: UpgradedSocket, feed: impl Source, requests: impl Sink) {
        let kernel = self.kernel;
        let (reading, writing) = socket.stream.into_split();
        let mut reader = Reader::new(
            reading,
            &socket.early,
            self.limits.message_bytes.saturating_add(FRAMING_BYTES),
        );
        let mut transmit = Transmit {
            feed,
            socket: writing,
            framing: self.framing.clone(),
            outbox: Outbox::default(),
            positions: Positions::default(),
            ping_interval: self.ping_interval,
            pong_timeout: self.pong_timeout,
            stall_timeout: self.stall_timeout,
            clients: Arc::clone(&self.clients),
            counted: 0,
        };
        let signs = Liveness::default();
        let (out, asked) = mpsc::channel(ASKED);
        let receive = Receive {
            kernel,
            reader: &mut reader,
            requests: &requests,
            framing: self.framing,
            limits: self.limits,
            signs: &signs,
            out,
            clients: &self.clients,
        };
        let end = {
            let mut receiving = pin!(receive.run());
            let end = tokio::select! {
                biased;
                end = &mut receiving => end,
                end = transmit.run(&signs, &self.shutdown, asked) => end,
            };
            tracing::debug!(%kernel, ?end, "a client's socket ends");
            match &end {
                End::Stalled => self.clients.ended("stalled"),
                End::Silent => self.clients.ended("silent"),
                _ => {}
            }
            match end {
                End::Close(close) if close == Close::replaced() => {
                    return hand_over(close, receiving, transmit).await;
                }
                end => end,
            }
        };
        close(end, reader, transmit).await;
    }
}

/// Closes a connection whose client has opened another one. The client may have written requests before it sees that, which
/// no client would send again: they are taken until it answers the close.
async fn hand_over<F: Source>(close: Close, receiving: impl Future<Output = End>, mut transmit: Transmit<F>) {
    transmit.settle();
    let Transmit {
        feed,
        socket,
        mut outbox,
        ..
    } = transmit;
    drop(feed);
    outbox.close(&close);
    let rest = async {
        if outbox.flush(&socket, ws::CLOSING_TIME).await.is_ok() {
            receiving.await;
        }
    };
    let _ = timeout(ws::CLOSING_TIME, rest).await;
    socket.say_goodbye();
}

/// Keeps the position, lets the feed go and closes as the end demands.
async fn close<R: AsyncRead + Unpin, F: Source>(end: End, mut reader: Reader<R>, mut transmit: Transmit<F>) {
    // Before anything more is written: what reaches a client after its own close is not shown to it. And before the
    // feed is let go, which is what a newer connection of the same client waits for.
    transmit.settle();
    let Transmit {
        feed,
        socket,
        mut outbox,
        mut positions,
        ..
    } = transmit;
    let ours = matches!(end, End::Close(_));
    let feed = ours.then_some(feed);
    match end {
        End::PeerGone => return,
        End::Silent => outbox.close(&Close::silent()),
        End::PeerClosed(payload) => outbox.close_back(payload),
        End::Stalled => outbox.close(&Close::stalled()),
        End::Close(close) => outbox.close(&close),
    }
    ws::closing_handshake(&mut outbox, &socket, &mut reader, ours).await;
    if let Some(feed) = feed {
        settle(&feed, &socket, &outbox, &mut positions);
    }
}
