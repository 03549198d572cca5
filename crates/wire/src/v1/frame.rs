//! A frame that was checked once, and its parts.

use bytes::Bytes;

use super::{FIXED, WORD, encode};
use crate::header::{self, HeaderPeek};
use crate::parts::at_most;
use crate::repair::repaired;
use crate::{Channel, Error, Limits, Parts, Result};

const WHAT: &str = "v1 frame";

/// A frame whose offsets, channel and lengths were checked: its parts are slices that need no further check.
///
/// The offset table of the frame itself says where the parts are, so a frame is as large as its bytes and its channel,
/// and a clone shares the bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    bytes: Bytes,
    channel: Channel,
}

impl Frame {
    /// Checks the bytes of a sender. Nothing is copied, and no part is parsed.
    ///
    /// Strict where reference implementations trust the sender: the offset table must start right behind itself,
    /// ascend, and end at the end of the frame.
    ///
    /// # Errors
    /// [`Error::TooFew`], [`Error::Truncated`] and [`Error::BadOffset`] for a table that is wrong, [`Error::TooLarge`]
    /// above `limits`, [`Error::UnknownChannel`].
    #[inline]
    pub fn parse(bytes: Bytes, limits: &Limits) -> Result<Self> {
        let channel = check(&bytes, limits)?;
        Ok(Self { bytes, channel })
    }

    /// Writes a message of parts that are trusted, or were compared with their limits.
    pub fn new(channel: Channel, parts: &Parts) -> Self {
        Self {
            bytes: encode(channel, parts),
            channel,
        }
    }

    /// The channel that it is for.
    #[inline]
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// As [`Parts::header`].
    #[inline]
    pub fn header(&self) -> &[u8] {
        self.part(1)
    }

    /// As [`Parts::parent_header`].
    #[inline]
    pub fn parent_header(&self) -> &[u8] {
        self.part(2)
    }

    /// As [`Parts::metadata`].
    #[inline]
    pub fn metadata(&self) -> &[u8] {
        self.part(3)
    }

    /// As [`Parts::content`].
    #[inline]
    pub fn content(&self) -> &[u8] {
        self.part(4)
    }

    /// As [`Parts::buffers`].
    pub fn buffers(&self) -> impl Iterator<Item = &[u8]> {
        let parts = self.word(0).saturating_sub(1);
        (5..parts).map(|index| self.part(index))
    }

    /// As [`header::peek`] of its header.
    ///
    /// # Errors
    /// [`Error::Json`].
    #[inline]
    pub fn peek(&self) -> Result<HeaderPeek<'_>> {
        header::peek(self.header())
    }

    /// As [`header::peek_parent`] of its parent header.
    ///
    /// # Errors
    /// [`Error::Json`].
    pub fn peek_parent(&self) -> Result<Option<HeaderPeek<'_>>> {
        header::peek_parent(self.parent_header())
    }

    /// The same message as JSON that every reader takes: in its four dictionaries, bytes that are not UTF-8 and lone surrogates become
    /// U+FFFD. A frame that needs no repair is not copied.
    #[must_use]
    pub fn repaired(self) -> Self {
        let json = [
            self.header(),
            self.parent_header(),
            self.metadata(),
            self.content(),
        ];
        let repaired = json.map(repaired);
        if repaired.iter().all(Option::is_none) {
            return self;
        }
        let mut parts = self.to_parts();
        let places = [
            &mut parts.header,
            &mut parts.parent_header,
            &mut parts.metadata,
            &mut parts.content,
        ];
        for (place, repaired) in places.into_iter().zip(repaired) {
            if let Some(repaired) = repaired {
                *place = repaired.into();
            }
        }
        Self::new(self.channel, &parts)
    }

    /// A part of this frame as bytes that share its memory.
    pub fn share(&self, part: &[u8]) -> Bytes {
        self.bytes.slice_ref(part)
    }

    /// All parts, each of which shares the memory of the frame.
    pub fn to_parts(&self) -> Parts {
        Parts {
            header: self.share(self.header()),
            parent_header: self.share(self.parent_header()),
            metadata: self.share(self.metadata()),
            content: self.share(self.content()),
            buffers: self.buffers().map(|buffer| self.share(buffer)).collect(),
        }
    }

    /// A copy with memory of its own, for a frame that is kept: the bytes of a frame that was received keep the whole
    /// read buffer.
    #[must_use]
    pub fn to_unshared(&self) -> Self {
        Self {
            bytes: Bytes::copy_from_slice(&self.bytes),
            channel: self.channel,
        }
    }

    /// The frame as it is sent and stored.
    #[inline]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// As [`Frame::bytes`].
    #[inline]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// The bytes between two offsets of the table; part 0 is the channel.
    #[inline]
    fn part(&self, index: usize) -> &[u8] {
        let from = self.word(index.saturating_add(1));
        let to = self.word(index.saturating_add(2));
        self.bytes.get(from..to).unwrap_or_default()
    }

    /// A word of the table: their number, then the offsets. All were checked.
    #[inline]
    fn word(&self, index: usize) -> usize {
        let word = word(&self.bytes, index).unwrap_or_default();
        usize::try_from(word).unwrap_or_default()
    }
}

