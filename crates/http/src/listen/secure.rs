//! TLS: the handshake of a connection, bounded in time and in number.
//!
//! A connection in its handshake is one of those that have shown no token. There are at most
//! [`HttpConfig::max_waiting`](crate::HttpConfig::max_waiting) of them, and a new one evicts the oldest: clients that never finish keep
//! no client out.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::Peer;
use crate::socket::Stream;

/// Time for a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// With what each new connection makes its handshake; `None`: there is no TLS. What is sent there counts from the next connection on.
#[derive(Clone, Debug, Default)]
pub struct Tls(Option<watch::Receiver<Arc<ServerConfig>>>);

impl Tls {
    /// With the latest of these settings.
    pub fn new(settings: watch::Receiver<Arc<ServerConfig>>) -> Self {
        Self(Some(settings))
    }

    /// Checks whether connections are encrypted.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The connection after its handshake, if it has one. `None`: it has failed, or took too long, or has to make room.
    pub(super) async fn accept(&self, stream: TcpStream, peer: &Peer) -> Option<Stream> {
        let Some(settings) = &self.0 else {
            return Some(Stream::Plain(stream));
        };
        let acceptor = TlsAcceptor::from(Arc::clone(&settings.borrow()));
        let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream));
        let address = peer.address();
        tokio::select! {
            done = handshake => match done {
                Ok(Ok(stream)) => return Some(Stream::Tls(Box::new(stream))),
                Ok(Err(error)) => tracing::debug!(peer = %address, %error, "a TLS handshake failed"),
                Err(_) => tracing::debug!(peer = %address, "a TLS handshake took too long"),
            },
            () = peer.evicted() => tracing::debug!(peer = %address, "a TLS handshake made room for others"),
        }
        None
    }
}
