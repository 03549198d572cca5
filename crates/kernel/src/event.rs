//! Events of a kernel, and effects that its state machine requests. Time, disk and links are all events.

use std::sync::Arc;

use himalia_journal::{NewRecord, Record};
use himalia_model::{DiskUse, ToolCallLimits, TraceContext, Unanswered};
use himalia_shim_protocol::{
    Bind, Fork, ForkFailed, Hello, KernelForked, KernelSpec, Lane, Open, PendingRequest, RequestId, Resume,
    StartPath, ToGateway,
};
use himalia_wire::Channel;
use himalia_wire::v1::Frame;

use super::executions::brief::Brief;
use super::executions::records::{SandboxLoss, Submission};
use super::network::NetworkRecord;
use super::prompts::prompt::{Prompt, PromptStatus};
use super::questions::question::{Question, Reply};
use super::requests::kind::{RequestKind, parent_key};
use super::rules::Rules;
use super::tool_calls::{ToolCallBegin, ToolCallEnd, ToolLimit};
use super::trace::TracedRequest;

/// The present, as the driver sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp {
    /// Monotonic, microseconds; for waits.
    pub mono: u64,
    /// Wall clock, microseconds since 1970; for records.
    pub wall: u64,
}

/// A message for the kernel, its header already understood.
#[derive(Clone, Debug)]
pub struct Request {
    /// Hash of principal and wire session; 0 = the engine itself.
    pub owner: u64,
    pub kind: RequestKind,
    /// Hash of `msg_id` and `session`.
    pub parent: u64,
    /// The message, for a channel that clients may use.
    pub frame: Frame,
    /// Place in a trace, if it is an execution and traced.
    pub trace: Option<Box<TracedRequest>>,
}

impl Request {
    /// A request of the gateway itself, whose header can be read.
    pub(super) fn ours(owner: u64, kind: RequestKind, frame: Frame) -> Self {
        let parent = frame
            .peek()
            .map_or(0, |header| parent_key(&header.msg_id, &header.session));
        Self {
            owner,
            kind,
            parent,
            frame,
            trace: None,
        }
    }

    pub fn channel(&self) -> Channel {
        self.frame.channel()
    }
}

