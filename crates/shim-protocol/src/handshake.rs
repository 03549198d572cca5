use serde::{Deserialize, Serialize};

use crate::{Lane, PerLane, RequestId, VersionRange};

/// Name of the streams of the network: each carries one connection of a client in the sandbox, as plain bytes behind the hello, in both
/// directions. The shim opens them itself, before a client needs one.
pub const NETWORK_STREAM: &str = "network";

/// First frame of each connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Connection of the pair.
    pub lane: Lane,
    /// Proof that this is the shim that the gateway made: the content of the key file, without white space around it.
    pub key: String,
    /// Versions that the shim speaks.
    pub versions: VersionRange,
    /// Version of the shim's build.
    pub build: String,
    /// Highest epoch that it has seen; 0 at first. A gateway below it must give up.
    pub epoch_seen: u64,
    /// Process id of the shim, as it sees itself.
    pub pid: i32,
    /// Kernels of the shim.
    pub kernels: Vec<KernelEntry>,
    /// For the connection of a stream: the name from its `open`, or [`NETWORK_STREAM`]. Such a connection is not a lane and gets no
    /// welcome, and its hello does not list the shim's messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
}

impl Hello {
    /// The entry of a kernel.
    pub fn kernel(&self, kernel: u16) -> Option<&KernelEntry> {
        self.kernels.iter().find(|entry| entry.kernel == kernel)
    }
}

/// State of one kernel in a hello. Kernel 0 (the shim) is listed for its request marks, without a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelEntry {
    /// Number of the kernel on this link.
    pub kernel: u16,
    /// Incarnation of the present or last process; 0 before the first.
    pub incarnation: u32,
    /// Process id while it runs.
    pub pid: Option<i32>,
    /// State of the kernel.
    pub state: KernelState,
    /// Unix time in milliseconds of the present incarnation's start; 0 before the first.
    pub start_ms: u64,
    /// Does it answer heartbeats?
    pub alive: bool,
    /// Range of messages that the shim holds for the gateway, per lane.
    pub links: PerLane<LinkRange>,
    /// Requests that the shim has accepted.
    pub requests: RequestMarks,
}

/// State of a kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelState {
    /// No process yet.
    New,
    /// The process runs, its sockets are not connected yet.
    Connecting,
    /// The process runs and its sockets are connected.
    Running,
    /// A stop or restart is under way.
    Stopping,
    /// The process has ended.
    Exited,
    /// A state of a later version.
    #[serde(other)]
    Unknown,
}

/// Links that are held: `first..=last`, none when `last < first`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct LinkRange {
    /// First that is not acknowledged.
    pub first: u64,
    /// Last that was given.
    pub last: u64,
}

impl Default for LinkRange {
    fn default() -> Self {
        Self { first: 1, last: 0 }
    }
}

/// Accepted requests: those of `epoch` up to `high` in each lane. The marks move to a later epoch only with its first accepted request, so
/// that a gateway which follows one without requests still sees what to reconcile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestMarks {
    /// Epoch of the latest accepted request; 0 before the first.
    pub epoch: u64,
    /// Highest accepted number per lane in that epoch.
    pub high: PerLane<u64>,
    /// Accepted, sent to the present incarnation and not answered; of any epoch; the latest 1,024, oldest first.
    pub unfinished: Vec<RequestId>,
}

impl RequestMarks {
    /// Was this request accepted, as far as the marks tell? Exact for the epoch of the marks; `None` for others.
    pub fn accepted(&self, lane: Lane, request: RequestId) -> Option<bool> {
        (request.epoch == self.epoch).then(|| request.number <= self.high[lane])
    }
}

/// The gateway's answer to a hello.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version of this connection.
    pub protocol: u16,
    /// The gateway's epoch, at least 1.
    pub epoch: u64,
    /// Positions at which this lane continues. A kernel without an entry continues after its last acknowledged message.
    pub resume: Vec<Resume>,
}

/// Position of one kernel in the lane of the connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    /// Number of the kernel on this link.
    pub kernel: u16,
    /// All links up to this one are stored.
    pub after: u64,
}

/// Refusal of a hello; the connection is closed after it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct HelloDenied {
    /// One line.
    pub reason: String,
}

/// Method to interrupt a kernel, as in its kernelspec.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InterruptMode {
    /// SIGINT to its process group.
    #[default]
    Signal,
    /// `interrupt_request` on the control channel.
    Message,
}
