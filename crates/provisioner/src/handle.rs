//! A running sandbox, as its owner sees it: handle, end, resource use.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use himalia_link::Endpoint;
use tokio::sync::watch;

use crate::{Isolation, LimitReport, SandboxId};

/// Bytes of a shim's log that an end report carries.
pub const LOG_TAIL_BYTES: usize = 16 << 10;

/// A sandbox that was started or adopted. Dropping it ends nothing.
#[derive(Clone, Debug)]
pub struct SandboxHandle {
    pub id: SandboxId,
    /// Endpoint where the gateway meets the shim. The provisioner removes its files on this host when the sandbox has ended.
    pub endpoint: Endpoint,
    /// The shim's private directory as the sandbox sees it: ZMQ sockets and connection files.
    pub runtime_dir: PathBuf,
    /// Directory that its kernels start in, as the sandbox sees it; `None`: it shares the host's files, and the caller
    /// chooses.
    pub work_dir: Option<PathBuf>,
    /// True if the shim has a sleeping zygote from which it starts kernels.
    pub zygote: bool,
    /// Isolation level.
    pub isolation: Isolation,
    /// Mechanisms that enforce the limits.
    pub limits: LimitReport,
    /// Variables that its kernels have unless their start says otherwise: those of its image, `HOME`. Empty where
    /// it shares the host's files.
    pub base_env: BTreeMap<String, String>,
    /// Variables that every kernel in it must have, over all others: they mark its processes.
    pub kernel_env: BTreeMap<String, String>,
    /// True if the shim adds the image's environment variables to those of kernels, with lower precedence.
    pub has_image_env: bool,
    /// The digest of the image that it was started from; `None` where there is none.
    pub image_digest: Option<String>,
    /// `None` while it lives; set once, after its processes are gone and its files removed.
    pub exit: watch::Receiver<Option<SandboxExit>>,
}

impl SandboxHandle {
    /// Waits until it has ended. `None` when the runtime that watches it has gone.
    pub async fn ended(&self) -> Option<SandboxExit> {
        let mut exit = self.exit.clone();
        exit.wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|exit| exit.clone())
    }
}

/// End of a sandbox.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SandboxExit {
    /// End of the first process.
    pub cause: ExitCause,
    /// True if [`crate::Provisioner::stop`] was called before.
    pub requested: bool,
    /// Processes that were still there after the shim, and were killed.
    pub leftovers: usize,
    /// The last [`LOG_TAIL_BYTES`] bytes of the shim's log.
    pub log_tail: String,
}

/// End of a sandbox's first process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ExitCause {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
    /// The limit on memory ended it.
    OutOfMemory,
    /// It is gone for an unknown reason: it was not a child of this gateway process.
    Lost,
    /// The platform (container engine or cluster) ended the sandbox for its own reason.
    Platform {
        /// Kind of the reason, for example `evicted` or `node_lost`.
        code: &'static str,
        /// Text of the platform.
        message: String,
    },
}

impl fmt::Display for ExitCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit({code})"),
            Self::Signaled(signal) => write!(f, "signal({signal})"),
            Self::OutOfMemory => f.write_str("oom"),
            Self::Lost => f.write_str("lost"),
            Self::Platform { code, message } if message.is_empty() => f.write_str(code),
            Self::Platform { code, message } => write!(f, "{code}: {message}"),
        }
    }
}

/// A sandbox in a list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SandboxInfo {
    pub id: SandboxId,
    /// True if the shim lives. A dead sandbox in the list was left by an earlier gateway; [`crate::Provisioner::sweep`] removes it.
    pub alive: bool,
    /// The shim's process id on this host, where that makes sense.
    pub pid: Option<u32>,
    /// When it was started.
    pub created: SystemTime,
    pub labels: BTreeMap<String, String>,
    /// Isolation level.
    pub isolation: Isolation,
    /// Current usage with the shim; only from [`crate::Provisioner::inspect`], and only while alive.
    pub usage: Option<Usage>,
}

/// Resource use of a sandbox.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Usage {
    pub processes: u32,
    /// Resident memory, summed over the processes; shared pages count more than once.
    pub rss_bytes: u64,
    /// Processor time used by the processes that live now, in milliseconds.
    pub cpu_millis: u64,
}

/// The space that the kept files of a sandbox take, as it was measured, and how much they may.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DiskUse {
    /// Space that is allocated for them, bytes.
    pub used_bytes: u64,
    /// Upper bound in bytes.
    pub limit_bytes: u64,
    /// There are more of them, or deeper directories, than are counted: `used_bytes` is too small.
    pub uncounted: bool,
}

impl DiskUse {
    /// Returns true if the usage exceeds the bound. A directory that is too large to be measured completely exceeds it.
    pub fn is_over(&self) -> bool {
        self.uncounted || self.used_bytes > self.limit_bytes
    }
}
