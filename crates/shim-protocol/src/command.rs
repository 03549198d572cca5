use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Bind, Fork, InterruptMode, Kind, Open};

/// Order of the gateway. Each has a request number and is executed at most once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// Start the kernel; answered by `started` or `start_failed`. A kernel that has exited is started as the next
    /// incarnation; one that runs answers `start_failed`.
    Start(Box<Start>),
    /// Stop the kernel and all its descendants: interrupt, `shutdown_request`, half of the grace, SIGTERM, the other
    /// half, SIGKILL. Answered by `exited` (if it ran) and `stopped`.
    Stop(Stop),
    /// Stop, then start again from the same specification with the same key and socket paths. Answered by `exited`
    /// and `started` or `start_failed`.
    Restart(Stop),
    /// SIGINT to the kernel's process group, or `interrupt_request` on control where its specification says so.
    /// The next rungs (again, then restart) are the gateway's.
    Interrupt,
    /// Stop all kernels and end the shim. Addressed to kernel 0.
    Shutdown(Stop),
    /// Give a running kernel its environment late: the shim changes the specification that it keeps for
    /// restarts and sends the kernel a `himalia_bind_request`. Answered by `bound`. Neither the request nor what the
    /// kernel says about it is seen by the gateway.
    Bind(Box<Bind>),
    /// Make a branch of a running kernel, with a link of its own. Answered by `forked` or `fork_failed`.
    Fork(Box<Fork>),
    /// Stop the kernels of this link and give the link up: what it holds is flushed and acknowledged, then
    /// both lanes are closed and not dialled again. The shim ends with its last link. Addressed to kernel 0.
    Close(Stop),
    /// Dial a stream and do with the files of the kernel's session what it says. Answered on the stream alone.
    Open(Box<Open>),
    /// Give an additional kernel of the sandbox a link of its own, which is dialled at once and has no kernel yet:
    /// the `start` comes on it, and everything after that. Answered by `link_added` or `refused`.
    AddLink(AddLink),
}

impl Command {
    /// The kind of its frame.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Start(_) => Kind::Start,
            Self::Stop(_) => Kind::Stop,
            Self::Restart(_) => Kind::Restart,
            Self::Interrupt => Kind::Interrupt,
            Self::Shutdown(_) => Kind::Shutdown,
            Self::Bind(_) => Kind::Bind,
            Self::Fork(_) => Kind::Fork,
            Self::Close(_) => Kind::Close,
            Self::Open(_) => Kind::Open,
            Self::AddLink(_) => Kind::AddLink,
        }
    }
}

/// Body of `start`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Specification of the kernel.
    pub spec: KernelSpec,
}

/// Body of `add_link`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct AddLink {
    /// File name of the gateway's socket for it, beside `gw.sock`; see [`Fork::check_socket`].
    pub socket: String,
}

/// Body of `stop`, `restart`, `shutdown` and `close`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// Milliseconds for an orderly end; half before SIGTERM, half before SIGKILL. At most an hour counts.
    pub grace_ms: u64,
}

/// Specification of a kernel's process. The shim keeps it for restarts.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct KernelSpec {
    /// Program and arguments; every `{connection_file}` is replaced by the path of the connection file.
    pub argv: Vec<String>,
    /// The complete environment; nothing is inherited from the shim.
    pub env: BTreeMap<String, String>,
    /// Working directory, absolute; must exist.
    pub cwd: String,
    /// Method to interrupt the kernel.
    #[serde(default)]
    pub interrupt_mode: InterruptMode,
    /// Kernelspec name, written to the connection file as `kernel_name`.
    #[serde(default)]
    pub kernel_name: String,
    /// Limits set before the program starts.
    #[serde(default)]
    pub limits: ResourceLimits,
    /// Milliseconds from the start of the process until its sockets must exist; 60,000 when absent.
    #[serde(default = "default_connect_ms")]
    pub connect_ms: u64,
    /// Start it as a child of the sandbox's zygote, where there is one; `argv` is what is run when there is none or it
    /// fails ([`crate::KernelStarted::path`] tells).
    #[serde(default)]
    pub via_zygote: bool,
}

fn default_connect_ms() -> u64 {
    60_000
}

/// `setrlimit` values (soft and hard alike); absent means untouched.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// `RLIMIT_NOFILE`, open files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// `RLIMIT_NPROC`, processes of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// `RLIMIT_CORE`, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_bytes: Option<u64>,
    /// `RLIMIT_FSIZE`, bytes of one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// `RLIMIT_DATA`, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_bytes: Option<u64>,
    /// `RLIMIT_CPU`, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    /// `oom_score_adj` of the kernel, never below the shim's own; 500 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_score_adj: Option<i16>,
}