/// Checks all of a frame but the JSON in it. Returns its channel.
fn check(frame: &[u8], limits: &Limits) -> Result<Channel> {
    let count = word(frame, 0)?;
    if count < FIXED as u64 {
        return Err(Error::TooFew {
            what: WHAT,
            got: count,
            need: FIXED as u64,
        });
    }
    let buffers = count.saturating_sub(FIXED as u64);
    if buffers > limits.buffers as u64 {
        return Err(Error::TooLarge {
            field: "buffers",
            got: buffers,
            limit: limits.buffers as u64,
        });
    }
    let buffers = usize::try_from(buffers).map_err(|_| Error::Truncated { what: WHAT })?;
    let start = buffers
        .saturating_add(FIXED)
        .saturating_add(1)
        .saturating_mul(WORD);
    // The whole table is there, so the reads below cannot fail.
    if frame.len() < start {
        return Err(Error::Truncated { what: WHAT });
    }
    if word(frame, 1)? != start as u64 {
        return Err(Error::BadOffset { what: WHAT, index: 0 });
    }
    let mut slices = Slices {
        frame,
        index: 0,
        from: start,
    };
    let channel = slices.next()?;
    let (header, parent_header) = (slices.next()?, slices.next()?);
    // Metadata and content.
    for _ in 0..2 {
        slices.next()?;
    }
    at_most("header", header.len(), limits.header_bytes)?;
    at_most("parent_header", parent_header.len(), limits.header_bytes)?;
    at_most(
        "message",
        frame.len().saturating_sub(start).saturating_sub(channel.len()),
        limits.message_bytes,
    )?;
    let channel = Channel::parse(channel).ok_or(Error::UnknownChannel)?;
    for _ in 0..buffers {
        slices.next()?;
    }
    if slices.from != frame.len() {
        return Err(Error::BadOffset {
            what: WHAT,
            index: slices.index,
        });
    }
    Ok(channel)
}

/// The word at `8 * index`.
#[inline]
pub(super) fn word(frame: &[u8], index: usize) -> Result<u64> {
    let start = index.saturating_mul(WORD);
    let bytes = frame.get(start..).and_then(|rest| rest.first_chunk::<WORD>());
    bytes
        .map(|bytes| u64::from_le_bytes(*bytes))
        .ok_or(Error::Truncated { what: WHAT })
}

/// Walks the offset table; each step gives the bytes from the last offset to the next one.
struct Slices<'a> {
    frame: &'a [u8],
    /// Index of the offset that `from` came from.
    index: usize,
    from: usize,
}

impl<'a> Slices<'a> {
    fn next(&mut self) -> Result<&'a [u8]> {
        self.index = self.index.saturating_add(1);
        let bad = Error::BadOffset {
            what: WHAT,
            index: self.index,
        };
        let Ok(to) = usize::try_from(word(self.frame, self.index.saturating_add(1))?) else {
            return Err(bad);
        };
        let slice = self.frame.get(self.from..to).ok_or(bad)?;
        self.from = to;
        Ok(slice)
    }
}
