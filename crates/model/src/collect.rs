//! Retention of ended sessions, and the result of a collection.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::KernelId;

/// Bounds of the data of ended sessions. If a bound is exceeded, the oldest sessions are removed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// From its end; zero = nothing of it is kept. A kernel whose sandbox is lost goes when it was not used for so long.
    pub time: Duration,
    /// Bytes of the logs and artifacts of all of them.
    pub bytes: u64,
}

impl Default for Retention {
    /// A day, 10 GiB.
    fn default() -> Self {
        Self {
            time: Duration::from_hours(24),
            bytes: 10 << 30,
        }
    }
}

/// Reason why a session is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overdue {
    /// The retention time has passed.
    Age,
    /// All of them together are too large, or too many.
    Space,
    /// The sandbox is lost, and the session was not used since.
    Lost,
}

/// A session that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CollectedSession {
    /// Id that the session had.
    pub id: KernelId,
    /// Name that the owner gave the session.
    pub name: Option<String>,
    /// Reason of the removal.
    pub reason: Overdue,
    /// Bytes of its log and artifacts. Kept files are not counted.
    pub bytes: u64,
}

/// Kind of an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrphanKind {
    /// A log with its artifacts that belongs to no session.
    Log,
    /// Kept files of no session.
    Files,
}

/// Data that belongs to no session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Orphan {
    /// Kind of the orphan.
    pub kind: OrphanKind,
    /// Name in the data directory or at the provisioner.
    pub name: String,
    /// Size in bytes; `None`: unknown.
    pub bytes: Option<u64>,
}

/// Sessions and orphans that a collection removed, or would remove in a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Collected {
    /// True if nothing was removed.
    pub dry_run: bool,
    /// Sessions.
    pub sessions: Vec<CollectedSession>,
    /// Data that belongs to no session.
    pub orphans: Vec<Orphan>,
    /// Bytes of both, as far as they are known.
    pub bytes: u64,
    /// Bytes of the database that hold nothing, before.
    pub database_free_bytes: u64,
    /// Bytes of the database, after.
    pub database_bytes: u64,
    /// There is more to remove than one call does.
    pub more: bool,
}
