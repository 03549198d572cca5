//! A record of a log as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use himalia_engine::{Event, EventKind, ExecutionId, KernelId};
use himalia_wire::{Limits, build, v1};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A record of a session's log. A message or request has a channel and its parts, the others have a `detail`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LogRecord")]
pub(crate) struct Record<'a> {
    /// The number of the record, without gaps; for a gap record the last missing number.
    seq: u64,
    /// When it was stored.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// The kind of record, which is also the name of the server-sent event.
    event: EventKind,
    /// The kernel process that it belongs to.
    incarnation: u32,
    /// The native execution that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<ExecutionId>,
    /// `shell`, `control`, `stdin` or `iopub`.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<&'static str>,
    /// As it was written, like the parts after it; null if it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    header: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    parent_header: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    metadata: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    content: Option<&'a RawValue>,
    /// Sizes of its binary buffers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buffer_bytes: Vec<usize>,
    /// The binary buffers in base64, with `buffers=base64`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buffers: Vec<String>,
    /// Set if the message cannot be parsed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unreadable: bool,
    /// Content of a record that is not a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    detail: Option<&'a RawValue>,
}

/// Appends a record, without a line break. `buffers`: whether binary buffers are included; their sizes always are.
pub(super) fn write(out: &mut Vec<u8>, kernel: KernelId, event: &Event, buffers: bool) {
    let is_message = matches!(event.kind, EventKind::Message | EventKind::Request);
    let message = is_message.then(|| v1::decode(&event.body, &Limits::KERNEL).ok());
    let mut record = Record {
        seq: event.seq,
        at: build::timestamp(event.at),
        event: event.kind,
        incarnation: event.incarnation,
        execution_id: event.execution.map(|seq| ExecutionId { kernel, seq }),
        channel: None,
        header: None,
        parent_header: None,
        metadata: None,
        content: None,
        buffer_bytes: Vec::new(),
        buffers: Vec::new(),
        unreadable: false,
        detail: None,
    };
    match &message {
        None => record.detail = Some(raw(&event.body)),
        Some(None) => record.unreadable = true,
        Some(Some((channel, parts))) => {
            record.channel = Some(channel.as_str());
            record.header = Some(raw(&parts.header));
            record.parent_header = Some(raw(&parts.parent_header));
            record.metadata = Some(raw(&parts.metadata));
            record.content = Some(raw(&parts.content));
            record.buffer_bytes = parts.buffers.iter().map(bytes::Bytes::len).collect();
            if buffers {
                record.buffers = parts
                    .buffers
                    .iter()
                    .map(|buffer| STANDARD.encode(buffer))
                    .collect();
            }
        }
    }
    let start = out.len();
    out.reserve(event.body.len() + 256);
    // Numbers and texts, into memory: there is nothing that could fail.
    let _ = serde_json::to_writer(&mut *out, &record);
    // Only JSON from elsewhere has line breaks, and only between tokens. They would end the event's line.
    for byte in out.iter_mut().skip(start).filter(|b| matches!(b, b'\n' | b'\r')) {
        *byte = b' ';
    }
}

/// JSON from elsewhere: checked, `null` if it is invalid.
fn raw(json: &[u8]) -> &RawValue {
    serde_json::from_slice(json).unwrap_or(RawValue::NULL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::sse;
    use bytes::Bytes;
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
        sse::write(&mut out, KernelId::random(), event, buffers);
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
        let shown = data(&event, false);
        for absent in ["buffers", "execution", "detail", "unreadable"] {
            assert_eq!(shown.get(absent), None);
        }
    }

    #[test]
    fn others_have_a_detail() {
        let mut gap = event(EventKind::Gap, Bytes::from_static(b"{\"from\":1,\"to\":7}"));
        gap.execution = Some(5);
        let shown = data(&gap, false);
        assert_eq!(shown.get("channel"), None);
        let id = shown["execution_id"].as_str().unwrap();
        assert!(id.starts_with("exe_") && id.ends_with("_5"), "{id}");
        assert_eq!(
            (&shown["event"], &shown["detail"]["to"], &shown["incarnation"]),
            (&json!("gap"), &json!(7), &json!(2))
        );
        assert_eq!(
            data(&event(EventKind::Message, Bytes::from_static(b"?")), false)["unreadable"],
            json!(true)
        );
    }
}
