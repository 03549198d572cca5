//! Sessions as `/v1` shows them: a kernel with the sandbox that it runs in.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use himalia_sandbox::{Isolation, LimitReport, Network};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::{FilesMode, KernelId, KernelModel, SessionLimits};

/// Through which interface a kernel was made. It decides what follows a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// `/api`: a crashed process is replaced at once, as `jupyter_server` does.
    #[default]
    Jupyter,
    /// `/v1`: a crashed process is replaced by the next execution or restart only.
    V1,
}

impl Origin {
    /// The spelling in the store and in replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jupyter => "jupyter",
            Self::V1 => "v1",
        }
    }
}

/// How a session's first process came to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StartPath {
    /// It was waiting in the pool.
    Pool,
    /// Forked from a zygote for this session.
    Zygote,
    /// A new process.
    #[default]
    Cold,
    /// Forked from a living session.
    Fork,
}

impl StartPath {
    /// The spelling in the store and in replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Zygote => "zygote",
            Self::Cold => "cold",
            Self::Fork => "fork",
        }
    }
}

impl fmt::Display for StartPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A session: a kernel, and what is around it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    /// Its kernel; the session's id is the kernel's.
    pub kernel: KernelModel,
    /// The tenant that it belongs to, or `operator`.
    pub owner: String,
    /// Who made it, through what.
    pub origin: Origin,
    /// When, UTC.
    pub created: OffsetDateTime,
    /// The template, or the kernelspec where it was an implicit one.
    pub template: String,
    /// `local`, `docker`.
    pub provisioner: String,
    /// The level of its sandbox.
    pub isolation: Isolation,
    /// Its limits.
    pub limits: SessionLimits,
    /// Who enforces them.
    pub enforcement: LimitReport,
    /// What of the network it sees.
    pub network: Network,
    /// Its image, where one was named.
    pub image: Option<String>,
    /// What becomes of its files.
    pub files: FilesMode,
    /// Its work directory, as its kernel sees it.
    pub cwd: String,
    /// How it was started.
    pub start_path: StartPath,
    /// Why it did not come from the pool of its template, one line; `None` where there is none or where it did.
    pub start_reason: Option<String>,
    /// From the request to the running process, milliseconds; 0 for one that an earlier gateway had started.
    pub start_ms: u64,
    /// The session that it is a branch of. Branches share the sandbox: limits, network and end.
    pub parent: Option<KernelId>,
    /// Idle for so long, it is ended.
    pub idle_timeout: Option<Duration>,
    /// When it is ended whatever it does, UTC.
    pub expires: Option<OffsetDateTime>,
    /// The caller's marks.
    pub labels: BTreeMap<String, String>,
    /// The caller's name for it; no other session that lives has it.
    pub name: Option<String>,
    /// Its end; `None` while it lives. The cause is the kernel's `reason`.
    pub end: Option<SessionEnd>,
}

impl SessionInfo {
    /// What its sandbox may use of the host's memory in all, in bytes ([`SessionLimits::memory_total`]).
    pub fn memory_total(&self) -> Option<u64> {
        self.limits
            .memory_total(self.files, self.isolation != Isolation::None)
    }
}

/// Which replica of the gateway has a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOwner {
    /// This one.
    Here,
    /// The one of this name.
    Replica(String),
}

/// The end of a session whose log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionEnd {
    /// When, UTC.
    pub at: OffsetDateTime,
    /// When its log is removed at the latest, UTC.
    pub kept_until: OffsetDateTime,
}

/// What is changed of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionChange {
    /// Marks that are set, and (`None`) those that are taken away.
    pub labels: BTreeMap<String, Option<String>>,
    /// Idle for so long, it is ended.
    pub idle_timeout: TimeChange,
    /// So long from now, it is ended.
    pub lifetime: TimeChange,
}

/// What is done to a time of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeChange {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is that of the template, which may be none.
    Reset,
    /// It is this one.
    Set(Duration),
}

/// A pool, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    /// The template.
    pub template: String,
    /// Kernels that can be claimed.
    pub ready: u32,
    /// Kernels that are being started.
    pub starting: u32,
    /// How many are wanted now: between `size` and `max`, as claims come.
    pub target: u32,
    /// `pool.size` of the template.
    pub size: u32,
    /// `pool.max` of the template.
    pub max: u32,
    /// Claims that were served.
    pub hits: u64,
    /// Claims that found none ready.
    pub misses: u64,
    /// Starts that failed.
    pub failures: u64,
    /// Why the latest start failed; `None` once one has succeeded again.
    pub problem: Option<String>,
}

/// A provisioner, for `doctor` and status pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvisionerInfo {
    /// `local`, `docker`.
    pub kind: String,
    /// The level of its sandboxes, of those with the default runtime.
    pub isolation: Isolation,
    /// Who enforces limits.
    pub enforcement: LimitReport,
}
