//! Errors of the store.

use std::path::PathBuf;

/// An error of the store. The text is for an operator; it never holds row contents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A newer Himalia wrote this file; an older one must not touch it.
    #[error("{path}: schema version {found} is newer than {supported}, the newest that this himalia knows")]
    NewerSchema {
        /// The database file.
        path: PathBuf,
        /// The version in the file.
        found: i64,
        /// The newest version that this code knows.
        supported: i64,
    },
    /// A build before version 0.1.0 wrote this. No step leads from its schema to one of this numbering.
    #[error(
        "{path}: has schema {found} of a development build, and this himalia reads schema {supported} of version 0.1.0: {remedy}"
    )]
    DevelopmentSchema {
        /// The database file, or the database.
        path: PathBuf,
        /// The version in it, as the development build wrote it.
        found: String,
        /// The schema version that this code reads.
        supported: i64,
        /// The remedy, for the operator.
        remedy: &'static str,
    },
    /// A `SQLite` database, but not one of Himalia's.
    #[error("{path}: is a database of another program (application id {found:#x})")]
    Foreign {
        /// The database file.
        path: PathBuf,
        /// The application id in the file.
        found: i64,
    },
    /// Not a `SQLite` database, or a damaged one. Restore it from a backup, or move it away to start empty.
    #[error("{path}: the database is damaged ({detail}); restore it, or move it away to start empty")]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// The message of `SQLite`.
        detail: String,
    },
    /// Another gateway has this file open.
    #[error("{path}: another himalia uses this data directory")]
    Locked {
        /// The database file.
        path: PathBuf,
    },
    /// A file could not be read or made.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A row with this key exists already.
    #[error("{what} {id} exists already")]
    Conflict {
        /// The kind of row.
        what: &'static str,
        /// The key of the row.
        id: String,
    },
    /// A row does not hold what its column promises, so it was not written by this code.
    #[error("table {table}, column {column}: {reason}")]
    BadRow {
        table: &'static str,
        column: &'static str,
        /// The defect of the value.
        reason: String,
    },
    /// The store was closed, or its thread ended.
    #[error("the store is closed")]
    Closed,
    /// Another replica has taken the kernel since, or had it all the time.
    #[error("kernel {id}: another gateway has taken it (epoch {current}, ours is {held:?})")]
    Fenced {
        id: uuid::Uuid,
        /// The fencing epoch under which this replica took it, if it did.
        held: Option<u64>,
        /// The fencing epoch of the row.
        current: u64,
    },
    /// This process may not act as its replica any more.
    #[error("this gateway may not write any more: its lease has ended")]
    LeaseLost,
    /// The replica has a living process already.
    #[error("replica {name}: another gateway of this name is running; give each its own --replica")]
    ReplicaInUse { name: String },
    /// The data directory and the shared store do not belong together.
    #[error("{path}: {reason}")]
    Mismatch {
        /// The data directory, or a file in it.
        path: PathBuf,
        /// The reason, and the remedy.
        reason: String,
    },
    /// The database failed: disk full, read-only file system, busy for longer than the timeout.
    #[error("database: {reason}")]
    Database {
        /// The message of the database.
        reason: String,
    },
}
