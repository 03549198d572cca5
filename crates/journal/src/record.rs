//! Records, as they are appended and read.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::format::RECORD_HEADER;

/// Bodies below this length are copied into an allocation of their own size when they are appended: a slice would keep
/// the whole read buffer that it came in (64 KiB, usually) alive for as long as the record is in the tail.
pub(crate) const COPY_BELOW: usize = 32 * 1024;

/// Forty bytes beside the body that the journal stores and returns unread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Meta(pub [u8; 40]);

impl Default for Meta {
    fn default() -> Self {
        Self([0; 40])
    }
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meta(")?;
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

/// A record to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// Kind of the record, in the caller's own numbering.
    pub kind: u8,
    /// The caller's fixed-size fields.
    pub meta: Meta,
    /// The caller's bytes, at most [`MAX_BODY_BYTES`](crate::MAX_BODY_BYTES).
    pub body: Bytes,
}

/// A record that is in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number in the journal: the first record is 1.
    pub seq: u64,
    /// When it was appended: wall clock, microseconds since 1970-01-01 UTC. May run backwards when the clock does.
    pub at_micros: u64,
    pub kind: u8,
    pub meta: Meta,
    pub body: Bytes,
}

impl Record {
    /// The stored form of `new`, with a body that pins no foreign buffer.
    pub(crate) fn from_new(new: &NewRecord, seq: u64, at_micros: u64) -> Self {
        let body = if new.body.len() < COPY_BELOW {
            Bytes::copy_from_slice(&new.body)
        } else {
            new.body.clone()
        };
        Self {
            seq,
            at_micros,
            kind: new.kind,
            meta: new.meta,
            body,
        }
    }

    /// Bytes of the record in a segment, in the tail, and against `max_bytes` of a read.
    pub(crate) fn size(&self) -> usize {
        RECORD_HEADER + self.body.len()
    }
}

/// Wall clock in microseconds; 0 before 1970.
pub(crate) fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
