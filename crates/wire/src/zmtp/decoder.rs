use bytes::{Buf, Bytes, BytesMut};

use super::{COMMAND, GREETING_BYTES, HEAD_BYTES, LONG, MORE, NULL, SocketType};
use crate::zmq::MAX_IDENTITIES;
use crate::{Error, Limits, Result};

/// Longest command: READY with its properties, PING with its context.
const COMMAND_BYTES: usize = 16 << 10;
/// A frame that announces more is a lie, one that announces less is passed over when it is too large.
const FRAME_BYTES: u64 = 1 << 40;
/// Room for one read: the least and the most.
const READ_BYTES: (usize, usize) = (4 << 10, 128 << 10);
/// A frame of which so many bytes have come gets the room for all of its bytes at once.
const WHOLE_BYTES: usize = 1 << 20;

/// Items that a peer sends.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Item {
    /// The handshake is done.
    Ready,
    /// To be answered with [`pong`](super::pong) and this context.
    Ping(Bytes),
    /// The frames of a message, at least one. They share the read buffer's memory.
    Message(Vec<Bytes>),
    /// A message of this many bytes was over the limits and passed over.
    TooLarge(u64),
}

/// Cuts what a peer sends into messages.
///
/// Read into [`Decoder::buffer`], then call [`Decoder::next`] until it gives `None`. The buffer grows with what has
/// arrived, not with what was announced, up to 1 MiB. From there on it has room for the whole frame, so that it is moved no more and
/// ends with the frame: what comes later does not keep it. Room that nothing was written to takes addresses and no memory.
/// Of a message over the limits nothing is kept.
#[derive(Debug)]
pub struct Decoder {
    socket: SocketType,
    max_bytes: usize,
    max_frames: usize,
    buffer: BytesMut,
    stage: Stage,
    /// Bytes of the frame under way, head included, once its head is known.
    wanted: usize,
    /// Room for the next read, and what was in the buffer when it was given out.
    room: usize,
    offered: usize,
    /// The message under way: its frames, its bytes, what is to be passed over of its present frame.
    frames: Vec<Bytes>,
    bytes: u64,
    skip: u64,
    too_large: bool,
    more: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Greeting,
    Ready,
    Messages,
}

impl Decoder {
    /// A decoder for a new connection.
    pub fn new(socket: SocketType, limits: &Limits) -> Self {
        Self {
            socket,
            max_bytes: limits
                .message_bytes
                .saturating_add(limits.header_bytes.saturating_mul(2)),
            // Delimiter, signature and four parts.
            max_frames: limits.buffers.saturating_add(MAX_IDENTITIES).saturating_add(6),
            buffer: BytesMut::new(),
            stage: Stage::Greeting,
            wanted: 0,
            room: READ_BYTES.0,
            offered: 0,
            frames: Vec::new(),
            bytes: 0,
            skip: 0,
            too_large: false,
            more: false,
        }
    }

    /// The buffer to read into, with room for the next read: as much as the reads before had use for.
    pub fn buffer(&mut self) -> &mut BytesMut {
        let have = self.buffer.len();
        let (least, most) = READ_BYTES;
        let free = self.buffer.capacity().saturating_sub(have);
        let missing = self.wanted.saturating_sub(have);
        if missing > 0 && have >= WHOLE_BYTES {
            if free < missing {
                self.buffer.reserve(missing);
            }
        } else {
            let missing = missing.min(have.max(most));
            let room = self.room.max(missing);
            if free < room.min(least.max(missing)) {
                self.buffer.reserve(room);
            }
        }
        self.offered = have;
        &mut self.buffer
    }

