//! Shell, control and stdin: requests in, replies out, with the identities that they came with.

use std::path::Path;

use anyhow::{Result, anyhow};
use bytes::Bytes;
use himalia_wire::{DuplicateGuard, Limits, Parts, Signer, header, zmq};
use tokio::sync::mpsc;
use zeromq::{RouterRecvHalf, RouterSendHalf, RouterSocket, Socket, SocketRecv, SocketSend, ZmqMessage};

/// Requests that wait; then the socket is not read until there is room.
const QUEUE: usize = 4096;

/// A verified request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) identities: Vec<Bytes>,
    pub(super) msg_type: String,
    pub(super) parts: Parts,
}

/// Sends replies.
#[derive(Clone)]
pub(super) struct Replies {
    socket: RouterSendHalf,
    signer: Signer,
    /// Whether all identity frames of a request come back, or only the one that the socket needs.
    echo: bool,
}

impl Replies {
    pub(super) async fn send(&mut self, identities: &[Bytes], parts: &Parts) -> Result<()> {
        let keep = if self.echo {
            identities.len()
        } else {
            identities.len().min(1)
        };
        let frames = zmq::encode(&identities[..keep], parts, &self.signer);
        let message = ZmqMessage::try_from(frames).map_err(|error| anyhow!("{error:?}"))?;
        self.socket.send(message).await?;
        Ok(())
    }
}

/// Binds a socket and starts the task that reads it.
pub(super) async fn bind(
    endpoint: &str,
    signer: &Signer,
    echo: bool,
) -> Result<(Replies, mpsc::Receiver<Request>)> {
    let mut socket = RouterSocket::new();
    unlink(endpoint);
    socket.bind(endpoint).await?;
    let (sender, receiver) = socket.split();
    let (queue, requests) = mpsc::channel(QUEUE);
    tokio::spawn(read(receiver, queue, signer.clone()));
    Ok((
        Replies {
            socket: sender,
            signer: signer.clone(),
            echo,
        },
        requests,
    ))
}

async fn read(mut socket: RouterRecvHalf, queue: mpsc::Sender<Request>, signer: Signer) {
    let mut duplicates = DuplicateGuard::new();
    loop {
        let Ok(message) = socket.recv().await else {
            continue;
        };
        // As ipykernel: what is forged, broken or was seen before is reported and dropped.
        let incoming = match zmq::decode(message.into_vec(), &signer, &Limits::KERNEL) {
            Ok(incoming) => incoming,
            Err(error) => {
                eprintln!("fake kernel: invalid message: {error}");
                continue;
            }
        };
        if !duplicates.check(&incoming.signature) {
            eprintln!("fake kernel: duplicate signature");
            continue;
        }
        let msg_type = match header::peek(&incoming.parts.header) {
            Ok(peek) => peek.msg_type.into_owned(),
            Err(error) => {
                eprintln!("fake kernel: invalid header: {error}");
                continue;
            }
        };
        let request = Request {
            identities: incoming.identities,
            msg_type,
            parts: incoming.parts,
        };
        if queue.send(request).await.is_err() {
            return;
        }
    }
}

/// Removes the socket file of an earlier process with the same connection file, as libzmq does.
pub(super) fn unlink(endpoint: &str) {
    if let Some(path) = endpoint.strip_prefix("ipc://") {
        let _ = std::fs::remove_file(Path::new(path));
    }
}
