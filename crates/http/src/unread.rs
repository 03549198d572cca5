//! The rest of a request body that was not read, as when a request is refused by its headers.
//!
//! HTTP/1.1 has the next request after the body on the same connection, so that hyper closes a connection with an unread body. A client
//! that has put the connection back into its pool then sends its next request into the close, and fails with "server disconnected". So
//! the rest of a small body is read before the response is sent. A longer rest is read after the response, and then the connection is
//! closed (`listen::lingering`).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Error;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::timeout;

/// Of a longer rest the connection is closed.
const REST_BYTES: usize = 64 << 10;
/// How long the response waits for it.
const REST_TIME: Duration = Duration::from_secs(1);

/// Where a body is put that was dropped before its end.
type Slot = Arc<Mutex<Option<Body>>>;

/// Reads what the routes have left of the request's body.
pub(crate) async fn read_rest(request: Request, next: Next) -> Response {
    // Who asks whether to send the body at all has not sent it.
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return next.run(request).await;
    }
    let slot = Slot::default();
    let request = request.map(|body| {
        Body::new(Watched {
            body,
            ended: false,
            slot: Arc::clone(&slot),
        })
    });
    let response = next.run(request).await;
    let rest = slot.lock().take();
    if let Some(rest) = rest
        && rest.size_hint().lower() <= REST_BYTES as u64
    {
        // Whether it came or not, the response is sent.
        let _ = timeout(REST_TIME, to_bytes(rest, REST_BYTES)).await;
    }
    response
}

/// A body that comes into the slot when it is dropped before its end.
struct Watched {
    body: Body,
    /// Its end, or an error, was seen.
    ended: bool,
    slot: Slot,
}

impl HttpBody for Watched {
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

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.ended && !self.body.is_end_stream() {
            *self.slot.lock() = Some(std::mem::take(&mut self.body));
        }
    }
}
