//! HTTP clients: CONNECT, and requests with a whole URL. A request is written anew from what was understood of it, so that no two
//! readers can understand two different ones.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use himalia_model::network::Host;
use himalia_model::panic_text;
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderMap, HeaderName, PROXY_AUTHORIZATION,
    TRANSFER_ENCODING,
};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::ext::ReasonPhrase;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use crate::credentials::relay::{self, Relay};
use crate::denial::{Denial, DenialKind, Target};
use crate::destination::Destination;
use crate::gate::{Gate, Purpose};
use crate::internal::{Body, CountedBody, InternalService, WithTurn};
use crate::meter::{Meter, MeteredStream};
use crate::prefixed::PrefixedStream;
use crate::upstream::HttpProxy;

/// Time for the head of a request, also after the request before it.
const HEAD_TIME: Duration = Duration::from_mins(1);
/// Most bytes of the head of a request, and of what is read ahead of a body.
pub(crate) const HEAD_BYTES: usize = 64 * 1024;
const HTTP_PORT: u16 = 80;

/// Headers of one connection, in addition to the ones that its header `connection` names.
const OF_CONNECTION: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    http::header::PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    http::header::TE,
    http::header::TRAILER,
    http::header::UPGRADE,
];

/// A client's connection.
struct Client {
    gate: Arc<Gate>,
    /// Target of a tunnel.
    tunnel: Option<Target>,
    /// The connection of the latest request.
    upstream: Mutex<Option<Upstream>>,
    /// Relay for requests to internal names of credentials.
    relay: Relay,
    /// Parts of a CONNECT that was answered.
    connected: Mutex<Option<(OnUpgrade, Destination, Target)>>,
}

/// A connection to a host that speaks HTTP.
struct Upstream {
    target: Target,
    sender: SendRequest<Incoming>,
    meter: Arc<Meter>,
    via: Option<HttpProxy>,
    /// Ends with it.
    _driver: AbortOnDropHandle<()>,
}

/// Serves a client that uses a proxy, until its end.
pub(crate) async fn serve<S>(stream: PrefixedStream<S>, gate: &Arc<Gate>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let client = Arc::new(Client {
        gate: Arc::clone(gate),
        tunnel: None,
        upstream: Mutex::default(),
        relay: Relay::default(),
        connected: Mutex::default(),
    });
    run::<S>(stream, &client).await;
    let connected = client.connected.lock().take();
    drop(client);
    let Some((upgrade, destination, target)) = connected else {
        return;
    };
    let Ok(upgraded) = upgrade.await else { return };
    // What it is made of, so that no layer is left between the two.
    let Ok(parts) = upgraded.downcast::<TokioIo<PrefixedStream<S>>>() else {
        return;
    };
    let PrefixedStream { prefix, inner } = parts.io.into_inner();
    let prefix = if prefix.is_empty() {
        parts.read_buf
    } else {
        [parts.read_buf, prefix].concat().into()
    };
    destination
        .serve(PrefixedStream { prefix, inner }, target, gate)
        .await;
}

/// Serves a client in a tunnel to a host, which speaks HTTP to that host.
pub(crate) async fn serve_tunnel<S>(
    stream: PrefixedStream<S>,
    upstream: MeteredStream<TcpStream>,
    target: Target,
    gate: &Arc<Gate>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Ok(upstream) = Upstream::over(upstream, target.clone()).await else {
        return;
    };
    let client = Arc::new(Client {
        gate: Arc::clone(gate),
        tunnel: Some(target),
        upstream: Mutex::new(Some(upstream)),
        relay: Relay::default(),
        connected: Mutex::default(),
    });
    run::<S>(stream, &client).await;
}

async fn run<S>(stream: PrefixedStream<S>, client: &Arc<Client>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let client = Arc::clone(client);
    serve_requests(stream, move |request| {
        let client = Arc::clone(&client);
        async move { client.respond(request).await }
    })
    .await;
}

