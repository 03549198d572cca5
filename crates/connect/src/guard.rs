//! Passes bytes between a ZMQ client and the `zeromq` crate, within limits.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::flow::Flow;
use crate::link::Io;
use crate::scan::{Refusal, Scanner};

/// Longest wait for a client's part of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Reasons why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionEnd {
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error("it said nothing for {} s", HANDSHAKE.as_secs())]
    Silent,
    #[error("it took nothing for 30 s while 64 MiB waited for it")]
    Stalled,
    #[error("another client has the same identity")]
    Taken,
    #[error("the connection ended")]
    Closed,
}

impl From<std::io::Error> for ConnectionEnd {
    fn from(_: std::io::Error) -> Self {
        Self::Closed
    }
}

/// Passes bytes between a client and the crate's socket, to the end of one of them. `claim` gets the client's identity before the
/// crate is, and says whether it may have it.
pub(crate) async fn pass(
    outer: Box<dyn Io>,
    inner: UnixStream,
    scanner: Scanner,
    flow: &Flow,
    claim: impl FnOnce(Vec<u8>) -> bool,
) -> ConnectionEnd {
    let (outer_read, outer_write) = tokio::io::split(outer);
    let (inner_read, inner_write) = inner.into_split();
    let ended = tokio::select! {
        ended = inward(outer_read, inner_write, scanner, claim) => ended,
        ended = outward(inner_read, outer_write, flow) => ended,
    };
    ended.err().unwrap_or(ConnectionEnd::Closed)
}

async fn inward(
    mut client: ReadHalf<Box<dyn Io>>,
    mut socket: OwnedWriteHalf,
    mut scanner: Scanner,
    claim: impl FnOnce(Vec<u8>) -> bool,
) -> Result<(), ConnectionEnd> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut claim = Some(claim);
    let patience = tokio::time::sleep(HANDSHAKE);
    tokio::pin!(patience);
    loop {
        let read = tokio::select! {
            read = client.read(&mut buffer) => read?,
            () = &mut patience, if claim.is_some() => return Err(ConnectionEnd::Silent),
        };
        if read == 0 {
            return Ok(());
        }
        let bytes = &buffer[..read];
        if let Some(identity) = scanner.feed(bytes)?
            && let Some(claim) = claim.take()
            && !claim(identity)
        {
            return Err(ConnectionEnd::Taken);
        }
        socket.write_all(bytes).await?;
    }
}

async fn outward(
    mut socket: OwnedReadHalf,
    mut client: WriteHalf<Box<dyn Io>>,
    flow: &Flow,
) -> Result<(), ConnectionEnd> {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let read = socket.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        client.write_all(&buffer[..read]).await?;
        flow.took(read as u64);
    }
}
