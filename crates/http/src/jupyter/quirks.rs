//! Workarounds for old clients.
//!
//! A `jupyter_server` in gateway mode (User-Agent `Tornado/…`, neither Origin nor subprotocol) decodes every message as
//! UTF-8, and a binary message ends its reader; and it drops the connection at a message over 10 MiB. Such a client
//! receives text only, without buffers, and nothing near that size: streams are split, and a notice replaces larger
//! parts of other messages. A line on standard error says what is missing, once per kind and connection.

use std::collections::BTreeMap;

use bytes::Bytes;
use himalia_wire::legacy::{self, Frame};
use himalia_wire::{Channel, Error, Parts, build, header};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Largest text that is sent to such a client: its limit is 10 MiB.
const FRAME_BYTES: usize = 10 << 20;
/// Streams over the limit are cut into pieces of this many bytes, at most six times as long when escaped.
const PIECE_BYTES: usize = 1 << 20;
/// Members larger than this are replaced by a notice in messages over the limit.
const MEMBER_BYTES: usize = 1 << 20;

/// The differences of a legacy client, and the notices that it received.
#[derive(Clone, Debug, Default)]
pub(super) struct Quirks {
    gateway_client: bool,
    noted_buffers: bool,
    noted_size: bool,
}

impl Quirks {
    /// Judges a client by its handshake.
    pub(super) fn of(user_agent: &str, origin: bool, subprotocol: bool) -> Self {
        let gateway_client = user_agent.starts_with("Tornado/") && !origin && !subprotocol;
        Self {
            gateway_client,
            ..Self::default()
        }
    }

    /// Writes a message of the kernel as this client can read it: one frame, or several.
    pub(super) fn encode(&mut self, channel: Channel, parts: &Parts) -> Result<Vec<Frame>, Error> {
        if !self.gateway_client {
            return Ok(vec![legacy::encode(channel, parts)?]);
        }
        let mut frames = Vec::with_capacity(1);
        if parts.buffers.is_empty() {
            self.put(&mut frames, channel, parts)?;
        } else {
            self.put(
                &mut frames,
                channel,
                &Parts {
                    buffers: Vec::new(),
                    ..parts.clone()
                },
            )?;
            if !std::mem::replace(&mut self.noted_buffers, true) {
                frames.push(notice(parts, BUFFERS)?);
            }
        }
        Ok(frames)
    }

    fn put(&mut self, frames: &mut Vec<Frame>, channel: Channel, parts: &Parts) -> Result<(), Error> {
        let text = legacy::encode_text(channel, parts)?;
        if text.len() <= FRAME_BYTES {
            frames.push(Frame::Text(text));
            return Ok(());
        }
        if let Some(pieces) = stream_pieces(parts) {
            for piece in pieces {
                frames.push(Frame::Text(legacy::encode_text(channel, &piece)?));
            }
            return Ok(());
        }
        let smaller = Parts {
            content: shrunk(&parts.content),
            ..parts.clone()
        };
        let text = legacy::encode_text(channel, &smaller)?;
        if text.len() <= FRAME_BYTES {
            frames.push(Frame::Text(text));
        }
        if !std::mem::replace(&mut self.noted_size, true) {
            frames.push(notice(parts, SIZE)?);
        }
        Ok(())
    }
}

const BUFFERS: &str = "himalia: a message with binary buffers (a widget, most likely) was sent without them, because this \
                       jupyter_server cannot receive binary messages from a gateway\n";
const SIZE: &str = "himalia: a part of an output was left out, because this jupyter_server cannot receive messages over \
                    10 MiB from a gateway\n";

/// A line on standard error, below the same request.
fn notice(parts: &Parts, text: &str) -> Result<Frame, Error> {
    let session = header::peek(&parts.header)
        .map(|h| h.session.into_owned())
        .unwrap_or_default();
    let message = build::stream(&session, Some(&parts.parent_header), "stderr", text);
    legacy::encode_text(Channel::Iopub, &message).map(Frame::Text)
}

/// A `stream` message in pieces; `None` if it is none.
fn stream_pieces(parts: &Parts) -> Option<Vec<Parts>> {
    #[derive(Deserialize)]
    struct Stream {
        name: String,
        text: String,
    }
    if header::peek(&parts.header).ok()?.msg_type != "stream" {
        return None;
    }
    let Stream { name, text } = serde_json::from_slice(&parts.content).ok()?;
    let (mut pieces, mut rest) = (Vec::new(), text.as_str());
    while !rest.is_empty() {
        let mut cut = rest.len().min(PIECE_BYTES);
        while !rest.is_char_boundary(cut) {
            cut -= 1;
        }
        let (piece, after) = rest.split_at(cut);
        let content = serde_json::json!({ "name": name, "text": piece }).to_string();
        pieces.push(Parts {
            content: content.into(),
            ..parts.clone()
        });
        rest = after;
    }
    Some(pieces)
}

type Object<'a> = BTreeMap<String, &'a RawValue>;

/// Content with large members replaced by something empty of their type; large representations of an output are left
/// out one by one, and the text says so.
fn shrunk(content: &Bytes) -> Bytes {
    let Ok(object) = serde_json::from_slice::<Object<'_>>(content) else {
        return Bytes::from_static(b"{}");
    };
    let mut out: BTreeMap<String, Box<RawValue>> = BTreeMap::new();
    for (key, value) in object {
        let kept = if value.get().len() <= MEMBER_BYTES {
            Some(value.to_owned())
        } else if key == "data" {
            bundle(value)
        } else {
            stand_in(value)
        };
        out.extend(kept.map(|kept| (key, kept)));
    }
    serde_json::to_vec(&out).map_or_else(|_| Bytes::from_static(b"{}"), Bytes::from)
}

