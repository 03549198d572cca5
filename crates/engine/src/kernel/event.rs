//! What happens to a kernel, and what its state machine wants done. Time, disk and links are all events.

use bytes::Bytes;
use himalia_journal::NewRecord;
use himalia_shim_protocol::{Hello, KernelSpec, Lane, Pending, Resume, ToGateway};
use himalia_wire::Channel;

use super::ledger::RequestKind;

/// The present, as the driver sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Now {
    /// Monotonic, microseconds; for waits.
    pub(crate) mono: u64,
    /// Wall clock, microseconds since 1970; for records.
    pub(crate) wall: u64,
}

/// A message for the kernel, its header already understood.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Hash of principal and wire session; 0 = the engine itself.
    pub(crate) owner: u64,
    pub(crate) channel: Channel,
    pub(crate) kind: RequestKind,
    /// Hash of `msg_id` and `session`.
    pub(crate) parent: u64,
    pub(crate) frame: Bytes,
}

/// An order of a caller.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Start the first process.
    Start(Box<KernelSpec>),
    Interrupt,
    Restart,
    /// End the kernel for good. The text becomes its cause of death (`killed_by_user`, `idle_culled` …).
    Stop(&'static str),
}

/// Why an order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommandError {
    /// The process could not be started.
    #[error("{reason}")]
    StartFailed { reason: String, stderr: String },
    #[error("the kernel has no process")]
    NotRunning,
    #[error("the kernel's sandbox is not connected")]
    Disconnected,
    #[error("the kernel was started already")]
    Superseded,
    /// The shim refused or holds too much already.
    #[error("{0}")]
    Refused(String),
}

/// What happens.
#[derive(Debug)]
pub(crate) enum Event {
    Request(Request),
    Command {
        waiter: u64,
        command: Command,
    },
    /// An authenticated hello on its lane; the answer is [`Effect::Welcome`].
    Hello(Box<Hello>),
    LaneClosed(Lane),
    Shim(Lane, ToGateway),
    /// The batch in flight is in the journal, its first record under this number. The emptied batch comes back.
    Written {
        first_seq: u64,
        batch: Vec<NewRecord>,
    },
    /// Nothing of the batch in flight is in the journal.
    WriteFailed {
        batch: Vec<NewRecord>,
    },
    /// The sandbox has ended, or is given up. One line.
    SandboxGone(String),
    Tick,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Answer the hello on this lane; frames sent on it afterwards follow the answer.
    Welcome(Lane, Resume),
    /// Write this request to the lane.
    Send(Lane, Pending),
    /// Acknowledge on the now lane everything of this lane up to the link.
    Ack(Lane, u64),
    /// An order is done.
    Done(u64, Result<(), CommandError>),
    /// A process runs, as the shim says.
    ProcessStarted(i32),
    /// The kernel is over: once the journal is written, end its sandbox. `forget` is whether it was meant to end, so that
    /// nobody wants to see it any more; otherwise it stays listed as dead.
    Over { forget: bool },
}
