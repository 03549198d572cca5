//! `GET /v1/sessions/{id}/events`: a kernel's log as it grows, resumable from any number.
//!
//! A kernel made by the Jupyter API is an anonymous session whose id is the kernel's. The position is the `Last-Event-ID`
//! header, which browsers send by themselves when they reconnect, or else `?after=`; `after=0` gives all that is kept, no
//! position what comes from now on. What fell out of retention is one `gap` event. `?buffers=base64` adds binary
//! buffers.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use himalia_engine::{Closed, EventFeed};
use tokio_util::sync::CancellationToken;

use super::sessions::session_id;
use super::sse;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::query;

/// Serves the stream until the client leaves, the kernel is gone or the gateway stops.
pub(crate) async fn stream(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let after = position(&uri, &headers)?;
    let buffers = match query::last(&uri, "buffers").as_deref() {
        None | Some("sizes") => false,
        Some("base64") => true,
        Some(_) => return Err(ApiError::bad_request("buffers: expected base64 or sizes")),
    };
    let feed = app.engine().events(&principal, kernel, after)?;
    let keep_alive = app.config().sse_keep_alive;
    let events = Events {
        feed,
        buffers,
        keep_alive,
        shutdown: app.shutdown().clone(),
        ended: false,
    };
    let mut response = Response::new(Body::from_stream(stream::unfold(events, Events::chunk)));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Where a client goes on: `Last-Event-ID`, or else `?after=`.
pub(super) fn position(uri: &Uri, headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    match headers.get("last-event-id").map(HeaderValue::as_bytes) {
        None | Some(b"") => query::number(uri, "after"),
        Some(id) => match std::str::from_utf8(id).ok().and_then(|id| id.parse().ok()) {
            Some(seq) => Ok(Some(seq)),
            None => Err(ApiError::bad_request("Last-Event-ID: expected a whole number")),
        },
    }
}

struct Events {
    feed: EventFeed,
    buffers: bool,
    keep_alive: Duration,
    shutdown: CancellationToken,
    ended: bool,
}

impl Events {
    /// The next piece of the body: one batch of events. Taken only when the client has taken the last one.
    async fn chunk(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if self.ended {
            return None;
        }
        let next = {
            let shutdown = pin!(self.shutdown.cancelled());
            tokio::select! {
                biased;
                () = shutdown => Some(Err(Closed::Draining)),
                next = tokio::time::timeout(self.keep_alive, self.feed.next()) => next.ok(),
            }
        };
        let bytes = match next {
            None => Bytes::from_static(sse::KEEP_ALIVE),
            Some(Ok(events)) => {
                let mut out = Vec::new();
                for event in &events {
                    sse::write(&mut out, event, self.buffers);
                }
                out.into()
            }
            Some(Err(closed)) => {
                self.ended = true;
                sse::end(&closed)
            }
        };
        Some((Ok(bytes), self))
    }
}
