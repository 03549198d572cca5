//! The WebSocket framing without a subprotocol: JSON text, or binary when there are buffers.
//!
//! ```text
//! text     {"header":{…},"msg_id":…,"msg_type":…,"parent_header":{…},"metadata":{…},"content":{…},"buffers":[],"channel":…}
//! binary   u32 n = 1 + number of buffers · u32 offset[n], absolute, offset[0] = 4(n+1) · JSON without "buffers" · buffers
//! ```
//! All integers are big-endian. This is what `jupyter_server` in gateway mode and `jupyter_client`'s gateway
//! client speak.

mod decode;
mod encode;

use bytes::Bytes;

pub use decode::{decode_binary, decode_text};
pub use encode::{encode, encode_binary, encode_text};

/// A WebSocket message of this framing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Frame {
    /// A text message: no buffers.
    Text(String),
    /// A binary message: with buffers.
    Binary(Bytes),
}

const WORD: usize = 4;
const WHAT: &str = "legacy binary frame";

#[cfg(test)]
mod tests;
