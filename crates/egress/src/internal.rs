//! Services of the gateway itself, which sessions reach by plain HTTP at names of their own, such as `packages.internal`.
//!
//! They are a door of the proxy: a service, which all sessions share or which is one session's own, gets the request of a session with what that session may reach, and answers it. No
//! resolver is asked for such a name.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::denial::Denial;
use crate::gate::NetworkAccess;
use crate::meter::Meter;

/// Reasons why a body ends early.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body of a request or a response.
pub type Body = BoxBody<Bytes, BodyError>;

/// A service of the gateway for sessions.
pub trait InternalService: Send + Sync {
    /// True if it has this name, which is in lower case and has no dot at its end.
    fn is_at(&self, name: &str) -> bool;

    /// Number of its requests that are answered at the same time, if it differs from the services that all sessions share: the next ones wait. The
    /// bytes of such a service are not counted as network.
    fn own_bound(&self) -> Option<Arc<Semaphore>> {
        None
    }

    /// Answers a request for its name, whose URL is whole. What it reaches for the session, the session must be permitted
    /// ([`NetworkAccess::permits`]).
    fn respond(
        self: Arc<Self>,
        request: Request<Body>,
        session: Arc<NetworkAccess>,
    ) -> BoxFuture<'static, Result<Response<Body>, Denial>>;
}

/// A body that holds the turn of its request.
pub(crate) struct WithTurn {
    pub(crate) body: Body,
    #[allow(dead_code, reason = "held, not read")]
    pub(crate) turn: Option<OwnedSemaphorePermit>,
}

impl hyper::body::Body for WithTurn {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body whose bytes are counted, and which ends when they are too many.
pub(crate) struct CountedBody<B> {
    pub(crate) body: B,
    pub(crate) meter: Arc<Meter>,
    /// True for bytes to the sandbox.
    pub(crate) to_sandbox: bool,
    /// Permit of a request, until its response has ended.
    #[allow(dead_code, reason = "held, not read")]
    pub(crate) turn: Option<OwnedSemaphorePermit>,
}

impl<B> hyper::body::Body for CountedBody<B>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let Some(frame) = ready!(Pin::new(&mut this.body).poll_frame(cx)) else {
            return Poll::Ready(None);
        };
        let frame = frame.map_err(Into::into)?;
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let counted = if this.to_sandbox {
            this.meter.received(bytes)
        } else {
            this.meter.sent(bytes)
        };
        Poll::Ready(Some(counted.map(|()| frame).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
