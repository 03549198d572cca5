//! Requests that the gateway itself makes for sessions. Hosts are reached as they are for a session: a name is resolved once, its
//! address is checked and connected to, and the gateway's own proxy is used.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use himalia_model::network::{Host, PrivateAddresses};
use http::header::PROXY_AUTHORIZATION;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::util::BoxCloneSyncService;

use crate::connect::connect;
use crate::denial::{Denial, Target};
use crate::egress::Egress;
use crate::internal::Body;
use crate::upstream;

/// Time for a TLS handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Time for the head of a response.
const RESPONSE_TIME: Duration = Duration::from_secs(30);
/// Connections to one host that are kept for the next request, and for how long.
const KEPT: usize = 8;
const KEPT_TIME: Duration = Duration::from_secs(30);

/// A client of the gateway itself. Clones share connections.
#[derive(Clone)]
pub struct Outbound {
    egress: Arc<Egress>,
    client: Client<BoxCloneSyncService<Uri, TokioIo<Stream>, io::Error>, Body>,
}

impl Outbound {
    /// With these addresses beside the public ones, by the resolver, the proxies and the certificates of this process. Blocks on the
    /// disk.
    ///
    /// # Errors
    /// When there is no TLS.
    pub fn of_this_process(exceptions: Vec<PrivateAddresses>) -> io::Result<Self> {
        Self::with(Egress::of_this_process(exceptions))
    }

    /// The same, whatever proxies the environment names. Blocks on the disk.
    ///
    /// # Errors
    /// When there is no TLS.
    pub fn direct(exceptions: Vec<PrivateAddresses>) -> io::Result<Self> {
        Self::with(Egress {
            proxies: Matcher::builder().build(),
            ..Egress::of_this_process(exceptions)
        })
    }

    fn with(egress: Egress) -> io::Result<Self> {
        let egress = Arc::new(egress);
        let config = himalia_tls::client(himalia_tls::machine_certificates()).map_err(io::Error::other)?;
        let tls = TlsConnector::from(Arc::new(config));
        let dial = {
            let egress = Arc::clone(&egress);
            tower::service_fn(move |uri: Uri| {
                let (egress, tls) = (Arc::clone(&egress), tls.clone());
                async move { dial(&egress, tls, &uri).await.map(TokioIo::new) }
            })
        };
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(KEPT)
            .pool_idle_timeout(KEPT_TIME)
            .pool_timer(hyper_util::rt::TokioTimer::new())
            .build(BoxCloneSyncService::new(dial));
        Ok(Self { egress, client })
    }

    /// Sends a request with a whole URL, `http` or `https`, and waits for the head of the response. No redirect is followed.
    ///
    /// # Errors
    /// When the host may not be reached, is not reached, or does not answer.
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, Denial> {
        let target = target(request.uri())?;
        let plain = request.uri().scheme_str() == Some("http");
        let proxy = plain
            .then(|| upstream::proxy_for(&self.egress.proxies, &target, true))
            .flatten();
        if let Some(authorization) = proxy.and_then(|proxy| proxy.basic_auth().cloned()) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization);
        }
        match timeout(RESPONSE_TIME, self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(denial(&target, &error)),
            Err(_) => Err(Denial::unreachable(format_args!(
                "{target}: no response within {} s",
                RESPONSE_TIME.as_secs()
            ))),
        }
    }
}

impl Outbound {
    /// Checks that a host answers at a URL, with any status.
    ///
    /// # Errors
    /// When it does not.
    pub async fn answers(&self, url: &str) -> Result<(), Denial> {
        let body = Empty::new().map_err(|never| match never {}).boxed();
        let request = Request::head(url).body(body);
        let request = request.map_err(|error| Denial::request(format_args!("{url}: {error}")))?;
        self.send(request).await.map(drop)
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.egress.fmt(f)
    }
}

/// The host and port of a URL of `http` or `https`. An error does not repeat the URL, whose path can be a secret.
fn target(uri: &Uri) -> Result<Target, Denial> {
    let port = match uri.scheme_str() {
        Some("https") => 443,
        Some("http") => 80,
        _ => {
            return Err(Denial::request(format_args!("it is not a URL of http or https")));
        }
    };
    let host = uri.host().unwrap_or_default();
    let host =
        Host::parse(host).map_err(|reason| Denial::request(format_args!("the host {host:?} {reason}")))?;
    let port = uri.port_u16().unwrap_or(port);
    Ok(Target { host, port })
}

/// Reason of a failed request: a refusal of ours, or the error at the bottom.
fn denial(target: &Target, error: &hyper_util::client::legacy::Error) -> Denial {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    loop {
        if let Some(denied) = cause.downcast_ref::<DeniedError>() {
            return denied.0.clone();
        }
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match inner
            .map(|inner| inner as &(dyn std::error::Error + 'static))
            .or_else(|| cause.source())
        {
            Some(inner) => cause = inner,
            None => return Denial::unreachable(format_args!("{target}: {cause}")),
        }
    }
}

#[derive(Debug)]
struct DeniedError(Denial);

impl fmt::Display for DeniedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for DeniedError {}

async fn dial(egress: &Egress, tls: TlsConnector, uri: &Uri) -> io::Result<Stream> {
    let denied = |denial| io::Error::other(DeniedError(denial));
    let target = target(uri).map_err(denied)?;
    let plain = uri.scheme_str() == Some("http");
    let (stream, via) = connect(egress, &target, plain).await.map_err(denied)?;
    if plain {
        return Ok(Stream::Plain {
            stream,
            proxied: via.is_some(),
        });
    }
    let name = match &target.host {
        Host::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
        Host::Address(address) => ServerName::from(*address),
    };
    let shaken = timeout(HANDSHAKE_TIME, tls.connect(name, stream)).await;
    let stream =
        shaken.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no TLS handshake in time"))??;
    Ok(Stream::Tls(Box::new(stream)))
}

/// A connection to a host.
enum Stream {
    Plain {
        stream: TcpStream,
        /// It is to a proxy that takes whole URLs.
        proxied: bool,
    },
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(matches!(self, Self::Plain { proxied: true, .. }))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain { stream, .. } => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain { stream, .. } => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain { stream, .. } => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain { stream, .. } => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
