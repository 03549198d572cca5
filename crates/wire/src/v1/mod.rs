//! The `v1.kernel.websocket.jupyter.org` framing: little-endian u64 offsets, then the parts as they are.
//!
//! ```text
//! 0        u64 N = 6 + number of buffers
//! 8(i+1)   u64 offset[i], absolute, i in 0..N; offset[0] = 8(1+N), offset[N-1] = length of the frame
//! offset[0] channel · [1] header · [2] parent_header · [3] metadata · [4] content · [5..] buffers
//! ```
//! The same bytes are the form in which a message is kept and passed between Himalia's processes.
//! ([protocol](https://jupyter-server.readthedocs.io/en/latest/developers/websocket-protocols.html))

mod frame;

use bytes::Bytes;

pub use frame::Frame;

use crate::{Channel, Limits, Parts, Result};

/// Name of the WebSocket subprotocol.
pub const SUBPROTOCOL: &str = "v1.kernel.websocket.jupyter.org";

/// Offsets of a frame without buffers: channel, four parts, end.
const FIXED: usize = 6;
const WORD: usize = 8;

/// Writes a frame, with one allocation. Infallible: lengths of memory that exists fit into u64.
pub fn encode(channel: Channel, parts: &Parts) -> Bytes {
    let mut frame = begin(channel, parts, parts.byte_len());
    for part in parts.signed().into_iter().chain(&parts.buffers) {
        frame.extend_from_slice(part);
    }
    Bytes::from(frame)
}

/// As [`encode`], in pieces that follow each other: all up to the content is written, content and buffers are shared.
pub fn encode_shared(channel: Channel, parts: &Parts) -> Vec<Bytes> {
    let [header, parent_header, metadata, content] = parts.signed();
    let headers = [header, parent_header, metadata];
    let mut frame = begin(channel, parts, headers.iter().map(|part| part.len()).sum());
    for part in headers {
        frame.extend_from_slice(part);
    }
    let shared = std::iter::once(content).chain(&parts.buffers);
    std::iter::once(Bytes::from(frame))
        .chain(shared.filter(|part| !part.is_empty()).cloned())
        .collect()
}

/// Offsets and channel of a frame, with room for as many bytes behind them.
fn begin(channel: Channel, parts: &Parts, room: usize) -> Vec<u8> {
    let name = channel.as_str().as_bytes();
    let offsets = FIXED.saturating_add(parts.buffers.len());
    let start = offsets.saturating_add(1).saturating_mul(WORD);
    let mut frame = Vec::with_capacity(start.saturating_add(name.len()).saturating_add(room));
    let put = |frame: &mut Vec<u8>, value: usize| frame.extend_from_slice(&(value as u64).to_le_bytes());
    put(&mut frame, offsets);
    put(&mut frame, start);
    let mut end = start.saturating_add(name.len());
    put(&mut frame, end);
    for length in parts.lengths() {
        end = end.saturating_add(length);
        put(&mut frame, end);
    }
    frame.extend_from_slice(name);
    frame
}

/// Reads a frame into its parts, which share its bytes. [`Frame`] shares only the parts that are asked for.
///
/// # Errors
/// As [`Frame::parse`].
pub fn decode(frame: &Bytes, limits: &Limits) -> Result<(Channel, Parts)> {
    let frame = Frame::parse(frame.clone(), limits)?;
    Ok((frame.channel(), frame.to_parts()))
}

#[cfg(test)]
mod tests;
