use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::item::Item;
use crate::{Decoder, HEAD_BYTES, Kind};

/// Storage for messages of an outbox that do not fit into memory: a file, or a substitute in tests.
pub trait SpillStore {
    /// Writes the parts one after the other from `offset` on.
    ///
    /// # Errors
    /// When not all of it could be written; nothing at or after `offset` counts then.
    fn write(&mut self, offset: u64, parts: &[&[u8]]) -> io::Result<()>;
    /// Fills `into` from `offset` on.
    ///
    /// # Errors
    /// When not all of it could be read.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// Discards all data before `offset`; its space may be freed.
    fn discard(&mut self, offset: u64);
    /// Discards all data.
    fn clear(&mut self);
}

/// Read at once when records are small.
const CHUNK_BYTES: u64 = 256 * 1024;
/// CRC before each frame.
const CRC_BYTES: usize = 4;

/// Frames that were never sent, first in first out, in a [`SpillStore`]. A record is a CRC32C and the frame. What is
/// read back is checked like any foreign input: CRC, lengths, kind, kernel, ascending links.
#[derive(Debug)]
pub(super) struct Spill<S> {
    store: S,
    kernel: u16,
    start: u64,
    end: u64,
    /// Records already read and not yet taken.
    chunk: Bytes,
    last_link: u64,
}

impl<S: SpillStore> Spill<S> {
    pub(super) fn new(store: S, kernel: u16) -> Self {
        Self {
            store,
            kernel,
            start: 0,
            end: 0,
            chunk: Bytes::new(),
            last_link: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunk.is_empty() && self.start == self.end
    }

    /// Bytes in the store.
    pub(super) fn bytes(&self) -> u64 {
        self.end - self.start
    }

    pub(super) fn append(&mut self, item: &Item) -> io::Result<()> {
        let pieces = item.body().pieces().map(|piece| &piece[..]);
        let frame: Vec<&[u8]> = std::iter::once(item.prefix()).chain(pieces).collect();
        let crc = frame.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part));
        self.store
            .write(self.end, &[&[&crc.to_le_bytes()[..]], &frame[..]].concat())?;
        self.end += (CRC_BYTES + item.wire_bytes()) as u64;
        Ok(())
    }

    /// The oldest record, if `fits` says yes to the bytes of its frame.
    pub(super) fn take(&mut self, fits: impl Fn(usize) -> bool) -> io::Result<Option<Item>> {
        if self.is_empty() {
            return Ok(None);
        }
        let bytes = self.next_bytes()?;
        if !fits(bytes) {
            return Ok(None);
        }
        self.load(CRC_BYTES + bytes)?;
        let mut record = self.chunk.split_to(CRC_BYTES + bytes);
        let crc = record.get_u32_le();
        if crc32c::crc32c(&record) != crc {
            return Err(damaged("checksum"));
        }
        let mut decoder = Decoder::new();
        decoder.buffer().put(record);
        let frame = decoder.next().map_err(|error| damaged(&error.to_string()))?;
        let frame = frame.ok_or_else(|| damaged("length"))?;
        if frame.kernel != self.kernel || frame.number <= self.last_link {
            return Err(damaged("kernel or link"));
        }
        self.last_link = frame.number;
        let item = Item::from_frame(frame).map_err(|error| damaged(&error.to_string()))?;
        if self.is_empty() {
            self.clear();
        }
        Ok(Some(item))
    }

    /// Bytes of the frame that comes next.
    fn next_bytes(&mut self) -> io::Result<usize> {
        self.load(CRC_BYTES + HEAD_BYTES)?;
        let mut head = &self.chunk[CRC_BYTES..];
        let length = head.get_u32_le() as usize;
        let kind = Kind::from_byte(head.get_u8()).ok_or_else(|| damaged("kind"))?;
        let bytes = length + 4;
        let available = self.chunk.len() as u64 + self.bytes();
        if bytes < HEAD_BYTES || bytes > HEAD_BYTES + kind.limit() || (CRC_BYTES + bytes) as u64 > available {
            return Err(damaged("length"));
        }
        Ok(bytes)
    }

    /// Makes the chunk hold at least `wanted` bytes.
    fn load(&mut self, wanted: usize) -> io::Result<()> {
        if self.chunk.len() >= wanted {
            return Ok(());
        }
        let missing = (wanted - self.chunk.len()) as u64;
        if missing > self.bytes() {
            return Err(damaged("end"));
        }
        let more = missing.max(CHUNK_BYTES).min(self.bytes());
        let room = usize::try_from(more).map_err(|_| damaged("length"))?;
        let mut buffer = BytesMut::with_capacity(self.chunk.len() + room);
        buffer.extend_from_slice(&self.chunk);
        let kept = buffer.len();
        buffer.resize(kept + room, 0);
        self.store.read(self.start, &mut buffer[kept..])?;
        self.start += more;
        self.store.discard(self.start);
        self.chunk = buffer.freeze();
        Ok(())
    }

    /// Forgets everything, also after damage.
    pub(super) fn clear(&mut self) {
        self.store.clear();
        (self.start, self.end) = (0, 0);
        self.chunk = Bytes::new();
    }
}

#[cfg(test)]
impl<S> Spill<S> {
    pub(super) fn store_for_tests(&mut self) -> &mut S {
        &mut self.store
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("spill file is damaged: {what}"),
    )
}
