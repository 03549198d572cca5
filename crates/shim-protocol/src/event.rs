use serde::{Deserialize, Serialize};

use crate::{Bound, ForkFailed, KernelForked, Kind, Lane, RequestId};

/// Most bytes of standard error that are kept of a kernel and sent with its death.
pub const STDERR_TAIL_BYTES: usize = 16 * 1024;

/// Event of a kernel. Numbered by `link` on the now lane, kept until acknowledged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// The process runs; it is not ready yet.
    Started(KernelStarted),
    /// It could not be started.
    StartFailed(StartFailed),
    /// The process has ended, for any reason.
    Exited(KernelExited),
    /// A `stop` is complete: no process of the kernel is left (or as said).
    Stopped(KernelStopped),
    /// An accepted request cannot be carried out.
    Refused(RequestRefused),
    /// A `bind` is done, or cannot be.
    Bound(Bound),
    /// A branch runs and dials its own link.
    Forked(KernelForked),
    /// There is no branch.
    ForkFailed(ForkFailed),
    /// An additional link dials.
    LinkAdded(LinkAdded),
}

impl Event {
    /// The kind of its frame.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Started(_) => Kind::Started,
            Self::StartFailed(_) => Kind::StartFailed,
            Self::Exited(_) => Kind::Exited,
            Self::Stopped(_) => Kind::Stopped,
            Self::Refused(_) => Kind::Refused,
            Self::Bound(_) => Kind::Bound,
            Self::Forked(_) => Kind::Forked,
            Self::ForkFailed(_) => Kind::ForkFailed,
            Self::LinkAdded(_) => Kind::LinkAdded,
        }
    }
}

/// Body of `started`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct KernelStarted {
    /// Process id as the shim sees it.
    pub pid: i32,
    /// Counts processes of this kernel, from 1.
    pub incarnation: u32,
    /// Unix time in milliseconds.
    pub start_ms: u64,
    /// The `start` or `restart` that this answers.
    pub request: RequestId,
    /// Origin of the process.
    pub path: StartPath,
}

/// Origin of a kernel's process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StartPath {
    /// As a child of the sandbox's zygote, with modules that were loaded before.
    Zygote,
    /// As a branch of a running kernel. No `started` says so: it says where a kernel is from.
    Fork,
    /// By executing its program. Also for a path of a later version.
    #[default]
    #[serde(other)]
    Cold,
}

/// Body of `start_failed`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct StartFailed {
    /// One line.
    pub reason: String,
    /// Last 16 KiB that the program wrote to standard error.
    #[serde(default)]
    pub stderr: String,
    /// The `start` or `restart` that this answers.
    pub request: RequestId,
}

/// Cause of a kernel process's end.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// It returned this status.
    Exit {
        /// 0..=255.
        code: i32,
    },
    /// A signal ended it.
    Signal {
        /// The number.
        signal: i32,
    },
    /// The sockets failed or never appeared, and the shim killed the process. The gateway also records this cause when messages of the
    /// kernel aborted the shim itself.
    ProtocolAbort,
    /// Not known (also: a cause of a later version).
    #[serde(other)]
    Unknown,
}

/// Body of `exited`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct KernelExited {
    /// Incarnation that ended.
    pub incarnation: u32,
    /// Id of the process.
    pub pid: i32,
    /// Cause of the end.
    pub cause: Cause,
    /// A `stop`, `restart` or `shutdown` was under way.
    pub asked: bool,
    /// More about the cause, one line; empty if there is none.
    #[serde(default)]
    pub detail: String,
    /// Last 16 KiB of its standard output and error.
    pub stderr_tail: String,
    /// The last data link of this incarnation: its output is complete when the data lane is there.
    pub last_data: u64,
    /// Resource usage, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The sandbox's own count of processes that were killed out of memory has grown; only from shims in pods, where the
    /// gateway has no count. It changes no more than how the cause reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_memory: bool,
}

/// Resource usage of an ended kernel process.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time, user and system, milliseconds.
    pub cpu_ms: u64,
    /// Highest resident memory that was sampled (every 10 s), bytes; 0 when it never was.
    pub max_rss: u64,
}

/// Body of `stopped`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct KernelStopped {
    /// The last incarnation (0: it never ran).
    pub incarnation: u32,
    /// Descendants that were killed after the kernel itself had ended.
    pub killed: u32,
    /// Descendants that could not be killed in time.
    pub left: u32,
    /// The `stop` that this answers; absent when the shim stops for reasons of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestId>,
}

/// Body of `refused`: the request was accepted (its number is used up) but has not been and will not be done.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct RequestRefused {
    /// Number of the refused request.
    pub request: RequestId,
    /// The lane that it came on.
    pub lane: Lane,
    /// Kind of the refusal.
    pub kind: RefusalKind,
    /// One line.
    pub reason: String,
}

/// Kind of a refusal, which decides whether the same request may be sent again under a new number.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// There was no process that could take it; the next one can.
    NotRunning,
    /// Too much waited for the kernel; there can be room later.
    Full,
    /// It can never be done. Also for kinds of a later version.
    #[default]
    #[serde(other)]
    Never,
}

/// Body of `link_added`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct LinkAdded {
    /// The `add_link` that this answers.
    pub request: RequestId,
}

/// Reason for missing messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// The spill file reached its quota.
    Quota,
    /// The spill file could not be written or read back.
    Spill,
    /// The message was larger than a message of a kernel may be.
    TooLarge,
    /// A reason of a later version.
    #[serde(other)]
    Unknown,
}

/// Body of `gap`: stands in its lane in the place of the links `from..=to`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// The incarnation that was running.
    pub incarnation: u32,
    /// First missing link.
    pub from: u64,
    /// Last missing link.
    pub to: u64,
    /// Number of missing messages: `to - from + 1`.
    pub messages: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Reason for the gap.
    pub reason: GapReason,
}

/// Body of `stats`: the kernel and all its descendants.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Resident memory, bytes (shared pages count in each process).
    pub rss: u64,
    /// CPU time, user and system, milliseconds.
    pub cpu_ms: u64,
    /// Processes.
    pub pids: u32,
}

/// Body of `heartbeat`, sent when it changes; the current value is in each hello.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Does it answer?
    pub alive: bool,
}
