//! The bytes of a segment. All numbers are little-endian.
//!
//! ```text
//! segment  magic "HIMLOG" and the version "01" · u64 first seq · u32 flags (1: a checkpoint follows) · u32 CRC32C of the 20 bytes before
//!          [checkpoint record] record*
//! record   u32 CRC32C of all that follows · u32 body length · u64 seq · u64 microseconds · 40 bytes meta
//!          · u8 kind · u8 tag (0 record, 1 checkpoint) · u16 zero · body
//! ```
//!
//! A checkpoint has the seq before the segment's first.

use std::fmt;

use crate::record::Meta;

/// The longest body or checkpoint: 512 MiB.
pub const MAX_BODY_BYTES: usize = 512 << 20;

/// Bytes of a segment before its first record.
pub(crate) const SEGMENT_HEADER: usize = 24;
/// Bytes of a record before its body.
pub(crate) const RECORD_HEADER: usize = 68;

const MAGIC: &[u8; 8] = b"HIMLOG01";
const HAS_CHECKPOINT: u32 = 1;

/// Kinds of records to the journal itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Record,
    Checkpoint,
}

/// The fixed part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) seq: u64,
    pub(crate) at_micros: u64,
    pub(crate) meta: Meta,
    pub(crate) kind: u8,
    pub(crate) tag: Tag,
}

impl RecordHeader {
    /// The header bytes that belong before `body`. `body` is at most [`MAX_BODY_BYTES`], which the caller checked.
    pub(crate) fn encode(&self, body: &[u8]) -> [u8; RECORD_HEADER] {
        let mut out = [0; RECORD_HEADER];
        let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
        out[4..8].copy_from_slice(&len.to_le_bytes());
        out[8..16].copy_from_slice(&self.seq.to_le_bytes());
        out[16..24].copy_from_slice(&self.at_micros.to_le_bytes());
        out[24..64].copy_from_slice(&self.meta.0);
        out[64] = self.kind;
        out[65] = u8::from(self.tag == Tag::Checkpoint);
        let crc = checksum(&out, body);
        out[..4].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The header and the length of the body that follows, or `None` if these bytes cannot be a header. The checksum
    /// covers the body too: see [`checksum_holds`].
    pub(crate) fn decode(bytes: &[u8; RECORD_HEADER]) -> Option<(Self, usize)> {
        let len = usize::try_from(u32::from_le_bytes(array(bytes, 4))).ok()?;
        let tag = match (bytes[65], bytes[66], bytes[67]) {
            (0, 0, 0) => Tag::Record,
            (1, 0, 0) => Tag::Checkpoint,
            _ => return None,
        };
        let header = Self {
            seq: u64::from_le_bytes(array(bytes, 8)),
            at_micros: u64::from_le_bytes(array(bytes, 16)),
            meta: Meta(array(bytes, 24)),
            kind: bytes[64],
            tag,
        };
        (len <= MAX_BODY_BYTES).then_some((header, len))
    }
}

/// True if the checksum matches header and body.
pub(crate) fn checksum_holds(header: &[u8; RECORD_HEADER], body: &[u8]) -> bool {
    u32::from_le_bytes(array(header, 0)) == checksum(header, body)
}

fn checksum(header: &[u8; RECORD_HEADER], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[4..]), body)
}

/// The start of a segment.
pub(crate) fn encode_segment_header(first_seq: u64, has_checkpoint: bool) -> [u8; SEGMENT_HEADER] {
    let mut out = [0; SEGMENT_HEADER];
    out[..8].copy_from_slice(MAGIC);
    out[8..16].copy_from_slice(&first_seq.to_le_bytes());
    let flags = if has_checkpoint { HAS_CHECKPOINT } else { 0 };
    out[16..20].copy_from_slice(&flags.to_le_bytes());
    let crc = crc32c::crc32c(&out[..20]);
    out[20..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// The start of a segment, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentHeader {
    /// It is of this format.
    Ours { first_seq: u64, has_checkpoint: bool },
    /// It is sound, and of another version of the format.
    Other(OtherFormat),
    /// It is damaged, or no segment.
    Damaged,
}

/// Another version of the format of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherFormat {
    /// Format of a development build, from before version 0.1.0.
    Development,
    /// Format of another version: its two digits.
    Version([u8; 2]),
}

impl fmt::Display for OtherFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Development => f.write_str("a development build"),
            Self::Version(digits) => write!(f, "version {}", digits.escape_ascii()),
        }
    }
}

/// Reads the start of a segment.
pub(crate) fn decode_segment_header(bytes: &[u8; SEGMENT_HEADER]) -> SegmentHeader {
    if u32::from_le_bytes(array(bytes, 20)) != crc32c::crc32c(&bytes[..20]) {
        return SegmentHeader::Damaged;
    }
    let flags = u32::from_le_bytes(array(bytes, 16));
    match &array(bytes, 0) {
        MAGIC if flags <= HAS_CHECKPOINT => SegmentHeader::Ours {
            first_seq: u64::from_le_bytes(array(bytes, 8)),
            has_checkpoint: flags == HAS_CHECKPOINT,
        },
        MAGIC => SegmentHeader::Damaged,
        [b'H', b'I', b'M', b'L', b'O', b'G', version @ ..] => {
            SegmentHeader::Other(OtherFormat::Version(*version))
        }
        [b'H', b'I', b'M', b'J', b'R', b'N', ..] => SegmentHeader::Other(OtherFormat::Development),
        _ => SegmentHeader::Damaged,
    }
}

/// `N` bytes at a constant offset inside a fixed-size header.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_header_round_trips_and_every_bit_is_covered() {
        let header = RecordHeader {
            seq: 7,
            at_micros: 9,
            meta: Meta([3; 40]),
            kind: 200,
            tag: Tag::Record,
        };
        let bytes = header.encode(b"body");
        assert_eq!(RecordHeader::decode(&bytes), Some((header, 4)));
        assert!(checksum_holds(&bytes, b"body"));
        assert!(!checksum_holds(&bytes, b"bodY"));
        for bit in 0..RECORD_HEADER * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!checksum_holds(&bad, b"body"), "bit {bit}");
        }
    }

    #[test]
    fn a_segment_header_round_trips_and_damage_is_seen() {
        let bytes = encode_segment_header(42, true);
        let ours = SegmentHeader::Ours {
            first_seq: 42,
            has_checkpoint: true,
        };
        assert_eq!(decode_segment_header(&bytes), ours);
        for bit in 0..SEGMENT_HEADER * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_segment_header(&bad), SegmentHeader::Damaged, "bit {bit}");
        }
    }

    #[test]
    fn a_length_over_the_limit_is_no_header() {
        let header = RecordHeader {
            seq: 1,
            at_micros: 0,
            meta: Meta::default(),
            kind: 0,
            tag: Tag::Record,
        };
        let mut bytes = header.encode(b"");
        bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(RecordHeader::decode(&bytes), None);
    }
}
