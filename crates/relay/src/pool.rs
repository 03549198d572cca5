//! Connections to peers, and requests on them.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use http::{Request, Uri, header, uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use crate::authority::Identity;
use crate::cut::Cuttable;
use crate::statement::HEADER;
use crate::{
    CONNECT_TIME, CONNECTION_WINDOW, MAX_STREAMS, PING_INTERVAL, PING_TIMEOUT, SEND_BUFFER, STREAM_WINDOW,
};

/// Any error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of a request to a peer.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;
/// Response of a peer.
pub type Response = http::Response<ResponseBody>;

/// Boxes a body.
pub fn body<B>(body: B) -> Body
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// A body without bytes.
pub fn empty() -> Body {
    body(Empty::new())
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    pub replica: String,
    /// Address for peers: `host:port`.
    pub address: String,
}

/// Reasons why a peer did not respond.
#[derive(Debug, Error)]
pub enum SendError {
    /// The request was not sent, so that it may be sent again.
    #[error("{0}")]
    NotSent(String),
    /// The connection was lost: the peer may have done what it was asked, or a part of it.
    #[error("{0}")]
    Lost(String),
    /// As many requests as may be are open at this peer.
    #[error("too many requests are relayed to this replica")]
    Busy,
    /// The request was relayed already, or its caller does not fit into a statement.
    #[error("this request cannot be relayed")]
    Refused,
}

/// Counts of relayed requests since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayUse {
    /// Requests that a peer responded to.
    pub relayed: u64,
    /// Requests that no peer responded to.
    pub failed: u64,
    /// Responses that are being read, streams among them.
    pub open: u64,
}

/// One connection to each peer, made when it is needed.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    identity: Identity,
    /// By address. Those that have ended are dropped when one is added.
    links: Mutex<HashMap<String, Link>>,
    relayed: AtomicU64,
    failed: AtomicU64,
    open: AtomicU64,
}

#[derive(Clone)]
struct Link {
    dialled: Shared<BoxFuture<'static, Result<Sender, String>>>,
    streams: Arc<Semaphore>,
    /// Ends the connection.
    cut: CancellationToken,
}

type Sender = http2::SendRequest<Body>;

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

impl Link {
    /// True if it is connected, or about to be.
    fn is_open(&self) -> bool {
        match self.dialled.peek() {
            None => true,
            Some(dialled) => dialled.as_ref().is_ok_and(|sender| !sender.is_closed()),
        }
    }
}

impl Pool {
    /// Without any connection yet.
    pub fn new(identity: Identity) -> Self {
        Self(Arc::new(Inner {
            identity,
            links: Mutex::default(),
            relayed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            open: AtomicU64::new(0),
        }))
    }

    pub fn replica(&self) -> &str {
        self.0.identity.replica()
    }

    /// Counts of relayed requests so far.
    pub fn usage(&self) -> RelayUse {
        RelayUse {
            relayed: self.0.relayed.load(Ordering::Relaxed),
            failed: self.0.failed.load(Ordering::Relaxed),
            open: self.0.open.load(Ordering::Relaxed),
        }
    }

    /// Addresses of the peers to which there is a connection, or one is being made.
    pub fn connected_to(&self) -> Vec<String> {
        let links = self.0.links.lock();
        let open = links.iter().filter(|(_, link)| link.is_open());
        open.map(|(address, _)| address.clone()).collect()
    }

    /// Cuts the connection to a peer, if there is one: what waits for it fails, and the next request makes a new one. For a peer that
    /// is known to be dead although its connection is not.
    pub fn cut(&self, address: &str) {
        if let Some(link) = self.0.links.lock().remove(address) {
            link.cut.cancel();
        }
    }

    /// Sends a request to a peer on behalf of a caller, and returns when the head of the response is there. The target of
    /// the request is its path; headers of its connection are not passed on.
    ///
    /// A peer that does not answer pings is given up after 10 s. Otherwise there is no limit of time: the caller has one.
    pub async fn send(
        &self,
        peer: &Peer,
        caller: &str,
        request: Request<Body>,
    ) -> Result<Response, SendError> {
        let sent = self.try_send(peer, caller, request).await;
        let count = if sent.is_ok() {
            &self.0.relayed
        } else {
            &self.0.failed
        };
        count.fetch_add(1, Ordering::Relaxed);
        sent
    }

    async fn try_send(
        &self,
        peer: &Peer,
        caller: &str,
        mut request: Request<Body>,
    ) -> Result<Response, SendError> {
        if request.headers().contains_key(HEADER) {
            return Err(SendError::Refused);
        }
        prepare(&mut request, &peer.address)?;
        let link = self.link(&peer.address);
        let permit = Arc::clone(&link.streams)
            .try_acquire_owned()
            .map_err(|_| SendError::Busy)?;
        let mut sender = self.connected(peer, link).await?;
        // Signed last, so that the wait for a connection does not make it old.
        let signer = self.0.identity.signer();
        let statement = signer.sign(&peer.replica, caller, request.method(), request.uri());
        let statement = statement.ok_or(SendError::Refused)?;
        request.headers_mut().insert(HEADER, statement);
        let response = match sender.try_send_request(request).await {
            Ok(response) => response,
            Err(mut error) => {
                let unsent = error.take_message().is_some();
                let reason = format!("replica {}: {}", peer.replica, explain(error.error()));
                return Err(if unsent {
                    SendError::NotSent(reason)
                } else {
                    SendError::Lost(reason)
                });
            }
        };
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Ok(response.map(|body| ResponseBody {
            body,
            pool: Arc::clone(&self.0),
            _permit: permit,
        }))
    }

