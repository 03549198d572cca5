//! One connection of a ZMQ client, behind its guard.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use himalia_wire::{Channel, Limits as Wire, Socket};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use zeromq::{
    RouterRecvHalf, RouterSendHalf, RouterSocket, SocketRecv as _, SocketSend as _, XPubSocket, ZmqMessage,
};

use crate::flow::Flow;
use crate::guard::{self, ConnectionEnd};
use crate::hub::Hub;
use crate::link::Io;
use crate::outbox::{Outbox, OutboxReceiver, outbox};
use crate::scan::{Limits, Scanner};

/// A message of a client within the limits of the gateway, with its identities, delimiter and signature.
const REQUESTS: Limits = Limits {
    message_bytes: Wire::CLIENT.message_bytes as u64 + (64 << 10),
    frames: 300,
    messages: None,
};
/// The topics that a client wants.
const SUBSCRIPTIONS: Limits = Limits {
    message_bytes: 1024,
    frames: 1,
    messages: Some(1024),
};
/// Bounds for heartbeats, which are echoed.
const HEARTBEATS: Limits = Limits {
    message_bytes: 1024,
    frames: 4,
    messages: None,
};

/// A connection as long as it lasts.
struct Peer {
    hub: Arc<Hub>,
    outbox: Arc<Outbox>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.hub.leave(&self.outbox);
    }
}

/// Serves a client that connected to one of the five sockets, to its end. `path` is where it meets its socket of the crate.
pub(crate) async fn serve(
    hub: Arc<Hub>,
    socket: Socket,
    io: Box<dyn Io>,
    path: &Path,
    report: &(dyn Fn(&str) + Sync),
) -> ConnectionEnd {
    let (flow, cut) = (Arc::new(Flow::default()), CancellationToken::new());
    let (outbox, waiting) = outbox(Arc::clone(&flow), cut.clone());
    let peer = Peer {
        hub,
        outbox: Arc::new(outbox),
    };
    let served = async {
        match socket {
            Socket::Iopub => iopub(&peer, waiting, io, path, &flow).await,
            Socket::Heartbeat => heartbeat(io, path, &flow).await,
            Socket::Shell => router(&peer, Channel::Shell, waiting, io, path, &flow, report).await,
            Socket::Control => router(&peer, Channel::Control, waiting, io, path, &flow, report).await,
            Socket::Stdin => router(&peer, Channel::Stdin, waiting, io, path, &flow, report).await,
        }
    };
    tokio::select! {
        ended = served => ended.unwrap_or_else(|error| error),
        () = cut.cancelled() => ConnectionEnd::Stalled,
    }
}

/// The crate's socket behind a guard, and a connection to it.
async fn adopt<S: zeromq::Socket>(path: &Path) -> Result<(S, UnixStream), ConnectionEnd> {
    let mut socket = S::new();
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    socket
        .bind_listener(listener)
        .await
        .map_err(|_| ConnectionEnd::Closed)?;
    let inner = UnixStream::connect(path).await?;
    // No other connection may use it.
    std::fs::remove_file(path)?;
    Ok((socket, inner))
}

async fn router(
    peer: &Peer,
    channel: Channel,
    waiting: OutboxReceiver,
    io: Box<dyn Io>,
    path: &Path,
    flow: &Flow,
    report: &(dyn Fn(&str) + Sync),
) -> Result<ConnectionEnd, ConnectionEnd> {
    let (socket, inner) = adopt::<RouterSocket>(path).await?;
    let (sender, receiver) = socket.split();
    let claim =
        |identity: Vec<u8>| identity.is_empty() || peer.hub.join(channel, identity.into(), &peer.outbox);
    Ok(tokio::select! {
        ended = guard::pass(io, inner, Scanner::new(REQUESTS), flow, claim) => ended,
        () = answer(sender, waiting, flow) => ConnectionEnd::Closed,
        () = listen(peer, channel, receiver, report) => ConnectionEnd::Closed,
    })
}

