//! The append log of one session.
//!
//! A journal is a directory of *segments* (append-only files) plus a bounded copy of the newest records in memory (the
//! *tail*). One writer appends; any number of [`Cursor`]s read, each at its own pace. Fan-out, slow readers, reconnect
//! and replay are this one mechanism. The crate knows bytes and sequence numbers, not what they mean.
//!
//! # Invariants
//!
//! - `seq` starts at 1 and is dense: a record gets the number after its predecessor's.
//! - A record is handed to the kernel by `write(2)` before any cursor can see it, so what was seen survives `kill -9`.
//!   There is no fsync on this path; [`Journal::sync`] flushes what is dirty, and the interval at which it is called is
//!   the window that a power loss can take.
//! - A batch is one `writev(2)` (for up to 512 records). A failed or partial write is cut off again and reported, and
//!   later appends work once there is space.
//! - A segment begins with the checkpoint that the caller gave to [`Journal::roll`]: its own state as of the record
//!   before the segment's first. Recovery therefore reads one segment.
//! - Each record carries a CRC32C. A torn end of the newest segment is cut off when the journal is opened; damage
//!   anywhere else becomes a gap for its readers.
//! - Above the quota whole segments are deleted, oldest first. A cursor behind them gets [`Read::Gap`], never silence.
//! - Readers hold a lock only to copy pointers out of memory; a read from disk holds none, so no reader delays the
//!   writer.
//!
//! # Bounds
//!
//! | what | bound |
//! |---|---|
//! | body of one record, checkpoint | [`MAX_BODY_BYTES`] |
//! | tail | [`Options::tail_bytes`], or one larger record |
//! | segment | [`Options::segment_bytes`] when the caller rolls as [`Journal::roll_due`] says; appends are refused when a segment alone reaches the quota |
//! | disk | [`Options::quota_bytes`] plus one segment |
//! | positions | [`MAX_POSITIONS`] owners, the least recently set one is evicted |
//! | one read | `max_records`, and `max_bytes` plus one record |
//!
//! # Layout on disk
//!
//! `<first seq, 20 digits>.seg`, `positions`, and at most one `torn.seg` (a segment whose start could not be read, set
//! aside). The bytes are described in the `format` module. One process at a time may open a directory; the caller sees to
//! that.

mod blocking;
mod cursor;
mod error;
mod format;
mod index;
mod journal;
mod positions;
mod reader;
mod record;
mod recovery;
mod segment;
mod shared;
mod store;
mod tail;

pub use blocking::may_block;
pub use cursor::{Cursor, Read};
pub use error::JournalError;
pub use format::{MAX_BODY_BYTES, OtherFormat};
pub use journal::{Append, Journal, Options, StagedBatch};
pub use positions::{MAX_POSITIONS, Positions};
pub use record::{Meta, NewRecord, Record};
pub use recovery::Recovery;
pub use shared::{Part, RestoredLog, SealedSegment, SharedLog, SharedLogs};
pub use store::LogStore;