/// A MIME bundle without its large representations.
fn bundle(value: &RawValue) -> Option<Box<RawValue>> {
    let Ok(bundle) = serde_json::from_str::<Object<'_>>(value.get()) else {
        return stand_in(value);
    };
    let (mut kept, mut left_out) = (BTreeMap::new(), Vec::new());
    for (mime, value) in bundle {
        if value.get().len() <= MEMBER_BYTES {
            kept.insert(mime, value.to_owned());
        } else {
            left_out.push(format!("{mime} ({} bytes)", value.get().len()));
        }
    }
    let text = format!(
        "[himalia left out {}: too large for this connection]",
        left_out.join(", ")
    );
    kept.insert("text/plain".into(), serde_json::value::to_raw_value(&text).ok()?);
    serde_json::value::to_raw_value(&kept).ok()
}

fn stand_in(value: &RawValue) -> Option<Box<RawValue>> {
    let text = match value.get().as_bytes().first() {
        Some(b'"') => "\"[himalia: too large for this connection]\"",
        Some(b'[') => "[]",
        Some(b'{') => "{}",
        _ => return None,
    };
    RawValue::from_string(text.to_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const GATEWAY: &str = "Tornado/6.6.1";

    fn message(msg_type: &str, content: &Value) -> Parts {
        build::message("kernel", msg_type, Some(br#"{"msg_id":"m"}"#), content)
    }

    fn texts(frames: Vec<Frame>) -> Vec<Value> {
        let parse = |frame| match frame {
            Frame::Text(text) => {
                assert!(text.len() <= FRAME_BYTES);
                serde_json::from_str(&text).unwrap()
            }
            Frame::Binary(_) => panic!("binary"),
        };
        frames.into_iter().map(parse).collect()
    }

    #[test]
    fn others_get_what_there_is() {
        let mut parts = message("comm_msg", &json!({}));
        parts.buffers.push(Bytes::from_static(b"x"));
        for (agent, origin, protocol) in [
            (GATEWAY, true, false),
            (GATEWAY, false, true),
            ("python", false, false),
        ] {
            let frames = Quirks::of(agent, origin, protocol)
                .encode(Channel::Iopub, &parts)
                .unwrap();
            assert!(matches!(frames[..], [Frame::Binary(_)]));
        }
    }

    #[test]
    fn buffers_are_left_out_and_said_once() {
        let mut parts = message("comm_msg", &json!({"comm_id": "c"}));
        parts.buffers.push(Bytes::from_static(b"x"));
        let mut quirks = Quirks::of(GATEWAY, false, false);
        let first = texts(quirks.encode(Channel::Iopub, &parts).unwrap());
        assert_eq!(
            (first[0]["msg_type"].as_str(), &first[0]["buffers"]),
            (Some("comm_msg"), &json!([]))
        );
        assert_eq!(first[1]["content"]["name"], "stderr");
        assert_eq!(first[1]["header"]["session"], "kernel");
        assert_eq!(first[1]["parent_header"]["msg_id"], "m");
        assert_eq!(texts(quirks.encode(Channel::Iopub, &parts).unwrap()).len(), 1);
    }

    #[test]
    fn long_streams_are_split_without_loss() {
        let text = "é\n\u{1}".repeat(3 << 20);
        let parts = message("stream", &json!({"name": "stdout", "text": text}));
        let frames = texts(
            Quirks::of(GATEWAY, false, false)
                .encode(Channel::Iopub, &parts)
                .unwrap(),
        );
        let joined: String = frames
            .iter()
            .map(|f| f["content"]["text"].as_str().unwrap())
            .collect();
        assert!(joined == text);
        assert!(frames.iter().all(|f| f["content"]["name"] == "stdout"));
    }

    #[test]
    fn large_outputs_lose_their_large_parts_only() {
        let big = "x".repeat(11 << 20);
        let content =
            json!({"data": {"image/png": big, "text/html": "<b>"}, "metadata": {}, "execution_count": 3});
        let parts = message("execute_result", &content);
        let frames = texts(
            Quirks::of(GATEWAY, false, false)
                .encode(Channel::Iopub, &parts)
                .unwrap(),
        );
        let data = &frames[0]["content"]["data"];
        assert_eq!((&data["text/html"], data.get("image/png")), (&json!("<b>"), None));
        assert!(
            data["text/plain"]
                .as_str()
                .unwrap()
                .contains("image/png (11534338 bytes)")
        );
        assert_eq!(frames[0]["content"]["execution_count"], 3);
        assert_eq!(frames[1]["content"]["name"], "stderr");
        let error = message("error", &json!({"ename": "E", "evalue": "v", "traceback": [big]}));
        let frames = texts(
            Quirks::of(GATEWAY, false, false)
                .encode(Channel::Iopub, &error)
                .unwrap(),
        );
        assert_eq!(
            (&frames[0]["content"]["traceback"], &frames[0]["content"]["ename"]),
            (&json!([]), &json!("E"))
        );
    }
}