    /// The connection to a peer; a closed one is replaced.
    async fn connected(&self, peer: &Peer, link: Link) -> Result<Sender, SendError> {
        let mut link = link;
        for last in [false, true] {
            match link.dialled.clone().await {
                Ok(sender) if !sender.is_closed() => return Ok(sender),
                Ok(_) if !last => {
                    self.forget(&peer.address, &link);
                    link = self.link(&peer.address);
                }
                Ok(_) => break,
                Err(reason) => {
                    self.forget(&peer.address, &link);
                    return Err(SendError::NotSent(format!("replica {}: {reason}", peer.replica)));
                }
            }
        }
        Err(SendError::NotSent(format!(
            "replica {}: the connection closed",
            peer.replica
        )))
    }

    fn link(&self, address: &str) -> Link {
        let mut links = self.0.links.lock();
        if let Some(link) = links.get(address) {
            return link.clone();
        }
        links.retain(|_, link| link.is_open());
        let cut = CancellationToken::new();
        let dial = dial(self.0.identity.clone(), address.to_owned(), cut.clone());
        let link = Link {
            dialled: dial.boxed().shared(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS as usize)),
            cut,
        };
        links.insert(address.to_owned(), link.clone());
        link
    }

    /// Drops this link, so that the next request dials again.
    fn forget(&self, address: &str, link: &Link) {
        let mut links = self.0.links.lock();
        if links
            .get(address)
            .is_some_and(|known| known.dialled.ptr_eq(&link.dialled))
        {
            links.remove(address);
        }
    }
}

/// Connects, and proves both sides.
async fn dial(identity: Identity, address: String, cut: CancellationToken) -> Result<Sender, String> {
    let connecting = async {
        let host = host_of(&address);
        let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("not a host: {host}"))?;
        let stream = TcpStream::connect(&address)
            .await
            .map_err(|error| error.to_string())?;
        let _ = stream.set_nodelay(true);
        let stream = Cuttable::new(stream, cut);
        let connector = TlsConnector::from(identity.client.clone());
        let stream = connector
            .connect(name, stream)
            .await
            .map_err(|error| error.to_string())?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(MAX_STREAMS as usize)
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| explain(&error))?;
        let address = address.clone();
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%address, error = explain(&error), "the connection to a replica ended");
            }
        });
        Ok(sender)
    };
    timeout(CONNECT_TIME, connecting)
        .await
        .unwrap_or_else(|_| Err("no connection in time".into()))
}

/// `host` of `host:port`, without the brackets of an IPv6 address.
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Gives a request the form of HTTP/2: an absolute target, no headers of a connection.
fn prepare(request: &mut Request<Body>, address: &str) -> Result<(), SendError> {
    let target = request.uri().path_and_query().cloned();
    let mut parts = uri::Parts::default();
    parts.scheme = Some(uri::Scheme::HTTPS);
    parts.authority = Some(address.parse().map_err(|_| SendError::Refused)?);
    parts.path_and_query = Some(target.unwrap_or_else(|| uri::PathAndQuery::from_static("/")));
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| SendError::Refused)?;
    *request.version_mut() = http::Version::HTTP_2;
    let headers = request.headers_mut();
    for name in [
        header::CONNECTION,
        header::HOST,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::EXPECT,
        http::HeaderName::from_static("keep-alive"),
        http::HeaderName::from_static("proxy-connection"),
    ] {
        headers.remove(name);
    }
    Ok(())
}

/// An error with its causes, which hyper leaves out.
fn explain(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

/// The body of a response. While it lives, the request counts as open; when it is dropped, the peer stops.
#[derive(Debug)]
pub struct ResponseBody {
    body: Incoming,
    pool: Arc<Inner>,
    _permit: OwnedSemaphorePermit,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.pool.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_address() {
        for (address, host) in [("a.b:1", "a.b"), ("[::1]:1", "::1"), ("10.0.0.1:9", "10.0.0.1")] {
            assert_eq!(host_of(address), host);
        }
    }

    #[test]
    fn headers_of_a_connection_are_not_passed_on() {
        let request = Request::get("/v1/sessions?x=1").header("connection", "upgrade");
        let request = request.header("host", "front").header("accept", "text/plain");
        let mut request = request.body(empty()).unwrap();
        prepare(&mut request, "peer:8443").unwrap();
        assert_eq!(request.uri(), "https://peer:8443/v1/sessions?x=1");
        let names: Vec<_> = request.headers().keys().map(http::HeaderName::as_str).collect();
        assert_eq!(names, ["accept"]);
    }
}
