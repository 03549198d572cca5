//! Kernels as commands show them.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::{KernelId, Secrets, from_micros};

/// A kernel, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelModel {
    /// Id of the kernel.
    pub id: KernelId,
    /// The kernelspec's name.
    pub name: String,
    /// UTC, with `jupyter_server`'s meaning (`start_watching_activity`).
    pub last_activity: OffsetDateTime,
    /// With `jupyter_server`'s meaning.
    pub execution_state: ExecutionState,
    /// Attached clients.
    pub connections: u32,
    /// Reason for the state, if there is one: the cause of death, or of an automatic restart.
    pub reason: Option<String>,
    /// It runs and does not answer; `None` for one that answers or is only busy.
    pub unresponsive: Option<Unresponsive>,
    /// Counts kernel processes, from 1.
    pub incarnation: u32,
}

/// Report of a kernel that does not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unresponsive {
    /// Since when, microseconds since 1970.
    pub since_micros: u64,
    /// Request or signal that the kernel does not answer.
    pub problem: Unanswered,
}

/// Request or signal that a kernel does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unanswered {
    /// Three heartbeats: its process is stopped, thrashes, or has lost the thread that answers them.
    Heartbeat,
    /// Twelve `kernel_info_request`s since its process was started.
    KernelInfo,
    /// A request of the gateway on the control channel.
    Control,
}

impl Unanswered {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Heartbeat => "heartbeat",
            Self::KernelInfo => "kernel_info",
            Self::Control => "control",
        }
    }

    /// The problem and a remedy, one sentence each.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Heartbeat => {
                "The kernel's process does not answer heartbeats: it is stopped, out of memory, or blocked as a whole. \
                 Interrupt it; if it stays silent, restart it, which loses its variables, or delete it."
            }
            Self::KernelInfo => {
                "The kernel's process runs and has never answered. Restart it, or delete it and look at its kernelspec."
            }
            Self::Control => {
                "The kernel's control channel is blocked, for example by a debugger that waits: variables cannot be read, and the \
                 kernel cannot be asked to end. Code may still run. Disconnect the debugger, or restart the kernel, which loses its \
                 variables."
            }
        }
    }
}

impl Unresponsive {
    /// Since when.
    pub fn since(&self) -> OffsetDateTime {
        from_micros(self.since_micros)
    }
}

/// The state of a kernel as Jupyter names it, and one more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionState {
    /// The process is up, the kernel has not answered yet.
    #[default]
    Starting,
    /// Waiting for requests.
    Idle,
    /// Working on a request.
    Busy,
    /// The process has ended, and a new one is being started.
    Restarting,
    /// The process has ended permanently.
    Dead,
    /// The sandbox is not connected (yet).
    Unknown,
    /// The session has ended and its log is kept. Of sessions of the native API only; Jupyter knows no such word.
    Ended,
}

impl ExecutionState {
    /// The word used by the Jupyter API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Restarting => "restarting",
            Self::Dead => "dead",
            Self::Unknown => "unknown",
            Self::Ended => "ended",
        }
    }
}

impl fmt::Display for ExecutionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Request for an additional kernel of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewKernel {
    /// A kernelspec, that of the session's first kernel if `None`.
    pub kernelspec: Option<String>,
    /// Work directory: absolute inside the sandbox, or relative to the session's work directory. `None`: the session's work directory.
    pub cwd: Option<String>,
    /// Variables for this kernel alone, over those of its kernelspec and of the session's template. Those that the session
    /// was started with are its first kernel's.
    pub env: BTreeMap<String, String>,
    /// More variables, which are stored and shown nowhere. A name in both is refused.
    pub secrets: Secrets,
}

/// Most names of each kind that are kept of what goes with a sandbox: of secrets, additional kernels, branches.
pub const MAX_LOST_NAMES: usize = 16;

/// The gateway, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayStatus {
    /// When this process opened the engine, UTC.
    pub started: OffsetDateTime,
    /// The latest activity of any kernel or command, UTC.
    pub last_activity: OffsetDateTime,
    /// Kernels that exist.
    pub kernels: u32,
    /// Attached clients over all kernels.
    pub connections: u32,
}
