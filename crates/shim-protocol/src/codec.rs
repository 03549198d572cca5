use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{Kind, ProtocolError};

/// Bytes before the body: length, kind, kernel, number.
pub const HEAD_BYTES: usize = 15;
/// Bytes of the head that the length includes: all but the length field.
const COUNTED: usize = HEAD_BYTES - 4;
/// Room that is offered to a read while no large body is under way.
const READ_BYTES: usize = 64 * 1024;
/// One frame as it was received.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    /// Kind of the frame; unknown kinds are refused earlier.
    pub kind: Kind,
    /// The kernel it is about; 0 is the shim.
    pub kernel: u16,
    /// Number of the frame, as its kind defines it.
    pub number: u64,
    /// The body, a slice of the read buffer: copy what is kept for long.
    pub body: Bytes,
}

/// The head of a frame with a body of `body_bytes`.
///
/// # Errors
/// [`ProtocolError::Length`] when the body is larger than its kind may be.
pub fn encode_head(
    kind: Kind,
    kernel: u16,
    number: u64,
    body_bytes: usize,
) -> Result<[u8; HEAD_BYTES], ProtocolError> {
    let length = u32::try_from(body_bytes + COUNTED)
        .ok()
        .filter(|_| body_bytes <= kind.limit());
    let Some(length) = length else {
        return Err(ProtocolError::Length {
            kind: kind as u8,
            bytes: body_bytes,
            limit: kind.limit(),
        });
    };
    let mut head = [0; HEAD_BYTES];
    let mut rest = &mut head[..];
    rest.put_u32_le(length);
    rest.put_u8(kind as u8);
    rest.put_u16_le(kernel);
    rest.put_u64_le(number);
    Ok(head)
}

/// Appends a whole frame.
///
/// # Errors
/// [`ProtocolError::Length`] when the body is larger than its kind may be; nothing is appended then.
pub fn encode_frame(
    out: &mut BytesMut,
    kind: Kind,
    kernel: u16,
    number: u64,
    body: &[u8],
) -> Result<(), ProtocolError> {
    let head = encode_head(kind, kernel, number, body.len())?;
    out.reserve(HEAD_BYTES + body.len());
    out.extend_from_slice(&head);
    out.extend_from_slice(body);
    Ok(())
}

/// Cuts a byte stream into frames.
///
/// Read into [`Decoder::buffer`], then call [`Decoder::next`] until it gives `None`. The buffer grows with what has
/// arrived, never with what was announced: a large body is reserved in steps that double, so a peer that announces
/// much and sends little costs little.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
    /// Bytes of an unknown kind that are still to be discarded.
    skip: usize,
    /// Bytes of the frame under way, once its head is known.
    wanted: usize,
    /// The caller has not shown the key.
    unproven: bool,
}

impl Decoder {
    /// An empty decoder.
    pub fn new() -> Self {
        Self::default()
    }

    /// A decoder for a caller that has not shown the key: it takes one hello of at most [`HELLO_BYTES`](crate::HELLO_BYTES) and nothing else, and makes
    /// room for no more than that.
    pub fn unproven() -> Self {
        Self {
            unproven: true,
            ..Self::default()
        }
    }

    /// The caller has shown the key: from now on every kind is taken, within its own limit.
    pub fn proven(&mut self) {
        self.unproven = false;
    }

    /// Bytes of the frame under way with its head; 0 until its head is known.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// The buffer to read into, with room for the next read.
    pub fn buffer(&mut self) -> &mut BytesMut {
        let missing = self.wanted.saturating_sub(self.buffer.len());
        if self.unproven {
            let missing = missing.max(HEAD_BYTES.saturating_sub(self.buffer.len()));
            self.buffer.reserve(missing.max(1));
            return &mut self.buffer;
        }
        let room = missing.min(self.buffer.len().max(READ_BYTES)).max(READ_BYTES / 8);
        if self.buffer.capacity() - self.buffer.len() < room {
            self.buffer.reserve(room.max(READ_BYTES));
        }
        &mut self.buffer
    }

    /// Bytes that were received and not yet given out.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// The next whole frame; `None` when more bytes are needed. After an error the stream cannot continue.
    ///
    /// # Errors
    /// [`ProtocolError::Length`] for a length outside of its kind's limits; [`ProtocolError::State`] for anything but a hello while
    /// the caller is unproven.
    #[allow(
        clippy::should_implement_trait,
        reason = "it is fallible and not an iteration to an end"
    )]
    pub fn next(&mut self) -> Result<Option<Frame>, ProtocolError> {
        loop {
            let skipped = self.skip.min(self.buffer.len());
            self.buffer.advance(skipped);
            self.skip -= skipped;
            if self.skip > 0 || self.buffer.len() < HEAD_BYTES {
                return Ok(None);
            }
            let mut head = &self.buffer[..HEAD_BYTES];
            let (length, byte) = (head.get_u32_le() as usize, head.get_u8());
            let (kernel, number) = (head.get_u16_le(), head.get_u64_le());
            let kind = Kind::from_byte(byte);
            if self.unproven && kind != Some(Kind::Hello) {
                return Err(ProtocolError::State("the first frame must be a hello".into()));
            }
            let limit = kind.map_or(Kind::UNKNOWN_LIMIT, Kind::limit);
            let body = length.checked_sub(COUNTED).filter(|body| *body <= limit);
            let Some(body) = body else {
                let bytes = length.saturating_sub(COUNTED);
                return Err(ProtocolError::Length {
                    kind: byte,
                    bytes,
                    limit,
                });
            };
            let Some(kind) = kind else {
                self.skip = HEAD_BYTES + body;
                continue;
            };
            if self.buffer.len() < HEAD_BYTES + body {
                self.wanted = HEAD_BYTES + body;
                return Ok(None);
            }
            self.wanted = 0;
            self.buffer.advance(HEAD_BYTES);
            let body = self.buffer.split_to(body).freeze();
            return Ok(Some(Frame {
                kind,
                kernel,
                number,
                body,
            }));
        }
    }
}
