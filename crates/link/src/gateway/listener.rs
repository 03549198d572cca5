//! Accepts or dials the connections of a shim, and checks the proof that it is that shim.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use himalia_shim_protocol::{Decoder, Frame, Hello, HelloDenied, ToGateway, ToShim, VersionRange};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::dialer::Dialer;
use super::incoming::IncomingStream;
use super::stream::StreamConnection;
use super::streams::Streams;
use super::unproven::UnprovenBudget;
use crate::{Connection, Endpoint};

/// Connections of one socket that have not proven the key yet. One more, and the oldest is closed: a shim says its hello as soon as
/// it is connected, so those that are old are not shims. More than a program in the sandbox opens at once by the library for tools.
const UNPROVEN_MAX: usize = 64;
/// Time for the head of a hello, and again for its rest.
const PROOF_TIME: Duration = Duration::from_secs(1);
/// Time that a hello waits for room in the budget of all sandboxes.
const ROOM_TIME: Duration = Duration::from_secs(5);
/// Connections that are accepted in [`ACCEPT_WINDOW`]: a sandbox that calls without end costs a bounded part of a core.
const ACCEPT_MAX: u32 = 64;
/// See [`ACCEPT_MAX`].
const ACCEPT_WINDOW: Duration = Duration::from_millis(10);
/// Pause after a failed accept (out of descriptors), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A lane whose shim has proven the key. The welcome is still to be sent.
#[derive(Debug)]
pub struct Arrival {
    pub hello: Box<Hello>,
    /// The version that both speak.
    pub protocol: u16,
    pub connection: Connection,
}

/// Checks that let a shim in.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The SHA-256 of the sandbox key.
    pub key_hash: [u8; 32],
    /// The epoch of this gateway: a shim that has seen a later one is refused.
    pub epoch: u64,
    /// Bounds for callers without the key, over all sandboxes.
    pub unproven: Arc<UnprovenBudget>,
}

/// Kinds of connections with the right key.
enum ProvenConnection {
    Lane(Box<Arrival>),
    Stream(String, StreamConnection),
}

/// Lets in the shim of one link.
#[derive(Debug)]
pub struct Listener(Source);

#[derive(Debug)]
enum Source {
    Unix(UnixListener, Arc<Gatekeeper>),
    Tls(Dialer),
}

/// Asks who is there.
#[derive(Debug)]
pub(super) struct Gatekeeper {
    endpoint: Endpoint,
    gate: Gate,
}

impl Listener {
    /// Binds the socket of this link, in place of one that an earlier gateway left; or gets ready to dial.
    pub(crate) fn bind(endpoint: Endpoint, link: &str, gate: Gate) -> io::Result<Self> {
        let gatekeeper = |endpoint| Arc::new(Gatekeeper { endpoint, gate });
        Ok(Self(match endpoint {
            Endpoint::Unix(dir) => Source::Unix(listen(&dir.join(link))?, gatekeeper(Endpoint::Unix(dir))),
            Endpoint::Tls(tls) => Source::Tls(Dialer {
                endpoint: tls.clone(),
                link: link.to_owned(),
                gatekeeper: gatekeeper(Endpoint::Tls(tls)),
            }),
        }))
    }

