//! Records of a log as server-sent events.
//!
//! ```text
//! id: 17
//! event: message
//! data: {"seq":17,"at":"2026-01-02T03:04:05.000006Z","event":"message","incarnation":1,"channel":"iopub",
//!        "header":{…},"parent_header":{…},"metadata":{…},"content":{…},"buffer_bytes":[3],"buffers":["AAEC"]}
//! ```
//! (`data` is one line: a [`Record`](super::record::Record).)

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use himalia_engine::{Event, FeedClosed, KernelId};
use tokio_util::sync::CancellationToken;

use super::record;
use crate::app::App;

/// A comment that keeps proxies from closing an idle stream.
pub(super) const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// A reply whose body grows: never stored, and not collected by proxies.
pub(super) fn growing(
    media_type: &'static str,
    body: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response {
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// How long a stream may be silent, and the gateway's end.
pub(super) struct Waiting {
    keep_alive: Duration,
    shutdown: CancellationToken,
}

impl Waiting {
    pub(super) fn of(app: &App) -> Self {
        Self {
            keep_alive: app.config().sse_keep_alive,
            shutdown: app.shutdown().clone(),
        }
    }

    /// What a feed gives next; `None` when it is time for a sign of life.
    pub(super) async fn next<T>(
        &self,
        next: impl Future<Output = Result<T, FeedClosed>>,
    ) -> Option<Result<T, FeedClosed>> {
        let shutdown = pin!(self.shutdown.cancelled());
        tokio::select! {
            biased;
            () = shutdown => Some(Err(FeedClosed::Draining)),
            next = tokio::time::timeout(self.keep_alive, next) => next.ok(),
        }
    }
}

/// Appends one event. `buffers`: whether binary buffers are included, in base64; their sizes always are.
pub(super) fn write(out: &mut Vec<u8>, kernel: KernelId, event: &Event, buffers: bool) {
    let head = format!("id: {}\nevent: {}\ndata: ", event.seq, event.kind.as_str());
    out.extend_from_slice(head.as_bytes());
    record::write(out, kernel, event, buffers);
    out.extend_from_slice(b"\n\n");
}

/// The last event of a stream that ends; it has no id, so that the position stays.
pub(crate) fn end(closed: &FeedClosed) -> Bytes {
    let reason = end_reason(closed);
    format!("event: end\ndata: {{\"reason\":\"{reason}\"}}\n\n").into()
}

/// Why a stream ends, in a stable word.
pub(super) fn end_reason(closed: &FeedClosed) -> &'static str {
    match closed {
        FeedClosed::KernelGone => "kernel_gone",
        FeedClosed::Draining => "draining",
        FeedClosed::Replaced => "replaced",
        _ => "storage",
    }
}