/// Serves the requests of a client. A refusal is its answer.
pub(crate) async fn serve_requests<S, F>(stream: S, respond: impl Fn(Request<Incoming>) -> F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Result<Response<Body>, Denial>>,
{
    let service = service_fn(|request| {
        let response = AssertUnwindSafe(respond(request)).catch_unwind();
        async move {
            let response = match response.await {
                Ok(response) => response.unwrap_or_else(|denial| refused(&denial)),
                Err(panic) => {
                    let panic = panic_text(&*panic);
                    tracing::error!(panic, "a request handler of a sandbox's proxy panicked");
                    internal_error()
                }
            };
            Ok::<_, Infallible>(response)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a client of the proxy");
    }
}

impl Client {
    async fn respond(&self, request: Request<Incoming>) -> Result<Response<Body>, Denial> {
        match &self.tunnel {
            None if request.method() == Method::CONNECT => self.connect(request).await,
            None => {
                let target = target_of_url(request.uri())?;
                if relay::name_of(&target.host).is_some() {
                    return self.relay.respond(&self.gate, &target, request).await;
                }
                match self.gate.service(&target) {
                    Some(service) => self.ask(service, request, target).await,
                    None => self.forward(request, target).await,
                }
            }
            Some(target) => {
                if let Err(denial) = check_host(&request, target, HTTP_PORT) {
                    self.gate.refused(target, &denial);
                    return Err(denial);
                }
                self.forward(request, target.clone()).await
            }
        }
    }

    async fn connect(&self, request: Request<Incoming>) -> Result<Response<Body>, Denial> {
        let authority = request.uri().authority();
        let target = authority.and_then(|authority| target_of(authority, None).ok());
        let target = target.ok_or_else(|| Denial::request("CONNECT needs a host and a port"))?;
        let destination = Destination::open(&self.gate, &target).await?;
        *self.connected.lock() = Some((hyper::upgrade::on(request), destination, target));
        Ok(Response::new(empty()))
    }

    /// A request to a service of the gateway.
    async fn ask(
        &self,
        service: Arc<dyn InternalService>,
        request: Request<Incoming>,
        target: Target,
    ) -> Result<Response<Body>, Denial> {
        if let Some(bound) = service.own_bound() {
            // It is never closed. Held until the response has ended.
            let turn = bound.acquire_owned().await.ok();
            let request = request.map(|body| body.map_err(Into::into).boxed());
            let answered = service.respond(request, Arc::clone(self.gate.access())).await;
            return answered.map(|response| response.map(|body| WithTurn { body, turn }.boxed()));
        }
        let meter = self.gate.meter(&target);
        let request = request.map(|body| {
            let (meter, to_sandbox) = (Arc::clone(&meter), false);
            CountedBody {
                body,
                meter,
                to_sandbox,
                turn: None,
            }
            .boxed()
        });
        // Held until the response has ended.
        let turn = self.gate.access().turn().await;
        let answered = match meter.check() {
            Ok(()) => service.respond(request, Arc::clone(self.gate.access())).await,
            Err(denial) => Err(denial),
        };
        match answered {
            Ok(response) => Ok(response.map(|body| {
                let to_sandbox = true;
                CountedBody {
                    body,
                    meter,
                    to_sandbox,
                    turn,
                }
                .boxed()
            })),
            Err(denial) => {
                meter.deny(&denial);
                Err(denial)
            }
        }
    }

    async fn forward(&self, request: Request<Incoming>, target: Target) -> Result<Response<Body>, Denial> {
        let purpose = Purpose::Request(request.method().as_str().to_owned());
        let mut upstream = self.upstream(&target, purpose).await?;
        let (mut head, body) = request.into_parts();
        rewrite(&mut head, &target, HTTP_PORT, upstream.via.as_ref())?;
        let request = Request::from_parts(head, body);
        let response = upstream.sender.send_request(request).await;
        let response = response.map_err(|error| Denial::unreachable(format_args!("{target}: {error}")))?;
        *self.upstream.lock() = Some(upstream);
        let (mut head, body) = response.into_parts();
        end_to_end(&mut head.headers);
        head.extensions = http::Extensions::new();
        head.version = Version::HTTP_11;
        Ok(Response::from_parts(head, body.map_err(Into::into).boxed()))
    }

    /// The connection of the request before, if it is to the same host and still open; or a new one.
    async fn upstream(&self, target: &Target, purpose: Purpose) -> Result<Upstream, Denial> {
        let before = self.upstream.lock().take();
        if let Some(mut before) = before.filter(|before| before.target == *target)
            && before.sender.ready().await.is_ok()
        {
            self.gate.again(target, &purpose, &before.meter)?;
            return Ok(before);
        }
        let connected = self.gate.connect(target, purpose).await?;
        Upstream::over(connected, target.clone()).await
    }
}

impl Upstream {
    async fn over(connected: MeteredStream<TcpStream>, target: Target) -> Result<Self, Denial> {
        let (meter, via) = (Arc::clone(&connected.meter), connected.via.clone());
        let made = hyper::client::conn::http1::Builder::new()
            .max_buf_size(HEAD_BYTES)
            .handshake(TokioIo::new(connected))
            .await;
        let (sender, connection) =
            made.map_err(|error| Denial::unreachable(format_args!("{target}: {error}")))?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a host behind the proxy");
            }
        });
        Ok(Self {
            target,
            sender,
            meter,
            via,
            _driver: AbortOnDropHandle::new(driver),
        })
    }
}

