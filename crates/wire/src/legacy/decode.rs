//! From what a legacy client sends to a message.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{WHAT, WORD};
use crate::json::Text;
use crate::parts::at_most;
use crate::{Channel, Error, Limits, Parts, Result};

/// Members of the JSON that are read; all others (`msg_id`, `msg_type`, `buffers`) are ignored.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    header: Option<&'a RawValue>,
    #[serde(borrow)]
    parent_header: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    channel: Option<Text<'a>>,
}

/// Reads a text message. `None` for the channel when the client names none: it then means shell.
///
/// Tolerant as the reference: `parent_header`, `metadata` and `content` may be absent or null and are then
/// `{}`; `buffers` is not looked at. The parts are copies of the client's own bytes, not re-serialised.
pub fn decode_text(frame: impl AsRef<[u8]>, limits: &Limits) -> Result<(Option<Channel>, Parts)> {
    let (channel, parts) = message(frame.as_ref(), Bytes::copy_from_slice, Vec::new(), limits)?;
    Ok((channel, parts))
}

/// Reads a binary message, as [`decode_text`]; parts and buffers are slices of the frame.
pub fn decode_binary(frame: &Bytes, limits: &Limits) -> Result<(Option<Channel>, Parts)> {
    let count = word(frame, 0)?;
    let Some(buffers) = count.checked_sub(1) else {
        return Err(Error::TooFew {
            what: WHAT,
            got: 0,
            need: 1,
        });
    };
    at_most("buffers", buffers, limits.buffers)?;
    let start = count.saturating_add(1).saturating_mul(WORD);
    if frame.len() < start {
        return Err(Error::Truncated { what: WHAT });
    }
    if word(frame, 1)? != start {
        return Err(Error::BadOffset { what: WHAT, index: 0 });
    }
    // Slice i runs from offset i to offset i + 1, the last one to the end.
    let slice = |index: usize| {
        let next = index.saturating_add(1);
        let from = word(frame, next)?;
        let to = if next == count {
            frame.len()
        } else {
            word(frame, next.saturating_add(1))?
        };
        if from > to || to > frame.len() {
            return Err(Error::BadOffset {
                what: WHAT,
                index: next,
            });
        }
        Ok(frame.slice(from..to))
    };
    let json = slice(0)?;
    let buffers = (1..count).map(slice).collect::<Result<Vec<_>>>()?;
    message(&json, |part| json.slice_ref(part), buffers, limits)
}

fn message(
    json: &[u8],
    take: impl Fn(&[u8]) -> Bytes,
    buffers: Vec<Bytes>,
    limits: &Limits,
) -> Result<(Option<Channel>, Parts)> {
    let message: Message<'_> =
        serde_json::from_slice(json).map_err(|error| Error::json("message", &error))?;
    let channel = match message.channel {
        None => None,
        Some(Text(name)) => Some(Channel::parse(&*name).ok_or(Error::UnknownChannel)?),
    };
    let header = message.header.ok_or(Error::Json {
        field: "header",
        reason: "missing".to_owned(),
    })?;
    let part = |field, raw: Option<&RawValue>| match raw {
        None => Ok(Bytes::from_static(b"{}")),
        Some(raw) if raw.get().starts_with('{') => Ok(take(raw.get().as_bytes())),
        Some(_) => Err(Error::not_an_object(field)),
    };
    // Before they are copied.
    at_most("header", header.get().len(), limits.header_bytes)?;
    at_most(
        "parent_header",
        message.parent_header.map_or(0, |raw| raw.get().len()),
        limits.header_bytes,
    )?;
    let parts = Parts {
        header: part("header", Some(header))?,
        parent_header: part("parent_header", message.parent_header)?,
        metadata: part("metadata", message.metadata)?,
        content: part("content", message.content)?,
        buffers,
    };
    parts.check(limits)?;
    Ok((channel, parts))
}

/// The word at `4 * index`.
fn word(frame: &[u8], index: usize) -> Result<usize> {
    let bytes = frame
        .get(index.saturating_mul(WORD)..)
        .and_then(|rest| rest.first_chunk::<WORD>());
    let value = bytes
        .map(|bytes| u32::from_be_bytes(*bytes))
        .ok_or(Error::Truncated { what: WHAT })?;
    usize::try_from(value).map_err(|_| Error::Truncated { what: WHAT })
}
