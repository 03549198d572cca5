//! One row per kernel: what a new gateway process needs to take it over.

use serde_json::Value;
use uuid::Uuid;

use crate::StoreError;

/// A kernel as the gateway knew it last. What is looked for or changes often has a column; the rest is in `session`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KernelRecord {
    /// The kernel id of the Jupyter API.
    pub id: Uuid,
    /// The principal that owns it.
    pub owner: String,
    /// The owner's name for the session; no other kernel of that owner has it.
    pub name: Option<String>,
    /// When it was asked for, in microseconds since the Unix epoch.
    pub created_micros: i64,
    /// The session, in the engine's own terms: a JSON object.
    pub session: Value,
    /// The places of its log, its sandbox and its link.
    pub paths: RuntimePaths,
    /// Kernel processes so far under this id; 0 before the first is up.
    pub incarnation: u32,
    pub life: KernelLife,
    /// The reason why it died, if it did.
    pub dead_cause: Option<String>,
}

/// The places of the log, the sandbox and the link of a kernel.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuntimePaths {
    /// Directory of its journal, relative to the data directory.
    pub session_dir: String,
    /// Id of its sandbox, as the provisioner gave it.
    pub sandbox_id: String,
    /// SHA-256 of the sandbox key. The key itself is never stored.
    pub sandbox_key_hash: [u8; 32],
    /// Name of the socket, in the sandbox's gateway directory, that its link calls. Branches have their own.
    pub socket: String,
}

/// Life of a kernel, as far as it must be durable. Busy and idle are not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KernelLife {
    /// The sandbox was asked for. After a crash of the gateway it may or may not exist.
    Starting,
    /// The process has started.
    Live,
    /// The process ended and was not restarted.
    Dead,
}

impl KernelLife {
    /// The spelling in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Live => "live",
            Self::Dead => "dead",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, StoreError> {
        match text {
            "starting" => Ok(Self::Starting),
            "live" => Ok(Self::Live),
            "dead" => Ok(Self::Dead),
            other => Err(StoreError::BadRow {
                table: "kernels",
                column: "life",
                reason: format!("unknown value {other:?}"),
            }),
        }
    }
}

/// The owner of a kernel: the replica that took it last, and the epoch under which it did.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Owner {
    pub replica: String,
    /// The fencing epoch: how often the kernel was taken. Writes under an older one are refused.
    pub epoch: u64,
}
