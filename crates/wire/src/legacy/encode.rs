//! From a kernel's message to what a legacy client reads.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Frame, WHAT, WORD};
use crate::{Channel, Error, Parts, Result, header};

/// The JSON of a message. The order of the fields is that of the reference.
#[derive(Serialize)]
struct Message<'a> {
    header: &'a RawValue,
    msg_id: Cow<'a, str>,
    msg_type: Cow<'a, str>,
    parent_header: &'a RawValue,
    metadata: &'a RawValue,
    content: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    buffers: Option<[(); 0]>,
    channel: &'static str,
}

/// Text when the message has no buffers, else binary.
///
/// Each part must be one JSON object and is embedded as it is, so a kernel cannot add or replace fields
/// around its own. Bytes that are not UTF-8 become U+FFFD.
pub fn encode(channel: Channel, parts: &Parts) -> Result<Frame> {
    if parts.buffers.is_empty() {
        encode_text(channel, parts).map(Frame::Text)
    } else {
        encode_binary(channel, parts).map(Frame::Binary)
    }
}

/// Text whatever the message holds: buffers are left out, for clients that cannot read binary frames.
pub fn encode_text(channel: Channel, parts: &Parts) -> Result<String> {
    let mut out = Vec::with_capacity(text_capacity(parts));
    write_json(&mut out, channel, parts, Some([]))?;
    // All of it came out of `str`s.
    String::from_utf8(out).map_err(|_| Error::Json {
        field: "message",
        reason: "not UTF-8".to_owned(),
    })
}

/// Binary whatever the message holds. Refuses what 32-bit offsets cannot address.
pub fn encode_binary(channel: Channel, parts: &Parts) -> Result<Bytes> {
    let count = parts.buffers.len().saturating_add(1);
    let start = count.saturating_add(1).saturating_mul(WORD);
    let payload = parts
        .buffers
        .iter()
        .map(Bytes::len)
        .fold(text_capacity(parts), usize::saturating_add);
    let mut out = Vec::with_capacity(start.saturating_add(payload));
    out.extend_from_slice(&offset(count)?.to_be_bytes());
    out.extend_from_slice(&offset(start)?.to_be_bytes());
    out.resize(start, 0);
    write_json(&mut out, channel, parts, None)?;
    let mut offsets = Vec::with_capacity(parts.buffers.len());
    for buffer in &parts.buffers {
        offsets.push(offset(out.len())?);
        out.extend_from_slice(buffer);
    }
    offset(out.len())?;
    // The table: count, offset of the JSON (both written), then the buffers'.
    let table = out.get_mut(WORD.saturating_mul(2)..start).unwrap_or_default();
    for (place, offset) in table.chunks_exact_mut(WORD).zip(offsets) {
        place.copy_from_slice(&offset.to_be_bytes());
    }
    Ok(Bytes::from(out))
}

fn offset(value: usize) -> Result<u32> {
    u32::try_from(value).map_err(|_| Error::TooLarge {
        field: WHAT,
        got: value as u64,
        limit: u64::from(u32::MAX),
    })
}

/// The four parts, the field names, and room for `msg_id` and `msg_type`.
fn text_capacity(parts: &Parts) -> usize {
    parts
        .signed()
        .into_iter()
        .map(Bytes::len)
        .fold(320, usize::saturating_add)
}

fn write_json(out: &mut Vec<u8>, channel: Channel, parts: &Parts, buffers: Option<[(); 0]>) -> Result<()> {
    let header_text = String::from_utf8_lossy(&parts.header);
    let parent_text = String::from_utf8_lossy(&parts.parent_header);
    let metadata_text = String::from_utf8_lossy(&parts.metadata);
    let content_text = String::from_utf8_lossy(&parts.content);
    let peek = header::peek(&parts.header)?;
    let message = Message {
        header: object("header", &header_text)?,
        msg_id: peek.msg_id,
        msg_type: peek.msg_type,
        parent_header: object("parent_header", &parent_text)?,
        metadata: object("metadata", &metadata_text)?,
        content: object("content", &content_text)?,
        buffers,
        channel: channel.as_str(),
    };
    serde_json::to_writer(out, &message).map_err(|error| Error::json("message", &error))
}

/// One whole JSON object, as it is. Does not recurse.
fn object<'a>(field: &'static str, text: &'a str) -> Result<&'a RawValue> {
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| Error::json(field, &error))?;
    if raw.get().starts_with('{') {
        Ok(raw)
    } else {
        Err(Error::not_an_object(field))
    }
}
