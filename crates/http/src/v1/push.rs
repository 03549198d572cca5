//! Events over a WebSocket: one text message each, as their stream has them as JSON.
//!
//! The client sends nothing but pongs and its close frame. What it has not taken is not read from the log: one batch of events at
//! most waits to be written. Close codes: 1000 after the last event, 1003 for a client that sends messages, the others as in
//! [`Close`]. The position of a client is the `seq` of the last event that it got.

use std::io;
use std::pin::pin;
use std::time::Duration;

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use himalia_engine::FeedClosed;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::error::ApiError;
use crate::listen::{self, Peer};
use crate::openapi::{Answer, Operation, Part, codes};
use crate::socket::WriteHalf;
use crate::ws::{Close, Handshake, IncomingMessage, Outbox, Reader, UpgradedSocket, closing_handshake};

/// Bytes of one message of the client, which is refused all the same.
const MESSAGE_BYTES: usize = 64 << 10;
/// Bytes of a ping of ours on the wire.
const PING_BYTES: u64 = 2;

/// The source of events.
pub(crate) trait Source: Send + 'static {
    /// The next ones as JSON, at least one; `None` after the last one. Waits while there is none. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<Bytes>>, FeedClosed>> + Send;
}

/// A valid request for a WebSocket in place of a stream.
#[derive(Debug)]
pub(crate) struct Upgrade(pub(super) Option<EventsUpgrade>);

/// A WebSocket that is asked for.
#[derive(Debug)]
pub(crate) struct EventsUpgrade {
    handshake: Handshake,
    /// Held as long as the socket, so that it counts as a connection.
    peer: Option<Peer>,
}

impl FromRequest<App> for Upgrade {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, _: &App) -> Result<Self, ApiError> {
        if !Handshake::is_asked(request.headers()) {
            return Ok(Self(None));
        }
        EventsUpgrade::new(&mut request).map(|asked| Self(Some(asked)))
    }
}

impl Part for Upgrade {
    fn describe(operation: &mut Operation<'_>) {
        operation.errors(codes::WEBSOCKET);
    }
}

/// The answer to an upgrade.
#[derive(Debug)]
pub(crate) struct Socket(Response);

impl IntoResponse for Socket {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Answer for Socket {
    fn describe(operation: &mut Operation<'_>) {
        let text = "For a request with `Upgrade: websocket`: the same events, one text message each";
        operation.empty(StatusCode::SWITCHING_PROTOCOLS.as_u16(), text);
    }
}

impl EventsUpgrade {
    /// Checks a request for a WebSocket.
    pub(crate) fn new(request: &mut Request) -> Result<Self, ApiError> {
        let handshake = Handshake::new(request)?;
        let peer = request.extensions().get::<Peer>().cloned();
        Ok(Self { handshake, peer })
    }

    /// Sends all events of a source.
    pub(crate) fn serve(self, app: &App, source: impl Source) -> Socket {
        let (response, socket) = self.handshake.accept(None);
        let config = app.config();
        let patience = StreamTimeouts {
            ping_interval: config.ping_interval,
            pong_timeout: config.pong_timeout,
            stall_timeout: config.stall_timeout,
        };
        let (shutdown, peer) = (app.shutdown().clone(), self.peer);
        app.streams().spawn(async move {
            if let Some(socket) = socket.await {
                listen::until_ended(peer, push(socket, source, patience, shutdown)).await;
            }
        });
        Socket(response)
    }
}

#[derive(Clone, Copy, Debug)]
struct StreamTimeouts {
    ping_interval: Duration,
    /// Without any sign of life.
    pong_timeout: Duration,
    /// Without room for what is written.
    stall_timeout: Duration,
}

/// The reason of the end of a connection.
#[derive(Debug)]
enum End {
    /// The client says goodbye, with this payload.
    Theirs(Bytes),
    Gone,
    Ours(Close),
}

async fn push(
    socket: UpgradedSocket,
    mut source: impl Source,
    patience: StreamTimeouts,
    shutdown: CancellationToken,
) {
    let (reading, writing) = socket.stream.into_split();
    let mut reader = Reader::new(reading, &socket.early, MESSAGE_BYTES);
    let mut outbox = Outbox::default();
    let end = {
        let mut stopping = pin!(shutdown.cancelled());
        let mut ping = interval_at(Instant::now() + patience.ping_interval, patience.ping_interval);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut signs = Liveness::new();
        loop {
            let end = tokio::select! {
                biased;
                () = stopping.as_mut() => Some(End::Ours(Close::draining())),
                incoming = reader.next() => {
                    signs.last = Instant::now();
                    received(incoming, &mut outbox)
                }
                now = ping.tick() => {
                    signs.look(now, &writing, &outbox);
                    outbox.ping();
                    let silent = now.duration_since(signs.last) >= patience.pong_timeout;
                    silent.then(|| End::Ours(Close::silent()))
                }
                events = source.next() => match events {
                    Ok(Some(events)) => {
                        for event in events {
                            outbox.text(event);
                        }
                        None
                    }
                    Ok(None) => Some(End::Ours(Close::complete())),
                    Err(closed) => Some(End::Ours(Close::of(&closed))),
                },
            };
            if let Some(end) = end {
                break end;
            }
            let flushed = tokio::select! {
                biased;
                () = stopping.as_mut() => break End::Ours(Close::draining()),
                flushed = outbox.flush(&writing, patience.stall_timeout) => flushed,
            };
            match flushed {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => break End::Ours(Close::stalled()),
                Err(_) => break End::Gone,
            }
            // Neither a full log nor a willing socket ever waits: let other tasks run.
            tokio::task::yield_now().await;
        }
    };
    tracing::debug!(?end, "a client's events end");
    // The feed is let go first: nothing more is read for this client.
    drop(source);
    let ours = matches!(end, End::Ours(_));
    match end {
        End::Gone => return,
        End::Theirs(payload) => outbox.close_back(payload),
        End::Ours(close) => outbox.close(&close),
    }
    closing_handshake(&mut outbox, &writing, &mut reader, ours).await;
}

/// Handles a message of the client.
fn received(incoming: Result<IncomingMessage, Close>, outbox: &mut Outbox) -> Option<End> {
    match incoming {
        Ok(IncomingMessage::Ping(payload)) => outbox.pong(payload),
        Ok(IncomingMessage::Pong) => {}
        Ok(IncomingMessage::Close(payload)) => return Some(End::Theirs(payload)),
        Ok(IncomingMessage::End) => return Some(End::Gone),
        Ok(IncomingMessage::Text(_) | IncomingMessage::Binary(_)) => {
            return Some(End::Ours(Close::unsupported(
                "this WebSocket accepts no messages",
            )));
        }
        Err(close) => return Some(End::Ours(close)),
    }
    None
}

/// Signs of life. A slow client answers pings late, but its TCP acknowledges.
#[derive(Debug)]
struct Liveness {
    last: Instant,
    acknowledged: u64,
}

impl Liveness {
    fn new() -> Self {
        Self {
            last: Instant::now(),
            acknowledged: 0,
        }
    }

    fn look(&mut self, now: Instant, socket: &WriteHalf, outbox: &Outbox) {
        let Some(left) = socket.unacknowledged() else {
            return;
        };
        let acknowledged = outbox.written().saturating_sub(left);
        // A ping alone is acknowledged by a machine whose program hangs, so it is no sign of the program.
        if acknowledged > self.acknowledged + PING_BYTES {
            self.last = now;
        }
        self.acknowledged = acknowledged;
    }
}
