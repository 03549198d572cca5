//! The one file that names the `zeromq` crate.
//!
//! That crate has no limits of its own: a kernel that announces a frame of 2^50 bytes aborts this process. It is the
//! kernel's own sandbox that ends then, and `--memory-limit` bounds what a slower flood can take.

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt};
use himalia_shim_protocol::RefusalKind;
use himalia_wire::{ConnectionFile, Socket as Name};
use tokio::time::{sleep, timeout};
use zeromq::util::PeerIdentity;
use zeromq::{
    DealerRecvHalf, DealerSendHalf, DealerSocket, ReqSocket, Socket, SocketEvent, SocketOptions, SocketRecv,
    SocketSend, SubSocket, ZmqError, ZmqMessage,
};

/// For one handshake once the socket is there.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// All sockets of a kernel but the heartbeat.
pub(super) struct Sockets {
    pub(super) shell: (Sender, Receiver),
    pub(super) control: (Sender, Receiver),
    pub(super) stdin: (Sender, Receiver),
    pub(super) iopub: Receiver,
}

/// Connects to a kernel, to all sockets at once, iopub subscribed, so that nothing is missed once shell is used. Waits for
/// each socket to appear.
pub(super) async fn connect(file: &ConnectionFile, identity: &str) -> Result<Sockets, String> {
    let (iopub, shell, control, stdin) = tokio::try_join!(
        subscriber(file),
        dealer(file, Name::Shell, identity),
        dealer(file, Name::Control, identity),
        dealer(file, Name::Stdin, identity),
    )?;
    Ok(Sockets {
        shell,
        control,
        stdin,
        iopub,
    })
}

async fn subscriber(file: &ConnectionFile) -> Result<Receiver, String> {
    let mut iopub = SubSocket::with_options(options());
    let end = end_of(iopub.monitor());
    iopub
        .subscribe("")
        .await
        .map_err(|error| format!("iopub: {error}"))?;
    dial(&mut iopub, file, Name::Iopub).await?;
    Ok(Receiver {
        half: Half::Sub(iopub),
        end: Some(end),
    })
}

/// Reads of 8 to 64 KiB; the crate's own begin at 128 bytes and take several for one message.
fn options() -> SocketOptions {
    let mut options = SocketOptions::default();
    options.read_buffer(4096, 64 * 1024, 2);
    options
}

/// One identity for all three: kernels send input requests to the identity of the shell request.
async fn dealer(file: &ConnectionFile, name: Name, identity: &str) -> Result<(Sender, Receiver), String> {
    let mut options = options();
    options.peer_identity(
        identity
            .parse::<PeerIdentity>()
            .map_err(|error| error.to_string())?,
    );
    let mut socket = DealerSocket::with_options(options);
    let end = end_of(socket.monitor());
    dial(&mut socket, file, name).await?;
    let (send, receive) = socket.split();
    Ok((
        Sender(send),
        Receiver {
            half: Half::Dealer(receive),
            end: Some(end),
        },
    ))
}

async fn dial(socket: &mut impl Socket, file: &ConnectionFile, name: Name) -> Result<(), String> {
    let endpoint = file.endpoint(name);
    appeared(&endpoint).await;
    match timeout(HANDSHAKE, socket.connect(&endpoint)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("{name:?}: {error}")),
        Err(_) => Err(format!("{name:?}: no handshake within {} s", HANDSHAKE.as_secs())),
    }
}

/// Waits for the socket file: the crate's own retries begin at 50 ms and double.
async fn appeared(endpoint: &str) {
    let Some(path) = endpoint.strip_prefix("ipc://") else {
        return;
    };
    let mut pause = Duration::from_millis(2);
    while !Path::new(path).exists() {
        sleep(pause).await;
        pause = (pause + pause / 64).min(Duration::from_millis(20));
    }
}

/// Resolves when the peer has closed the connection and everything before that was received.
pub(super) type End = Pin<Box<dyn Future<Output = ()>>>;

fn end_of(mut events: impl Stream<Item = SocketEvent> + Unpin + 'static) -> End {
    Box::pin(async move {
        while let Some(event) = events.next().await {
            if matches!(event, SocketEvent::Disconnected(_)) {
                return;
            }
        }
    })
}

/// Sends to a kernel, never waits.
pub(super) struct Sender(DealerSendHalf);

impl Sender {
    /// Hands a message to the socket's queue.
    pub(super) fn send(&mut self, frames: Vec<Bytes>) -> Result<(), (RefusalKind, String)> {
        let message =
            ZmqMessage::try_from(frames).map_err(|error| (RefusalKind::Never, error.to_string()))?;
        let (kind, reason) = match self.0.send(message).now_or_never() {
            Some(Ok(())) => return Ok(()),
            Some(Err(ZmqError::ReturnToSender { .. })) => (
                RefusalKind::NotRunning,
                "the kernel has closed the channel".to_owned(),
            ),
            // The connection is gone, and the message was not queued for it.
            Some(Err(error)) => (RefusalKind::NotRunning, error.to_string()),
            // A full queue may have taken this one in all the same, so that it must not be sent again.
            None => (
                RefusalKind::Never,
                "the kernel does not read the channel".to_owned(),
            ),
        };
        Err((kind, reason))
    }
}

/// Receives from a kernel.
pub(super) struct Receiver {
    half: Half,
    end: Option<End>,
}

enum Half {
    Dealer(DealerRecvHalf),
    Sub(SubSocket),
}

impl Receiver {
    /// The next message as its frames. An error does not end the stream by itself.
    pub(super) async fn next(&mut self) -> Result<Vec<Bytes>, String> {
        let message = match &mut self.half {
            Half::Dealer(socket) => socket.recv().await,
            Half::Sub(socket) => socket.recv().await,
        };
        message
            .map(ZmqMessage::into_vec)
            .map_err(|error| error.to_string())
    }

    /// The end of the connection; can be taken once.
    pub(super) fn take_end(&mut self) -> Option<End> {
        self.end.take()
    }
}

/// The heartbeat of a kernel. A request without an answer leaves its socket useless, so the next one gets a new socket.
pub(super) struct Heart {
    endpoint: String,
    socket: Option<ReqSocket>,
}

impl Heart {
    pub(super) fn new(file: &ConnectionFile) -> Self {
        Self {
            endpoint: file.endpoint(Name::Heartbeat),
            socket: None,
        }
    }

    /// Does the kernel answer within `patience`?
    pub(super) async fn beat(&mut self, patience: Duration) -> bool {
        let mut socket = self.socket.take();
        let endpoint = &self.endpoint;
        let answer = timeout(patience, async {
            let mut fresh = if let Some(socket) = socket.take() {
                socket
            } else {
                let mut socket = ReqSocket::new();
                socket.connect(endpoint).await.ok()?;
                socket
            };
            fresh.send(Bytes::from_static(b"ping").into()).await.ok()?;
            fresh.recv().await.ok()?;
            Some(fresh)
        });
        self.socket = answer.await.ok().flatten();
        self.socket.is_some()
    }
}
