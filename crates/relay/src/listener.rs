//! Accepts the connections of peers.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use hyper::body::{Body as HttpBody, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::authority::Identity;
use crate::pool::{Body, BoxError, body, empty};
use crate::statement::{HEADER, Statement};
use crate::{
    CONNECT_TIME, CONNECTION_WINDOW, MAX_STREAMS, PING_INTERVAL, PING_TIMEOUT, SEND_BUFFER, STREAM_WINDOW,
};

/// Connections at once, those that are not proven among them.
const CONNECTIONS: usize = 256;
/// Pause after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves peers until `shutdown`, then lets open requests finish, for at most `drain`. `service` gets each request whose
/// statement is valid, with the [`Statement`] in its extensions and without its header. Others get 403 without a body, and with
/// the header of statements, which the response of no service has but to say that it handled nothing.
pub async fn serve<S, F, B>(
    listener: TcpListener,
    identity: Identity,
    service: S,
    shutdown: CancellationToken,
    drain: Duration,
) where
    S: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = http::Response<B>> + Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &permits) => accepted,
        };
        let Some((stream, permit)) = accepted else {
            continue;
        };
        let (identity, service) = (identity.clone(), service.clone());
        let shutdown = shutdown.clone();
        connections.spawn(async move {
            let peer = stream.peer_addr();
            if let Err(error) = connection(stream, identity, service, shutdown, drain).await {
                tracing::debug!(?peer, %error, "the connection of a peer ended");
            }
            drop(permit);
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(error) => {
            tracing::warn!(%error, "accepting a peer failed");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn connection<S, F, B>(
    stream: TcpStream,
    identity: Identity,
    service: S,
    shutdown: CancellationToken,
    drain: Duration,
) -> Result<(), BoxError>
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = http::Response<B>> + Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let _ = stream.set_nodelay(true);
    let acceptor = TlsAcceptor::from(identity.server.clone());
    let stream = timeout(CONNECT_TIME, acceptor.accept(stream))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
        .inspect_err(|error| tracing::warn!(%error, "a connection that is not of a replica was refused"))?;
    let answer = service_fn(move |request| {
        let (identity, service) = (identity.clone(), service.clone());
        async move { Ok::<_, Infallible>(respond(&identity, request, service).await) }
    });
    let mut connection = pin!(
        http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_streams(MAX_STREAMS)
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .serve_connection(TokioIo::new(stream), answer)
    );
    tokio::select! {
        end = connection.as_mut() => return Ok(end?),
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    match timeout(drain, connection).await {
        Ok(end) => Ok(end?),
        Err(_) => Err("the drain took too long".into()),
    }
}

/// Passes a request to the service, if a replica states whom it is of.
async fn respond<S, F, B>(
    identity: &Identity,
    mut request: Request<Incoming>,
    service: S,
) -> http::Response<Body>
where
    S: Fn(Request<Incoming>) -> F,
    F: Future<Output = http::Response<B>>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let verified: Result<Statement, _> =
        identity
            .signer()
            .verify(request.method(), request.uri(), request.headers());
    match verified {
        Ok(statement) => {
            request.headers_mut().remove(HEADER);
            request.extensions_mut().insert(statement);
            service(request).await.map(body)
        }
        Err(refused) => {
            tracing::warn!(%refused, "a relayed request was refused");
            let mut response = http::Response::new(empty());
            *response.status_mut() = StatusCode::FORBIDDEN;
            response
                .headers_mut()
                .insert(HEADER, http::HeaderValue::from_static("refused"));
            response
        }
    }
}
