//! What is removed because its time has passed, or because it belongs to no session.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::KernelId;

/// How long what is left of a session that is over is kept. What is over any of the bounds goes, the oldest first.
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

/// Why a session goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overdue {
    /// Its time has passed.
    Age,
    /// All of them together are too large, or too many.
    Space,
    /// Its sandbox is lost, and it was not used since.
    Lost,
}

/// A session that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CollectedSession {
    /// Its id.
    pub id: KernelId,
    /// Its owner's name for it.
    pub name: Option<String>,
    /// Why it goes.
    pub reason: Overdue,
    /// Bytes of its log and artifacts. Kept files are not counted.
    pub bytes: u64,
}

/// What an orphan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrphanKind {
    /// A log with its artifacts that belongs to no session.
    Log,
    /// Kept files of no session.
    Files,
}

/// Something that belongs to no session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Orphan {
    /// What it is.
    pub kind: OrphanKind,
    /// Its name in the data directory, or at the provisioner.
    pub name: String,
    /// Its size, where that is known.
    pub bytes: Option<u64>,
}

/// Sessions and orphans that a collection removed, or would remove in a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Collected {
    /// Nothing was removed.
    pub dry_run: bool,
    /// Sessions.
    pub sessions: Vec<CollectedSession>,
    /// What belonged to none.
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