/// An order of a caller.
#[derive(Clone, Debug)]
pub enum Command {
    /// Start the first process.
    Start(Box<KernelSpec>),
    /// Interrupt what runs.
    Interrupt,
    /// Replace the process. Done when the next one runs.
    Restart,
    /// Start the next process if the kernel is dead. Done when it runs; at once for a kernel that is not dead.
    Revive,
    /// The new sandbox is of no use: it is given up. One line.
    GiveUpSandbox(String),
    /// End the kernel permanently. The text becomes its cause of death (`killed_by_user`, `idle_culled` …).
    Stop(&'static str),
    /// From now on the kernel has a user: these rules hold, and it receives what it would have been started with. Done
    /// when it has.
    Claim(Box<Claim>),
    /// Make a branch of it.
    Fork(Box<Fork>),
    /// Have the shim open a link for an additional kernel, on this socket. Done when it dials.
    AddLink(String),
    /// Take an execution.
    Submit(Box<Submission>),
    /// Stop the execution whose first record has this number.
    StopExecution(u64),
    /// Answer what the execution asks.
    Input {
        /// The execution: the number of its first record.
        seq: u64,
        value: String,
        /// Answering caller.
        by: String,
    },
    /// Tell what executions there are.
    ListExecutions,
    /// Ask a person something on behalf of the code that runs.
    Prompt(Box<Prompt>),
    /// Wait until a prompt has ended.
    AwaitPrompt {
        /// The prompt: the number of its first record.
        seq: u64,
        /// Longest wait, in microseconds.
        wait: u64,
    },
    AnswerPrompt {
        /// The prompt: the number of its first record.
        seq: u64,
        value: String,
        /// Answering caller.
        by: String,
    },
    /// Let a call of a tool be made that a person has approved: each approval of one call once.
    UseApproval {
        /// The prompt that asked for it. `None`: the tool has to be approved for the session.
        prompt: Option<u64>,
        /// `server.tool`.
        tool: String,
        /// A digest of the tool as it is defined.
        definition: String,
        /// Digest of the call's arguments.
        digest: String,
    },
    /// Tell what prompts there are.
    ListPrompts,
    /// Ask the kernel something.
    Ask(Box<Question>),
    /// Have the shim open a stream. Done when the command is given.
    Open(Box<Open>),
    /// Write into the log that a connection to the network has ended.
    NoteConnection(Box<NetworkRecord>),
    /// Tell what runs.
    TellRunning,
    /// Write into the log that a tool is about to be called, if the limits permit it.
    BeginToolCall(Box<ToolCallBegin>, ToolCallLimits),
    /// Count a call of a tool that a session below this one is about to make, if the limits permit it.
    CountTreeCall(ToolCallLimits),
    /// Write into the log how a call of a tool has ended.
    EndToolCall(u64, Box<ToolCallEnd>),
    /// Write into the log that characters were returned to a model.
    NoteReturned {
        /// The execution that they are about: the number of its first record. `None`: the kernel.
        execution: Option<u64>,
        /// Number of characters.
        chars: u64,
    },
    /// Write into the log that a call of a tool was refused.
    RefuseToolCall {
        /// Refused call.
        what: Box<ToolCallBegin>,
        code: String,
        /// Reason, in a line.
        reason: String,
    },
}

/// Data for a waiting kernel that a session claims.
#[derive(Clone, Debug)]
pub struct Claim {
    /// For the kernel itself; `None` when there is nothing to tell.
    pub bind: Option<Bind>,
    /// Rules that apply from now on.
    pub rules: Rules,
}

/// Result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// A branch was made.
    Forked(Box<KernelForked>),
    /// An execution is in the journal, its first record under this number. `repeated`: it was there before.
    Submitted {
        /// Number of its first record.
        seq: u64,
        /// It was there before, under the same key.
        repeated: bool,
    },
    /// True if an execution was stopped.
    Stopping(bool),
    /// Executions that have not ended, and those that ended lately.
    Executions(Vec<Brief>),
    /// A prompt, and what has become of it so far.
    Prompt(Box<PromptStatus>),
    /// Prompts that are open, and those that ended lately.
    Prompts(Vec<PromptStatus>),
    /// Reply of the kernel to a question.
    Replied(Box<Reply>),
    /// Current execution: the native one, by the number of its first record; or else the request of a client.
    Running {
        execution: Option<u64>,
        request: Option<RequestId>,
    },
    /// The start of a tool call is in the log.
    ToolCallBegun {
        /// The number of the call.
        call: u64,
        /// The span of the code that runs.
        trace: Option<TraceContext>,
    },
    /// No tool may be called.
    ToolCallOverLimit(ToolLimit),
}

