//! HTTP clients: CONNECT, and requests with a whole URL. A request is written anew from what was understood of it, so that no two
//! readers can understand two different ones.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Method, Request, Response, Uri, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use crate::credentials::relay::{self, Relay};
use crate::denial::{Denial, Target};
use crate::destination::Destination;
use crate::gate::{Gate, Purpose};
use crate::head::{check_host, end_to_end, rewrite, target_of};
use crate::internal::{Body, CountedBody, InternalService, WithTurn};
use crate::meter::{Meter, MeteredStream};
use crate::prefixed::PrefixedStream;
use crate::server::{HEAD_BYTES, serve_requests};
use crate::upstream::HttpProxy;

const HTTP_PORT: u16 = 80;

struct Client {
    gate: Arc<Gate>,
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

fn empty() -> Body {
    Full::default()
        .map_err(|never: Infallible| match never {})
        .boxed()
}
