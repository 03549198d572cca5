//! Records of a log as server-sent events.
//!
//! ```text
//! id: 17
//! event: message
//! data: {"seq":17,"at":"2026-01-02T03:04:05.000006Z","kind":"message","incarnation":1,"channel":"iopub",
//!        "header":{…},"parent_header":{…},"metadata":{…},"content":{…},"buffer_bytes":[3],"buffers":["AAEC"]}
//! ```
//! (`data` is one line.) What belongs to a native execution has `execution`, the number of that one's first record. Lifecycle records, gaps and executions have `detail` instead of a channel and the parts.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::Stream;
use himalia_engine::{Closed, Event, EventKind};
use himalia_wire::{Limits, build, v1};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

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
        next: impl Future<Output = Result<T, Closed>>,
    ) -> Option<Result<T, Closed>> {
        let shutdown = pin!(self.shutdown.cancelled());
        tokio::select! {
            biased;
            () = shutdown => Some(Err(Closed::Draining)),
            next = tokio::time::timeout(self.keep_alive, next) => next.ok(),
        }
    }
}

/// Appends one event. `buffers`: whether binary buffers are included, in base64; their sizes always are.
pub(super) fn write(out: &mut Vec<u8>, event: &Event, buffers: bool) {
    let head = format!("id: {}\nevent: {}\ndata: ", event.seq, event.kind.as_str());
    out.extend_from_slice(head.as_bytes());
    object(out, event, buffers);
    out.extend_from_slice(b"\n\n");
}

/// Appends the data of one event, JSON without a line break.
pub(super) fn object(out: &mut Vec<u8>, event: &Event, buffers: bool) {
    let kind = event.kind.as_str();
    let head = format!(
        "{{\"seq\":{seq},\"at\":\"{at}\",\"kind\":\"{kind}\",\"incarnation\":{incarnation}",
        seq = event.seq,
        at = build::timestamp(event.at),
        incarnation = event.incarnation,
    );
    out.reserve(head.len() + event.body.len() + 256);
    out.extend_from_slice(head.as_bytes());
    if let Some(execution) = event.execution {
        out.extend_from_slice(format!(",\"execution\":{execution}").as_bytes());
    }
    match event.kind {
        EventKind::Message | EventKind::Request => message(out, &event.body, buffers),
        EventKind::Lifecycle | EventKind::Gap | EventKind::Execution => member(out, "detail", &event.body),
    }
    out.push(b'}');
}

fn message(out: &mut Vec<u8>, frame: &Bytes, buffers: bool) {
    let Ok((channel, parts)) = v1::decode(frame, &Limits::KERNEL) else {
        out.extend_from_slice(b",\"unreadable\":true");
        return;
    };
    out.extend_from_slice(format!(",\"channel\":\"{channel}\"").as_bytes());
    member(out, "header", &parts.header);
    member(out, "parent_header", &parts.parent_header);
    member(out, "metadata", &parts.metadata);
    member(out, "content", &parts.content);
    list(out, "buffer_bytes", &parts.buffers, |out, buffer| {
        out.extend_from_slice(buffer.len().to_string().as_bytes());
    });
    if buffers {
        list(out, "buffers", &parts.buffers, |out, buffer| {
            out.push(b'"');
            out.extend_from_slice(STANDARD.encode(buffer).as_bytes());
            out.push(b'"');
        });
    }
}

fn list(out: &mut Vec<u8>, name: &str, items: &[Bytes], write: impl Fn(&mut Vec<u8>, &Bytes)) {
    if items.is_empty() {
        return;
    }
    out.extend_from_slice(format!(",\"{name}\":[").as_bytes());
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// Appends a member whose value is JSON that somebody else wrote: checked, otherwise `null`. Line breaks can stand only
/// between tokens there, and would end the event's line, so they become spaces.
fn member(out: &mut Vec<u8>, name: &str, json: &[u8]) {
    let json = match serde_json::from_slice::<&RawValue>(json) {
        Ok(value) => value.get().as_bytes(),
        Err(_) => b"null",
    };
    out.extend_from_slice(format!(",\"{name}\":").as_bytes());
    let start = out.len();
    out.extend_from_slice(json);
    for byte in out.iter_mut().skip(start).filter(|b| matches!(b, b'\n' | b'\r')) {
        *byte = b' ';
    }
}

/// The last event of a stream that ends; it has no id, so that the position stays.
pub(super) fn end(closed: &Closed) -> Bytes {
    let reason = end_reason(closed);
    format!("event: end\ndata: {{\"reason\":\"{reason}\"}}\n\n").into()
}

/// Why a stream ends, in a stable word.
pub(super) fn end_reason(closed: &Closed) -> &'static str {
    match closed {
        Closed::KernelGone => "kernel_gone",
        Closed::Draining => "draining",
        Closed::Replaced => "replaced",
        _ => "storage",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use himalia_wire::{Channel, Parts};
    use serde_json::{Value, json};
    use time::macros::datetime;

    fn event(kind: EventKind, body: Bytes) -> Event {
        let channel = matches!(kind, EventKind::Message).then_some(Channel::Iopub);
        Event {
            seq: 7,
            at: datetime!(2026-01-02 03:04:05 UTC),
            kind,
            channel,
            incarnation: 2,
            execution: None,
            body,
        }
    }

    fn data(event: &Event, buffers: bool) -> Value {
        let mut out = Vec::new();
        write(&mut out, event, buffers);
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        assert_eq!(
            (lines[0], lines[1].starts_with("event: "), lines.len()),
            ("id: 7", true, 5),
            "{text}"
        );
        serde_json::from_str(lines[2].strip_prefix("data: ").unwrap()).unwrap()
    }

    #[test]
    fn messages_keep_their_json() {
        let parts = Parts {
            header: Bytes::from_static(b"{\"msg_id\": \"x\"}"),
            parent_header: Bytes::from_static(b"{}"),
            metadata: Bytes::from_static(b"not json"),
            content: Bytes::from_static(b"{\r\n \"a\":\n 18446744073709551616, \"t\": \"\\n\"}"),
            buffers: vec![Bytes::from_static(&[0, 1, 2]), Bytes::new()],
        };
        let event = event(EventKind::Message, v1::encode(Channel::Iopub, &parts));
        let shown = data(&event, true);
        assert_eq!(shown["channel"], "iopub");
        assert_eq!(shown["content"]["t"], "\n");
        assert_eq!(shown["metadata"], Value::Null);
        assert_eq!(
            (&shown["buffer_bytes"], &shown["buffers"]),
            (&json!([3, 0]), &json!(["AAEC", ""]))
        );
        assert_eq!(data(&event, false).get("buffers"), None);
    }

    #[test]
    fn others_have_a_detail() {
        let shown = data(
            &event(EventKind::Gap, Bytes::from_static(b"{\"from\":1,\"to\":7}")),
            false,
        );
        assert_eq!(
            (&shown["kind"], &shown["detail"]["to"], &shown["incarnation"]),
            (&json!("gap"), &json!(7), &json!(2))
        );
        assert_eq!(
            data(&event(EventKind::Message, Bytes::from_static(b"?")), false)["unreadable"],
            json!(true)
        );
    }
}
