//! Connections to the gateway that wait for a client.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use himalia_link::{Gateway, PlainSocket, Redial};
use himalia_shim_protocol::{Hello, Lane, NETWORK_STREAM, ToGateway, VersionRange};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};

use super::GatewayRoute;

pub(super) const PARKED: usize = 2;
/// Pauses between two dials.
const REDIAL_FIRST: Duration = Duration::from_millis(1);
const REDIAL_LONGEST: Duration = Duration::from_millis(200);
/// Interval of checks for another listening gateway.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A client that wants a connection to the gateway.
pub(super) type Want = oneshot::Sender<PlainSocket>;

/// Keeps one connection, and makes the next when a client has it.
pub(super) struct ParkedConnection {
    pub(super) gateway: Gateway,
    pub(super) key: String,
    pub(super) way: watch::Receiver<GatewayRoute>,
    pub(super) wants: Arc<Mutex<mpsc::Receiver<Want>>>,
}

impl ParkedConnection {
    pub(super) async fn run(mut self) {
        let mut redial = Redial::new(REDIAL_FIRST, REDIAL_LONGEST);
        let mut quiet = false;
        loop {
            let way = self.way.borrow_and_update().clone();
            let begun = Instant::now();
            let parked = match &way.link {
                Some(link) => self.park(link, way.epoch).await,
                None => Err(io::ErrorKind::NotConnected.into()),
            };
            match parked {
                // A client has it.
                Ok(true) => {
                    quiet = false;
                    redial = Redial::new(REDIAL_FIRST, REDIAL_LONGEST);
                    continue;
                }
                Ok(false) => redial.connected(begun.elapsed()),
                Err(error) if !std::mem::replace(&mut quiet, true) => {
                    tracing::info!("no connection for the network: {error}");
                }
                Err(_) => {}
            }
            sleep(redial.pause(crate::random::random_u64().unwrap_or(0))).await;
        }
    }

    /// Makes a connection and gives it to a client. False when it was closed before.
    async fn park(&mut self, link: &str, epoch: u64) -> io::Result<bool> {
        // Before it connects: a socket that is replaced meanwhile counts as another one.
        let listening = self.gateway.listening(link);
        let mut socket = self.gateway.connect_plain(link).await?;
        socket.write_all(&self.hello(epoch)?).await?;
        socket.flush().await?;
        let mut byte = [0];
        loop {
            let wanted = async { self.wants.lock().await.recv().await };
            tokio::select! {
                biased;
                // The gateway says nothing first.
                _ = socket.read(&mut byte) => return Ok(false),
                wanted = wanted => match wanted.map(|want| want.send(socket)) {
                    Some(Ok(())) => return Ok(true),
                    // The client has gone.
                    Some(Err(back)) => socket = back,
                    None => return Ok(false),
                },
                changed = self.way.changed() => return changed.map(|()| false).map_err(io::Error::other),
                () = sleep(LOOK_EVERY) => {
                    if self.gateway.listening(link) != listening {
                        return Ok(false);
                    }
                }
            }
        }
    }

    fn hello(&self, epoch: u64) -> io::Result<BytesMut> {
        let hello = Hello {
            lane: Lane::Now,
            key: self.key.clone(),
            versions: VersionRange::OURS,
            build: env!("CARGO_PKG_VERSION").to_owned(),
            epoch_seen: epoch,
            pid: i32::try_from(std::process::id()).unwrap_or(i32::MAX),
            kernels: Vec::new(),
            stream: Some(NETWORK_STREAM.to_owned()),
        };
        let mut out = BytesMut::new();
        ToGateway::Hello(Box::new(hello))
            .encode(&mut out)
            .map_err(io::Error::other)?;
        Ok(out)
    }
}
