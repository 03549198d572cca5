//! Ended sessions: where their logs are as long as they are kept, and for longer that there was one.

use uuid::Uuid;

/// One row of `ended_sessions`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EndedRecord {
    /// The kernel id that it had. An id may be chosen again, so several rows may have it.
    pub id: Uuid,
    /// The principal that owned it.
    pub owner: String,
    /// The owner's name for the session.
    pub name: Option<String>,
    /// Directory of its journal, relative to the data directory. No two rows have the same.
    pub session_dir: String,
    /// When it was asked for, in microseconds since the Unix epoch.
    pub created_micros: i64,
    /// When it ended.
    pub ended_micros: i64,
    /// The reason why it ended.
    pub cause: String,
    /// When its journal was removed; `None` while it is kept.
    pub removed_micros: Option<i64>,
    /// The description of the session in the engine's own terms, while its journal is kept; an empty object afterwards.
    pub facts: serde_json::Value,
}

/// Pages of the file, of [`crate::Store::space`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Space {
    /// Bytes of the file.
    pub total_bytes: u64,
    /// Bytes of it that hold nothing.
    pub free_bytes: u64,
}