/// Reasons why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The process could not be started.
    #[error("{reason}")]
    StartFailed {
        /// One line.
        reason: String,
        /// The last of the process's standard error.
        stderr: String,
    },
    /// It has no process, and gets none by this order.
    #[error("the kernel has no process")]
    NotRunning,
    /// The shim is not connected.
    #[error("the kernel's sandbox is not connected")]
    Disconnected,
    /// It was started already, or another order came before.
    #[error("the kernel was started already")]
    Superseded,
    /// The shim protocol of the sandbox's version lacks the command.
    #[error("{0}")]
    Unsupported(String),
    /// It could not receive what it was claimed with.
    #[error("{0}")]
    NotBound(String),
    /// The shim could not make a branch.
    #[error("{}", .0.reason)]
    ForkFailed(Box<ForkFailed>),
    /// The shim refused or holds too much already.
    #[error("{0}")]
    Refused(String),
    /// So many executions have not ended yet.
    #[error("{0} executions wait for this kernel")]
    QueueFull(u32),
    /// The kernel has another process than the caller believes.
    #[error("the kernel's incarnation is {now}, not {expected}")]
    Incarnation {
        /// Incarnation that the caller expects.
        expected: u32,
        /// Incarnation that an execution would run in.
        now: u32,
    },
    /// So many executions in a row have failed, as many as the caller allows.
    #[error("the latest {0} executions have failed")]
    FailureLimit(u32),
    /// The idempotency key was used for another request.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// The kernel is dead and stays so.
    #[error("the kernel is dead: {0}")]
    KernelDead(String),
    /// The kernel can continue in a new sandbox only.
    #[error("the kernel's sandbox is gone: {0}")]
    SandboxLost(String),
    /// The log cannot be written.
    #[error("the log of this kernel cannot be written, is the disk full?")]
    DiskFailing,
    /// The execution does not wait for input.
    #[error("the execution does not wait for input")]
    NotAsked,
    /// As many prompts as may be are open.
    #[error("other prompts of this kernel wait for an answer")]
    TooManyPrompts,
    /// It was not asked by this kernel, or is too long ago.
    #[error("this kernel has no such prompt, or not any more")]
    UnknownPrompt,
    /// It was answered or withdrawn before.
    #[error("the prompt has ended: it was answered before, or is of no use any more")]
    PromptEnded,
    /// No person has approved the call. One line says why.
    #[error("{0}")]
    NotApproved(&'static str),
    /// The answer is not one of those that can be chosen.
    #[error("the answer is not one of {}", .0.join(", "))]
    NotAnOption(Vec<String>),
    /// As many questions as may be are with the kernel.
    #[error("other questions wait for this kernel")]
    TooManyQuestions,
    /// The kernel went idle over a question and said nothing.
    #[error("the kernel does not know this question")]
    NotKnown,
    /// No reply came in time.
    #[error("the kernel gave no answer in time")]
    NoAnswer,
    /// No reply to an earlier question on the control channel came, nor anything else there since.
    #[error("{}", Unanswered::Control.advice())]
    ControlSilent,
}

/// Result of a command: `Ok(true)`, done already; `Ok(false)`, answered later.
pub(crate) type CommandResult = Result<bool, CommandError>;

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
    /// No record of the batch in flight is in the journal.
    WriteFailed {
        batch: Vec<NewRecord>,
    },
    /// The sandbox has ended, or is given up. One line.
    SandboxGone(String),
    /// The kernel has a new sandbox in place of one that is gone; its shim is still to call. What was lost with that one.
    NewSandbox {
        waiter: u64,
        rules: Rules,
        lost: SandboxLoss,
    },
    /// The record that [`Effect::Fetch`] asked for; `None` if it is not there any more.
    Fetched {
        seq: u64,
        record: Option<Arc<Record>>,
    },
    /// The answer to [`Effect::CheckMemory`].
    MemoryChecked {
        killed: bool,
    },
    /// The answer to [`Effect::MeasureDisk`]; `None` if it could not be measured.
    DiskMeasured(Option<DiskUse>),
    Tick,
}

/// Effects that the actor performs.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Answer the hello on this lane; frames sent on it afterwards follow the answer.
    Welcome(Lane, Resume),
    /// Write this request to the lane.
    Send(Lane, PendingRequest),
    /// Acknowledge on the now lane everything of this lane up to the link.
    Ack(Lane, u64),
    /// Read this record of the journal.
    Fetch(u64),
    /// An order is done.
    Done(u64, Result<Answer, CommandError>),
    /// A process runs, as the shim says.
    ProcessStarted(i32, StartPath),
    /// Find out whether a process of the sandbox was killed just now because it ran out of memory. What is not known within
    /// [`super::life::MEMORY_WAIT`] is not waited for.
    CheckMemory,
    /// Measure the space that the files of the sandbox take.
    MeasureDisk,
    /// Make a new sandbox: a request waits for it.
    WantSandbox,
    /// The kernel has ended: once the journal is written, end its sandbox. `forget` is whether it was meant to end, so that
    /// it is not listed any more; otherwise it stays listed as dead.
    Ended { forget: bool },
}
