//! Detects if a part of a request may have reached the server.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// Set when the body of a request is taken, which is when its connection is made and its head is about to be written. A request without a
/// body counts as sent from the start.
#[derive(Clone, Debug, Default)]
pub struct SentFlag(Arc<AtomicBool>);

impl SentFlag {
    /// True if a part of the request may have been sent.
    pub fn is_sent(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// It may from now on.
    pub fn note(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// A body that notes when it is taken.
    pub(crate) fn watched(&self, body: Bytes) -> reqwest::Body {
        if body.is_empty() {
            self.0.store(true, Ordering::Release);
            return reqwest::Body::from(body);
        }
        reqwest::Body::wrap(WatchedBody {
            body,
            sent: self.clone(),
        })
    }
}

struct WatchedBody {
    body: Bytes,
    sent: SentFlag,
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        this.sent.0.store(true, Ordering::Release);
        if this.body.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.body)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.body.len() as u64)
    }
}