/// Passes on what the client sends.
async fn listen(peer: &Peer, channel: Channel, mut receiver: RouterRecvHalf, report: &(dyn Fn(&str) + Sync)) {
    while let Ok(message) = receiver.recv().await {
        let frames = message.into_vec();
        // Of a client without an identity the crate makes one up.
        if let Some(identity) = frames.first() {
            peer.hub.join(channel, identity.clone(), &peer.outbox);
        }
        if let Err(error) = peer.hub.request(channel, frames).await {
            report(&format!(
                "a message of a client on {} was dropped: {error}",
                channel.as_str()
            ));
        }
    }
}

/// Passes on what the gateway answers.
async fn answer(mut sender: RouterSendHalf, mut waiting: OutboxReceiver, flow: &Flow) {
    while let Some(frames) = waiting.next().await {
        flow.room().await;
        let bytes = frames.iter().map(Bytes::len).sum();
        // The first one is the identity, which is not sent.
        flow.gave(frames.iter().skip(1).map(Bytes::len));
        let Ok(message) = ZmqMessage::try_from(frames) else {
            continue;
        };
        if sender.send(message).await.is_err() {
            return;
        }
        waiting.done(bytes);
    }
}

async fn heartbeat(io: Box<dyn Io>, path: &Path, flow: &Flow) -> Result<ConnectionEnd, ConnectionEnd> {
    let (socket, inner) = adopt::<RouterSocket>(path).await?;
    let (mut sender, mut receiver) = socket.split();
    let echo = async {
        while let Ok(message) = receiver.recv().await {
            flow.room().await;
            flow.gave(message.iter().skip(1).map(Bytes::len));
            if sender.send(message).await.is_err() {
                return;
            }
        }
    };
    Ok(tokio::select! {
        ended = guard::pass(io, inner, Scanner::new(HEARTBEATS), flow, |_| true) => ended,
        () = echo => ConnectionEnd::Closed,
    })
}

async fn iopub(
    peer: &Peer,
    waiting: OutboxReceiver,
    io: Box<dyn Io>,
    path: &Path,
    flow: &Flow,
) -> Result<ConnectionEnd, ConnectionEnd> {
    let (socket, inner) = adopt::<XPubSocket>(path).await?;
    Ok(tokio::select! {
        ended = guard::pass(io, inner, Scanner::new(SUBSCRIPTIONS), flow, |_| true) => ended,
        () = publish(peer, socket, waiting) => ConnectionEnd::Closed,
    })
}

/// Sends a subscriber what is published. The socket has this one alone, and waits until it has taken a message.
async fn publish(peer: &Peer, mut socket: XPubSocket, mut waiting: OutboxReceiver) {
    let mut subscribed = false;
    loop {
        let frames = tokio::select! {
            biased;
            got = socket.recv() => {
                let Ok(message) = got else { return };
                let Some((1, topic)) = message.get(0).and_then(|frame| frame.split_first()) else {
                    continue;
                };
                let welcome = peer.hub.welcome(topic);
                if !std::mem::replace(&mut subscribed, true) {
                    peer.hub.subscribe(&peer.outbox);
                }
                // It was not in the queue.
                if send(&mut socket, welcome).await.is_none() {
                    return;
                }
                continue;
            }
            frames = waiting.next() => frames,
        };
        let Some(frames) = frames else { return };
        let Some(bytes) = send(&mut socket, frames).await else {
            return;
        };
        waiting.done(bytes);
    }
}

/// The bytes that were sent; `None` when the connection ended.
async fn send(socket: &mut XPubSocket, frames: Vec<Bytes>) -> Option<usize> {
    let bytes = frames.iter().map(Bytes::len).sum();
    let message = ZmqMessage::try_from(frames).ok()?;
    socket.send(message).await.ok()?;
    Some(bytes)
}
