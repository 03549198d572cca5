//! ZMTP 3.0 with the NULL mechanism, from the side of a client: the bytes between it and a kernel's ZMQ socket
//! ([RFC 23](https://rfc.zeromq.org/spec/23/)).
//!
//! ```text
//! greeting (64 bytes) · READY command · messages, with a command here and there
//! frame: u8 flags (1 more follows, 2 long, 4 command) · u8 length, or u64 big endian when long · body
//! ```
//! A peer of a later version speaks 3.0 when it sees ours; older ones are refused.

mod decoder;

use bytes::{Bytes, BytesMut};

pub use decoder::{Decoder, Item};

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

const GREETING_BYTES: usize = 64;
const NULL: [u8; 20] = *b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// Longest head of a frame.
pub const HEAD_BYTES: usize = 9;

/// Types of client sockets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SocketType {
    /// Sends to and receives from a ROUTER.
    Dealer,
    /// Receives from a PUB or XPUB.
    Sub,
    /// Asks a REP or ROUTER.
    Req,
}

impl SocketType {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Dealer => b"DEALER",
            Self::Sub => b"SUB",
            Self::Req => b"REQ",
        }
    }

    fn may_talk_to(self, peer: &[u8]) -> bool {
        match self {
            Self::Dealer => matches!(peer, b"ROUTER" | b"DEALER" | b"REP"),
            Self::Sub => matches!(peer, b"PUB" | b"XPUB"),
            Self::Req => matches!(peer, b"REP" | b"ROUTER"),
        }
    }
}

/// A SUB's subscription to everything, as a message.
pub const SUBSCRIBE: &[u8] = b"\x01";

/// First bytes of a client: greeting and READY. `identity` has at most 255 bytes; an empty one is none. Messages may follow when the peer is ready,
/// not before: libzmq closes the connection otherwise.
pub fn opening(socket: SocketType, identity: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.extend_from_slice(&[0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0]);
    out.extend_from_slice(&NULL);
    out.resize(GREETING_BYTES, 0);
    let mut ready = b"\x05READY".to_vec();
    property(&mut ready, b"Socket-Type", socket.name());
    if !identity.is_empty() {
        property(&mut ready, b"Identity", identity.get(..255).unwrap_or(identity));
    }
    put(&mut out, COMMAND, &ready);
    out.freeze()
}

fn property(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(name);
    out.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(value);
}

fn put(out: &mut BytesMut, flags: u8, body: &[u8]) {
    let (head, length) = head(flags, body.len());
    out.extend_from_slice(head.get(..length).unwrap_or_default());
    out.extend_from_slice(body);
}

/// The head of one frame of a message with a body of this length, and how many of its bytes count.
pub fn frame_head(more: bool, body_bytes: usize) -> ([u8; HEAD_BYTES], usize) {
    head(if more { MORE } else { 0 }, body_bytes)
}

fn head(flags: u8, body_bytes: usize) -> ([u8; HEAD_BYTES], usize) {
    if let Ok(short) = u8::try_from(body_bytes) {
        return ([flags, short, 0, 0, 0, 0, 0, 0, 0], 2);
    }
    let mut head = [flags | LONG; HEAD_BYTES];
    if let Some(length) = head.last_chunk_mut::<8>() {
        *length = (body_bytes as u64).to_be_bytes();
    }
    (head, HEAD_BYTES)
}

/// The answer to a ping.
pub fn pong(context: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    put(&mut out, COMMAND, &[b"\x04PONG", context].concat());
    out.freeze()
}
