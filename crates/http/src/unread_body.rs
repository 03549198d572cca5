//! The rest of a request body that was not read, as when a request is refused by its headers.
//!
//! HTTP/1.1 has the next request after the body on the same connection, so that hyper closes a connection with an unread body. A client
//! that has put the connection back into its pool then sends its next request into the close, and fails with "server disconnected". So
//! the rest of a small body is read before the response is sent. With a longer rest the response says `Connection: close`; the rest is
//! read after it, and then the connection is closed (`listen::lingering`).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Error;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::timeout;

/// Most bytes of a rest that is read. Behind a longer one the connection is closed.
const REST_BYTES: usize = 64 << 10;
/// Time that the response waits for it.
const REST_TIME: Duration = Duration::from_secs(1);

/// The place of a body that was dropped before its end.
type Slot = Arc<Mutex<Option<Body>>>;

/// Reads the part of the request's body that the routes did not read, or announces that the connection is closed.
pub(crate) async fn read_rest(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    // A client that waits for the permission to send the body has not sent it.
    let awaits_permission = request.headers().contains_key(header::EXPECT);
    let slot = Slot::default();
    let request = request.map(|body| {
        Body::new(WatchedBody {
            body,
            ended: false,
            slot: Arc::clone(&slot),
        })
    });
    let mut response = next.run(request).await;
    let rest = slot.lock().take();
    if let Some(rest) = rest
        && (awaits_permission || !was_read(rest).await)
    {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

/// Returns true if a rest came to its end within the bounds.
async fn was_read(rest: Body) -> bool {
    rest.size_hint().lower() <= REST_BYTES as u64
        && timeout(REST_TIME, to_bytes(rest, REST_BYTES))
            .await
            .is_ok_and(|read| read.is_ok())
}

/// A body that comes into the slot when it is dropped before its end.
struct WatchedBody {
    body: Body,
    /// Set after its end, or an error.
    ended: bool,
    slot: Slot,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.ended = matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        if !self.ended && !self.body.is_end_stream() {
            *self.slot.lock() = Some(std::mem::take(&mut self.body));
        }
    }
}
