//! One connection: HTTP/1.1 with limits on headers, upgrades allowed.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderValue;
use himalia_engine::Counter;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tower::ServiceExt;

use super::Peer;
use super::lingering::{LingeringStream, UnreadFlag};
use crate::app::App;

/// A request head of more bytes than this receives 431, and the connection is closed. One read may exceed it, up to
/// twice.
const HEAD_BYTES: usize = 64 << 10;

/// Serves until the peer leaves or is evicted, or the gateway stops and the open request is answered.
pub(crate) async fn serve(stream: TcpStream, peer: Peer, router: Router, app: App) {
    let secure = app.config().tls.is_on();
    let Some(stream) = app.config().tls.accept(stream, &peer).await else {
        return;
    };
    let unread = UnreadFlag::default();
    let stream = LingeringStream::new(stream, unread.clone(), app.shutdown().clone());
    let service = {
        let (peer, clients) = (peer.clone(), Arc::clone(app.engine().clients()));
        service_fn(move |request: hyper::Request<Incoming>| {
            let clients = Arc::clone(&clients);
            let count = clients.http_in.clone();
            unread.set(!request.body().is_end_stream());
            let unread = unread.clone();
            let mut request = request.map(|body| {
                Body::new(CountedBody {
                    body: Body::new(body),
                    count,
                    unread: Some(unread),
                })
            });
            request.extensions_mut().insert(peer.clone());
            if secure {
                // As behind a proxy with TLS, which says so.
                let https = HeaderValue::from_static("https");
                request.headers_mut().insert("x-forwarded-proto", https);
            }
            let router = router.clone();
            let peer = peer.clone();
            async move {
                let response = respond(router, request).await;
                let count = clients.http_out.clone();
                Ok::<_, Infallible>(response.map(|body| ResponseBody {
                    body: CountedBody {
                        body,
                        count,
                        unread: None,
                    },
                    _peer: peer,
                }))
            }
        })
    };
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(app.config().header_timeout)
        .max_buf_size(HEAD_BYTES);
    let mut connection = pin!(
        builder
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
    );
    let end = tokio::select! {
        end = connection.as_mut() => end,
        () = peer.evicted() => {
            tracing::debug!(peer = %peer.address(), "an idle connection was evicted");
            return;
        }
        () = app.shutdown().cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = end {
        tracing::debug!(peer = %peer.address(), %error, "connection ended");
    }
}

/// The body of an answer; while it is sent the connection is not idle.
struct ResponseBody<B> {
    body: B,
    _peer: Peer,
}

impl<B: HttpBody + Unpin> HttpBody for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body whose bytes are counted.
struct CountedBody {
    body: Body,
    count: Counter,
    /// A mark that the body of a request has come to its end.
    unread: Option<UnreadFlag>,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.count.inc_by(data.len() as u64);
        }
        if let Some(unread) = &self.unread
            && (matches!(frame, Poll::Ready(None)) || self.body.is_end_stream())
        {
            unread.set(false);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn respond(router: Router, request: hyper::Request<Body>) -> axum::response::Response {
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
