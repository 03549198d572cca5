//! One row per kernel: what a new gateway process needs to take it over.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::StoreError;

/// A kernel as the gateway knew it last.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KernelRecord {
    /// The kernel id of the Jupyter API.
    pub id: Uuid,
    /// The principal that owns it.
    pub owner: String,
    /// The kernelspec it was started from.
    pub kernelspec: String,
    /// Directory of its journal, relative to the data directory.
    pub session_dir: String,
    /// The run directory (absolute) that its sandbox was started in, which the configuration may have left
    /// behind since.
    pub run_dir: String,
    /// Id of its sandbox, as the provisioner gave it.
    pub sandbox_id: String,
    /// SHA-256 of the sandbox key. The key itself is never stored.
    pub sandbox_key_hash: [u8; 32],
    /// Isolation level of the sandbox, as `himalia_sandbox::Isolation` spells it.
    pub isolation: String,
    /// Kernel processes so far under this id; 0 before the first is up.
    pub incarnation: u32,
    /// When it was asked for, in microseconds since the Unix epoch.
    pub created_micros: i64,
    /// How it was launched.
    pub launch: LaunchRecord,
    /// Whether it lives.
    pub life: KernelLife,
    /// Why it died, if it did.
    pub dead_cause: Option<String>,
    /// Kind of the provisioner that made its sandbox.
    pub provisioner: String,
    /// Name of the socket, in the sandbox's gateway directory, that its link calls. Branches have their own.
    pub socket: String,
    /// `session`, `branch` or `kernel`: an additional one of its session.
    pub role: String,
    /// The kernel that it was forked from, which may be gone; of an additional kernel, that of its session.
    pub parent: Option<Uuid>,
    /// The template that it was started from; the kernelspec's name for an implicit one.
    pub template: String,
    /// `pool`, `zygote`, `cold` or `fork`.
    pub start_path: String,
    /// Why it did not come from a pool, one line.
    pub start_reason: Option<String>,
    /// Limits, level and the like of its sandbox, in the engine's own terms.
    pub sandbox: serde_json::Value,
    /// Its owner's marks.
    pub labels: BTreeMap<String, String>,
    /// Idle for so many milliseconds, it is ended.
    pub idle_timeout_ms: Option<u64>,
    /// When it is ended whatever it does, in microseconds since the Unix epoch.
    pub expires_micros: Option<i64>,
    /// `jupyter` or `v1`.
    pub origin: String,
    /// Its owner's name for it; nothing else of that owner has it.
    pub name: Option<String>,
}

/// How a kernel was launched, without its environment: that is secret, and a restart does not need it since
/// the shim keeps it.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// The resolved command line.
    pub argv: Vec<String>,
    /// The working directory, as the sandbox sees it.
    pub cwd: String,
    /// `signal` or `message`, as in the kernelspec.
    pub interrupt_mode: String,
}

/// Life of a kernel, as far as it must be durable. Busy and idle are not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KernelLife {
    /// Its sandbox was asked for. After a crash of the gateway it may or may not exist.
    Starting,
    /// Its process was up.
    Live,
    /// Its process ended and was not restarted.
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

/// Who has a kernel: the replica that took it last, and under which epoch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Owner {
    /// The name of the replica; empty for a row of an earlier version that was not taken since.
    pub replica: String,
    /// The fencing epoch: how often the kernel was taken. Writes under an older one are refused.
    pub epoch: u64,
}
