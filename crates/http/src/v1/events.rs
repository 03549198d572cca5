//! `GET /v1/sessions/{id}/events`: a kernel's log as it grows, resumable from any number.
//!
//! A kernel made by the Jupyter API is an anonymous session whose id is the kernel's. The position is the `Last-Event-ID`
//! header, which browsers send by themselves when they reconnect, or else `?after=`; `after=0` gives all that is kept, no
//! position what comes from now on. What fell out of retention is one `gap` event. `?buffers=base64` adds binary
//! buffers. A request for an upgrade gets the same records over a WebSocket.

use std::convert::Infallible;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use himalia_engine::{Closed, EventFeed};

use super::sessions::session_id;
use super::{push, sse};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::listen::Peer;
use crate::query;

/// Serves the stream until the client leaves, the kernel is gone or the gateway stops.
pub(crate) async fn stream(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    mut request: Request,
) -> Result<Response, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let handshake = push::asked(&mut request)?;
    let after = position(request.uri(), request.headers())?;
    let buffers = match query::last(request.uri(), "buffers").as_deref() {
        None | Some("sizes") => false,
        Some("base64") => true,
        Some(_) => return Err(ApiError::bad_request("buffers: expected base64 or sizes")),
    };
    let feed = app.engine().events(&principal, kernel, after)?;
    if let Some(handshake) = handshake {
        let peer = request.extensions().get::<Peer>().cloned();
        return Ok(push::serve(&app, handshake, peer, Records { feed, buffers }));
    }
    let events = Events {
        feed,
        buffers,
        waiting: sse::Waiting::of(&app),
        ended: false,
    };
    Ok(sse::growing(
        "text/event-stream",
        stream::unfold(events, Events::chunk),
    ))
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

/// The records for a WebSocket.
struct Records {
    feed: EventFeed,
    buffers: bool,
}

impl push::Source for Records {
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>, Closed> {
        let events = self.feed.next().await?;
        let object = |event| {
            let mut out = Vec::new();
            sse::object(&mut out, event, self.buffers);
            Bytes::from(out)
        };
        Ok(Some(events.iter().map(object).collect()))
    }
}

struct Events {
    feed: EventFeed,
    buffers: bool,
    waiting: sse::Waiting,
    ended: bool,
}

impl Events {
    /// The next piece of the body: one batch of events. Taken only when the client has taken the last one.
    async fn chunk(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if self.ended {
            return None;
        }
        let bytes = match self.waiting.next(self.feed.next()).await {
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