    /// The next whole thing; `None` when more bytes are needed. After an error the stream cannot continue.
    ///
    /// # Errors
    /// When the peer does not speak ZMTP 3 with the NULL mechanism, or is a socket of the wrong type.
    #[allow(
        clippy::should_implement_trait,
        reason = "it is fallible and not an iteration to an end"
    )]
    pub fn next(&mut self) -> Result<Option<Item>> {
        self.adapt();
        loop {
            if self.stage == Stage::Greeting {
                if self.buffer.len() < GREETING_BYTES {
                    return Ok(None);
                }
                check_greeting(&self.buffer.split_to(GREETING_BYTES))?;
                self.stage = Stage::Ready;
            }
            if self.skip > 0 {
                let skipped = usize::try_from(self.skip)
                    .unwrap_or(usize::MAX)
                    .min(self.buffer.len());
                self.buffer.advance(skipped);
                self.skip = self.skip.saturating_sub(skipped as u64);
                if self.skip > 0 {
                    return Ok(None);
                }
                if let Some(item) = self.end_of_frame() {
                    return Ok(Some(item));
                }
                continue;
            }
            let Some((flags, head, length)) = parse_head(&self.buffer)? else {
                return Ok(None);
            };
            if flags & COMMAND != 0 {
                match self.command(flags, head, length)? {
                    DecodeStep::Item(item) => return Ok(Some(item)),
                    DecodeStep::Nothing => continue,
                    DecodeStep::Waits => return Ok(None),
                }
            }
            if self.stage != Stage::Messages {
                return Err(BROKEN);
            }
            let total = self.bytes.saturating_add(length);
            if self.too_large || total > self.max_bytes as u64 || self.frames.len() >= self.max_frames {
                self.too_large = true;
                self.frames = Vec::new();
                self.buffer.advance(head);
                (self.bytes, self.skip, self.wanted) = (total, length, 0);
            } else {
                // Within the limits, so that it fits.
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let whole = head.saturating_add(length);
                if self.buffer.len() < whole {
                    self.wanted = whole;
                    return Ok(None);
                }
                self.buffer.advance(head);
                self.frames.push(self.buffer.split_to(length).freeze());
                (self.bytes, self.wanted) = (total, 0);
            }
            self.more = flags & MORE != 0;
            if self.skip == 0
                && let Some(item) = self.end_of_frame()
            {
                return Ok(Some(item));
            }
        }
    }

    /// The item that the frame was the last one of.
    fn end_of_frame(&mut self) -> Option<Item> {
        if self.more {
            return None;
        }
        let bytes = std::mem::take(&mut self.bytes);
        let frames = std::mem::take(&mut self.frames);
        if std::mem::take(&mut self.too_large) {
            Some(Item::TooLarge(bytes))
        } else {
            Some(Item::Message(frames))
        }
    }

    fn command(&mut self, flags: u8, head: usize, length: u64) -> Result<DecodeStep> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > COMMAND_BYTES || flags & MORE != 0 {
            return Err(Error::TooLarge {
                field: "ZMTP command",
                got: length as u64,
                limit: COMMAND_BYTES as u64,
            });
        }
        if self.buffer.len() < head.saturating_add(length) {
            return Ok(DecodeStep::Waits);
        }
        self.buffer.advance(head);
        let mut body = self.buffer.split_to(length).freeze();
        let name_bytes = body.first().copied().map_or(0, usize::from);
        if body.len() <= name_bytes {
            return Err(BROKEN);
        }
        body.advance(1);
        let name = body.split_to(name_bytes);
        match (self.stage, &name[..]) {
            (Stage::Ready, b"READY") => {
                let peer = socket_type(&body).ok_or(BROKEN)?;
                if !self.socket.may_talk_to(&peer) {
                    return Err(Error::Zmtp {
                        reason: "the peer is a socket of another type",
                    });
                }
                self.stage = Stage::Messages;
                Ok(DecodeStep::Item(Item::Ready))
            }
            (_, b"ERROR") => Err(Error::Zmtp {
                reason: "the peer refuses the connection",
            }),
            (Stage::Messages, b"PING") if body.len() >= 2 => {
                body.advance(2);
                Ok(DecodeStep::Item(Item::Ping(body)))
            }
            (Stage::Messages, _) => Ok(DecodeStep::Nothing),
            _ => Err(BROKEN),
        }
    }

    /// Twice the room when a read had filled it, half of it when a read left most of it free.
    fn adapt(&mut self) {
        let read = self.buffer.len().saturating_sub(self.offered);
        if read == 0 {
            return;
        }
        self.offered = usize::MAX;
        let (least, most) = READ_BYTES;
        if read >= self.room {
            self.room = self.room.saturating_mul(2).min(most);
        } else if read < self.room / 4 {
            self.room = (self.room / 2).max(least);
        }
    }
}

enum DecodeStep {
    Item(Item),
    Nothing,
    Waits,
}

const BROKEN: Error = Error::Zmtp {
    reason: "these bytes are no ZMTP",
};

fn check_greeting(greeting: &[u8]) -> Result<()> {
    if greeting.first() != Some(&0xff) || greeting.get(9) != Some(&0x7f) {
        return Err(BROKEN);
    }
    if greeting.get(10).is_none_or(|major| *major < 3) {
        return Err(Error::Zmtp {
            reason: "the peer speaks an older version than 3.0",
        });
    }
    if greeting.get(12..32) != Some(&NULL[..]) {
        return Err(Error::Zmtp {
            reason: "the peer wants another mechanism than NULL",
        });
    }
    Ok(())
}

/// Flags, bytes of the head, bytes of the body.
fn parse_head(buffer: &[u8]) -> Result<Option<(u8, usize, u64)>> {
    let Some(&flags) = buffer.first() else {
        return Ok(None);
    };
    if flags & !(MORE | LONG | COMMAND) != 0 {
        return Err(BROKEN);
    }
    if flags & LONG == 0 {
        return Ok(buffer.get(1).map(|length| (flags, 2, u64::from(*length))));
    }
    let Some(length) = buffer.get(1..HEAD_BYTES).and_then(|bytes| bytes.try_into().ok()) else {
        return Ok(None);
    };
    let length = u64::from_be_bytes(length);
    if length > FRAME_BYTES {
        return Err(Error::TooLarge {
            field: "ZMTP frame",
            got: length,
            limit: FRAME_BYTES,
        });
    }
    Ok(Some((flags, HEAD_BYTES, length)))
}

/// The `Socket-Type` among the properties of READY.
fn socket_type(mut properties: &[u8]) -> Option<Vec<u8>> {
    loop {
        let (&name_bytes, rest) = properties.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(name_bytes))?;
        let (value_bytes, rest) = rest.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*value_bytes)).ok()?)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            return Some(value.to_vec());
        }
        properties = rest;
    }
}

#[cfg(test)]
mod tests;
