//! A request that can be sent more than once.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Method, Uri};
use himalia_engine::Principal;
use hyper::body::Frame;
use parking_lot::Mutex;

/// Marks a request that changes something and may be sent again, and its response. In their extensions.
#[derive(Clone, Copy, Debug)]
pub struct Repeatable;

/// The principal of a request that a peer relayed, or that this replica serves for a client that it has relayed before. In the extensions of
/// the request.
#[derive(Clone, Debug)]
pub struct RelayedPrincipal(pub Principal);

/// The routes of this replica, in the extensions of each request, for streams that continue when it has become the owner.
#[derive(Clone, Debug)]
pub struct OwnRoutes(pub Router);

/// A request that can be sent more than once, as long as nothing of its body is lost.
#[derive(Debug)]
pub struct ReplayableRequest {
    pub method: Method,
    /// The address.
    pub uri: Uri,
    /// The headers, without credentials of the client.
    pub headers: HeaderMap,
    /// The extensions, for a handler of this replica.
    pub extensions: Extensions,
    body: RequestBody,
}

#[derive(Debug)]
pub enum RequestBody {
    /// A body in memory.
    Whole(Bytes),
    /// A body that is sent as it arrives, once.
    Streaming(StreamingBody),
}

/// A body that is sent as it arrives.
#[derive(Clone, Debug)]
pub struct StreamingBody(Arc<SharedBody>);

#[derive(Debug)]
struct SharedBody {
    body: Mutex<Body>,
    begun: AtomicBool,
}

impl HttpBody for StreamingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.0.begun.store(true, Ordering::Relaxed);
        Pin::new(&mut *self.0.body.lock()).poll_frame(context)
    }
}

impl RequestBody {
    /// A body that is sent as it arrives.
    pub fn streaming(body: Body) -> Self {
        Self::Streaming(StreamingBody(Arc::new(SharedBody {
            body: Mutex::new(body),
            begun: AtomicBool::new(false),
        })))
    }
}

impl ReplayableRequest {
    /// A request with these parts, which have no credentials.
    pub fn new(parts: Parts, body: RequestBody) -> Self {
        Self {
            method: parts.method,
            uri: parts.uri,
            headers: parts.headers,
            extensions: parts.extensions,
            body,
        }
    }

    /// The body, if it is in memory.
    pub fn whole_body(&self) -> Option<&[u8]> {
        match &self.body {
            RequestBody::Whole(bytes) => Some(bytes),
            RequestBody::Streaming(_) => None,
        }
    }

    /// Returns whether nothing of the body is lost.
    pub fn is_complete(&self) -> bool {
        match &self.body {
            RequestBody::Whole(_) => true,
            RequestBody::Streaming(StreamingBody(shared)) => !shared.begun.load(Ordering::Relaxed),
        }
    }

    /// Returns whether the request has the same effect if it is done twice.
    pub fn is_repeatable(&self) -> bool {
        let repeatable = matches!(self.method, Method::GET | Method::HEAD)
            || self.extensions.get::<Repeatable>().is_some();
        repeatable && self.is_complete()
    }

    fn body(&self) -> Body {
        match &self.body {
            RequestBody::Whole(bytes) => Body::from(bytes.clone()),
            RequestBody::Streaming(body) => Body::new(body.clone()),
        }
    }

    fn with<B>(&self, body: B) -> axum::http::Request<B> {
        let mut request = axum::http::Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    pub fn for_peer(&self) -> axum::http::Request<himalia_relay::Body> {
        self.with(match &self.body {
            RequestBody::Whole(bytes) if bytes.is_empty() => himalia_relay::empty(),
            _ => himalia_relay::body(self.body()),
        })
    }

    /// The request for a handler of this replica, behind its routing.
    pub fn for_handler(&self) -> Request {
        let mut request = self.without_extensions();
        *request.extensions_mut() = self.extensions.clone();
        request
    }

    /// The request for the routes of this replica. They add the parameters of the path to those in the extensions, so it has none of the
    /// first routing.
    pub fn without_extensions(&self) -> Request {
        self.with(self.body())
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn request(method: Method, body: RequestBody) -> ReplayableRequest {
        let request = axum::http::Request::builder().method(method).uri("/a");
        ReplayableRequest::new(request.body(()).unwrap().into_parts().0, body)
    }

    #[tokio::test]
    async fn a_body_in_memory_is_sent_each_time() {
        let request = request(Method::POST, RequestBody::Whole(Bytes::from_static(b"x")));
        for _ in 0..2 {
            let sent = request.for_handler().into_body().collect().await.unwrap();
            assert_eq!(sent.to_bytes(), "x");
            assert!(request.is_complete() && !request.is_repeatable());
        }
    }

    #[tokio::test]
    async fn a_streaming_body_is_sent_once() {
        let mut request = request(Method::POST, RequestBody::streaming(Body::from("x")));
        request.extensions.insert(Repeatable);
        assert!(request.is_repeatable() && request.whole_body().is_none());
        let sent = request.for_handler().into_body().collect().await.unwrap();
        assert_eq!(sent.to_bytes(), "x");
        assert!(!request.is_complete() && !request.is_repeatable());
    }

    #[test]
    fn a_request_that_only_reads_is_repeatable() {
        assert!(request(Method::GET, RequestBody::Whole(Bytes::new())).is_repeatable());
    }
}