/// The host of a URL with `http`.
fn target_of_url(url: &Uri) -> Result<Target, Denial> {
    let Some(authority) = url.authority() else {
        return Err(Denial::request(
            "this is the proxy of the sandbox: a request has a whole URL, or is a CONNECT",
        ));
    };
    if url.scheme_str() != Some("http") {
        return Err(Denial::request(
            "only http:// is forwarded; other schemes need a CONNECT",
        ));
    }
    target_of(authority, Some(HTTP_PORT))
}

pub(crate) fn target_of(authority: &Authority, port: Option<u16>) -> Result<Target, Denial> {
    // `host@other` is read in two ways by two readers.
    if authority.as_str().contains('@') {
        return Err(Denial::request("a host has no user name in front of it"));
    }
    let host = Host::parse(authority.host());
    let host = host.map_err(|reason| Denial::request(format_args!("{:?} {reason}", authority.host())))?;
    let bare = authority.as_str().len() == authority.host().len();
    let port = match authority.port_u16() {
        Some(port) => Some(port),
        None if bare => port,
        None => None,
    };
    let port = port
        .filter(|port| *port > 0)
        .ok_or_else(|| Denial::request("a port is from 1 to 65535"))?;
    Ok(Target { host, port })
}

/// A request in a tunnel must be for the host of the tunnel.
pub(crate) fn check_host(
    request: &Request<Incoming>,
    target: &Target,
    usual_port: u16,
) -> Result<(), Denial> {
    let differs = |named: &str| {
        Denial::policy(format_args!(
            "a request in a tunnel to {target} is for the host {named:?}"
        ))
    };
    let mut hosts = request.headers().get_all(HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        _ => return Err(Denial::request("a request has one host")),
    };
    let same =
        |authority: &Authority| target_of(authority, Some(usual_port)).is_ok_and(|named| named == *target);
    if !named.parse::<Authority>().is_ok_and(|authority| same(&authority)) {
        return Err(differs(named));
    }
    match request.uri().authority() {
        Some(authority) if !same(authority) => Err(differs(authority.as_str())),
        _ => Ok(()),
    }
}

/// As the host gets it: its path, its host, and nothing of the connection to the proxy. Another proxy gets the whole URL.
pub(crate) fn rewrite(
    head: &mut Parts,
    target: &Target,
    usual_port: u16,
    via: Option<&HttpProxy>,
) -> Result<(), Denial> {
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let uri = match via {
        Some(_) => format!("http://{target}{path}").parse::<Uri>(),
        None => path.parse(),
    };
    head.uri = uri.map_err(|error| Denial::request(format_args!("the path is invalid: {error}")))?;
    head.version = Version::HTTP_11;
    let headers = &mut head.headers;
    remove_of_connection(headers);
    // hyper writes the length, or chunks, from the body that it has read.
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT] {
        headers.remove(name);
    }
    let host = if target.port == usual_port {
        target.host.to_string()
    } else {
        target.to_string()
    };
    let host = HeaderValue::try_from(host).map_err(|_| Denial::request("the host is invalid"))?;
    headers.insert(HOST, host);
    if let Some(authorization) = via.and_then(|via| via.authorization.clone()) {
        headers.insert(PROXY_AUTHORIZATION, authorization);
    }
    Ok(())
}

/// Takes away what is of one connection alone from the head of a response.
pub(crate) fn end_to_end(headers: &mut HeaderMap) {
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    remove_of_connection(headers);
}

fn remove_of_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_CONNECTION) {
        headers.remove(name);
    }
    headers.remove(TRANSFER_ENCODING);
}

fn empty() -> Body {
    Full::default()
        .map_err(|never: Infallible| match never {})
        .boxed()
}

fn status(denial: &Denial) -> StatusCode {
    match denial.kind {
        DenialKind::Policy | DenialKind::Credential => StatusCode::FORBIDDEN,
        DenialKind::Request => StatusCode::BAD_REQUEST,
        DenialKind::Limit | DenialKind::CredentialUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        DenialKind::Unreachable => StatusCode::BAD_GATEWAY,
    }
}

/// 500: the log has the reason.
fn internal_error() -> Response<Body> {
    let text = "the gateway failed while it handled the request; its log has the reason\n";
    let body = Full::from(text).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed());
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A refusal. Its reason is the text too, which is all that many clients show of the response to a CONNECT.
fn refused(denial: &Denial) -> Response<Body> {
    let text = denial.to_string();
    let reason = ReasonPhrase::try_from(text.clone().into_bytes()).ok();
    let body = Full::from(format!("{text}\n")).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed());
    *response.status_mut() = status(denial);
    // What else the client has sent may belong to what was refused.
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if let Some(reason) = reason {
        response.extensions_mut().insert(reason);
    }
    response
}

/// The same for a request that was not read.
pub(crate) fn refusal(denial: &Denial) -> Vec<u8> {
    let (status, body) = (status(denial).as_u16(), format!("{denial}\n"));
    let length = body.len();
    format!("HTTP/1.1 {status} {denial}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}").into_bytes()
}