    /// Accepts, or dials, until `stop`. Connections that prove the key go to `arrivals` or, for a stream, to the task that
    /// expects it; others get a denial and are closed.
    pub async fn run(self, arrivals: mpsc::Sender<Arrival>, streams: Arc<Streams>, stop: CancellationToken) {
        match self.0 {
            Source::Unix(socket, gatekeeper) => accept(socket, gatekeeper, arrivals, streams, stop).await,
            Source::Tls(dialer) => dialer.run(arrivals, streams, stop).await,
        }
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = UnixListener::bind(path)?;
    // The shim may run as another user; the directory above is closed to others and the name is a secret.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    Ok(socket)
}

async fn accept(
    socket: UnixListener,
    gatekeeper: Arc<Gatekeeper>,
    arrivals: mpsc::Sender<Arrival>,
    streams: Arc<Streams>,
    stop: CancellationToken,
) {
    // Dropping one of them closes a connection that is not proven yet.
    let mut unproven: VecDeque<oneshot::Sender<()>> = VecDeque::new();
    let mut pace = Pace::new(ACCEPT_MAX, ACCEPT_WINDOW);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                unproven.retain(|kept| !kept.is_closed());
                if unproven.len() >= UNPROVEN_MAX {
                    unproven.pop_front();
                }
                let (kept, closed) = oneshot::channel();
                unproven.push_back(kept);
                let (gatekeeper, arrivals, streams) =
                    (Arc::clone(&gatekeeper), arrivals.clone(), Arc::clone(&streams));
                tokio::spawn(async move {
                    let proven = tokio::select! {
                        proven = gatekeeper.prove(IncomingStream::Unix(stream), Decoder::unproven()) => proven,
                        _ = closed => None,
                    };
                    pass(proven, &arrivals, &streams).await;
                });
                if let Some(pause) = pace.accepted(Instant::now()) {
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep(pause) => {}
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a shim's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Gives a connection to who waits for it.
async fn pass(proven: Option<ProvenConnection>, arrivals: &mpsc::Sender<Arrival>, streams: &Streams) {
    match proven {
        // A closed receiver means that the link has ended.
        Some(ProvenConnection::Lane(arrival)) => drop(arrivals.send(*arrival).await),
        Some(ProvenConnection::Stream(name, socket)) => streams.arrive(&name, socket),
        None => {}
    }
}

impl Gatekeeper {
    /// Lets in who proves the key.
    pub(super) async fn admit(
        &self,
        stream: IncomingStream,
        decoder: Decoder,
        arrivals: &mpsc::Sender<Arrival>,
        streams: &Streams,
    ) {
        pass(self.prove(stream, decoder).await, arrivals, streams).await;
    }

    /// `decoder` may hold what came already.
    async fn prove(&self, mut stream: IncomingStream, mut decoder: Decoder) -> Option<ProvenConnection> {
        let hello = match self.hello(&mut stream, &mut decoder).await {
            Ok(hello) => hello,
            Err(reason) => {
                self.gate.unproven.refused(&self.endpoint, &reason);
                deny(stream, reason).await;
                return None;
            }
        };
        decoder.proven();
        if hello.epoch_seen > self.gate.epoch {
            let (seen, ours) = (hello.epoch_seen, self.gate.epoch);
            tracing::error!(
                seen,
                ours,
                "a shim has seen a later gateway: is another one running?"
            );
            deny(stream, format!("epoch {ours} is older than {seen}")).await;
            return None;
        }
        if let Some(name) = hello.stream {
            return Some(ProvenConnection::Stream(
                name,
                StreamConnection::new(stream, decoder),
            ));
        }
        let protocol = match VersionRange::OURS.negotiate(hello.versions) {
            Ok(protocol) => protocol,
            Err(error) => {
                tracing::error!(build = %hello.build, %error, "a shim speaks another protocol");
                deny(stream, error.to_string()).await;
                return None;
            }
        };
        // The shim has the key in memory, and nothing else needs it.
        if let Err(error) = self.endpoint.remove_key() {
            tracing::warn!(%error, "cannot delete a sandbox's key file");
        }
        let socket = stream.into_socket();
        let socket = socket
            .inspect_err(|error| tracing::warn!(%error, "cannot watch a shim's connection"))
            .ok()?;
        Some(ProvenConnection::Lane(Box::new(Arrival {
            hello,
            protocol,
            connection: Connection::new(socket, decoder),
        })))
    }

    /// A hello with the right key, or why there is none. Takes at most [`himalia_shim_protocol::HELLO_BYTES`], and those only while
    /// there is room for them in the budget of all sandboxes.
    async fn hello(&self, stream: &mut IncomingStream, decoder: &mut Decoder) -> Result<Box<Hello>, String> {
        let late = |_| "no hello in time".to_owned();
        let first = timeout(
            PROOF_TIME,
            read_until(stream, decoder, |decoder| decoder.wanted() > 0),
        );
        let mut frame = first.await.map_err(late)??;
        let mut room = None;
        if frame.is_none() {
            let wait = timeout(ROOM_TIME, self.gate.unproven.room(decoder.wanted()));
            room = wait.await.map_err(|_| "too many others say hello".to_owned())?;
            let rest = timeout(PROOF_TIME, read_until(stream, decoder, |_| false));
            frame = rest.await.map_err(late)??;
        }
        let frame = frame.ok_or_else(|| "no hello".to_owned())?;
        let ToGateway::Hello(hello) = ToGateway::parse(frame).map_err(|error| error.to_string())? else {
            return Err("the first frame must be a hello".to_owned());
        };
        drop(room);
        if !same(&Sha256::digest(hello.key.as_bytes()), &self.gate.key_hash) {
            return Err("wrong key".to_owned());
        }
        Ok(hello)
    }
}

/// Reads until there is a whole frame, or `enough` of one.
async fn read_until(
    stream: &mut (impl AsyncRead + Unpin),
    decoder: &mut Decoder,
    enough: impl Fn(&Decoder) -> bool,
) -> Result<Option<Frame>, String> {
    loop {
        let frame = decoder.next().map_err(|error| error.to_string())?;
        if frame.is_some() || enough(decoder) {
            return Ok(frame);
        }
        let read = stream.read_buf(decoder.buffer()).await;
        if read.map_err(|error| error.to_string())? == 0 {
            return Err("closed before its hello".to_owned());
        }
    }
}

/// Holds accepting to so many in each window of time.
#[derive(Debug)]
pub(super) struct Pace {
    max: u32,
    window: Duration,
    /// When the present window began.
    began: Option<Instant>,
    accepted: u32,
}

impl Pace {
    pub(super) fn new(max: u32, window: Duration) -> Self {
        Self {
            max,
            window,
            began: None,
            accepted: 0,
        }
    }

    /// One more was accepted. How long to wait before the next.
    pub(super) fn accepted(&mut self, now: Instant) -> Option<Duration> {
        let began = *self.began.get_or_insert(now);
        let age = now.saturating_duration_since(began);
        if age >= self.window {
            (self.began, self.accepted) = (Some(now), 1);
            return None;
        }
        self.accepted += 1;
        if self.accepted < self.max {
            return None;
        }
        (self.began, self.accepted) = (None, 0);
        Some(self.window.saturating_sub(age))
    }
}

async fn deny(mut stream: IncomingStream, reason: String) {
    let mut out = bytes::BytesMut::new();
    if ToShim::Denied(HelloDenied { reason }).encode(&mut out).is_ok() {
        // It is closed in any case.
        let _ = stream.write_all(&out).await;
        let _ = stream.shutdown().await;
    }
}

/// Compares in a time that does not depend on where two digests differ.
fn same(one: &[u8], other: &[u8; 32]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
