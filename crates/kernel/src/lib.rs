//! One kernel: a pure state machine ([`Core`]) and the task that drives it ([`Actor`]).
//!
//! ```text
//!            commands, requests, shim, disk, time                    effects
//!                          │                                            ▲
//!   Actor ── Event ──▶  Core::step ── SUB_MACHINES ── after_event ──▶ Vec<Effect>
//!                          │              (deadline, on_time)
//!        ┌────────┬────────┼──────────┬───────────┬──────────┬──────────┐
//!        ▼        ▼        ▼          ▼           ▼          ▼          ▼
//!      life    requests  executions  time_limit  disk    readiness  questions
//!   process,   backlog,   queue,     stopwatch   watch   probes,    open ones
//!   phase,     ledger     current                        heartbeat
//!   waiters
//!        └────────┴────────┴──── log ─▶ writes ─▶ journal
//! ```
//!
//! A sub-machine keeps its state to its folder: a closed type decides, and takes what it needs of the others as arguments.
//! The file `mod.rs` of the folder, or those that its table names, connect it with the others as methods of [`Core`]. When
//! each is due, and in which order they are called, is one list in `core.rs`: a new one is one more entry there.
//!
//! Open first:
//! - [`Core`] (`core.rs`): what an event does;
//! - `life/`: what happens when a kernel starts, dies, is stopped, or loses its sandbox;
//! - `requests/`: how a request gets to the shim, and its reply back; `shim/`: the link that it uses;
//! - `executions/`: what happens to native executions;
//! - `prompts/`: what a person is asked while code runs;
//! - `recovery.rs`, `checkpoint.rs`: how all of it is rebuilt from the log;
//! - `sim/`: the whole of it under random schedules of faults.

mod activity;
mod actor;
mod checkpoint;
mod commands;
mod core;
mod disk;
mod event;
mod executions;
mod handle;
mod host;
mod life;
mod link;
mod log;
mod messages;
mod meta;
mod network;
mod network_log;
mod notices;
mod prompts;
mod questions;
mod readiness;
mod recovery;
mod requests;
mod returned;
mod returned_log;
mod rules;
mod shim;
mod synthetic;
mod time_limit;
mod tool_call_log;
mod tool_calls;
mod trace;
mod writes;

pub use self::core::{Core, Settings, Snapshot};
pub use actor::Actor;
pub use event::{Answer, Claim, Command, CommandError, Request, Timestamp};
pub use executions::brief::{Brief, title};
pub use executions::control::STOP_TIME;
pub use executions::names::LostVariables;
pub use executions::queue::MAX_RECENT;
pub use executions::records::{
    End, ExecutionRecord, Language, OnTimeout, ReplacedExecution, SandboxLoss, StopReason, Submission,
    execution_of, owner_of, owner_of_client,
};
pub use handle::{ClientSlot, Envelope, Handle, Mailboxes, Move, Stage, record};
pub use host::{HostFuture, KernelHost};
pub use life::{MEMORY_WAIT, Phase};
pub use link::Link;
pub use messages::word;
pub use meta::{RecordKind, RecordMeta};
pub use network::{NetworkOutcome, NetworkRecord, NetworkTotals};
pub use prompts::open::{MAX_ENDED as MAX_ENDED_PROMPTS, MAX_OPEN as MAX_OPEN_PROMPTS};
pub use prompts::prompt::{
    APPROVE_ALWAYS, APPROVE_DENY, APPROVE_ONCE, APPROVE_SESSION, OpenPrompt, Prompt, PromptEnd, PromptKind,
    PromptRecord, PromptStatus,
};
pub use questions::question::{Question, Reply};
pub use requests::kind::{RequestKind, parent_key};
pub use returned::ReturnedText;
pub use rules::Rules;
pub use synthetic::notice;
pub use time_limit::TIMED_OUT;
pub use tool_calls::{
    Callee, ModelCallTotals, ToolCallBegin, ToolCallEnd, ToolCallRecord, ToolCallTotals, ToolLimit,
    ToolOutcome,
};
pub use trace::TracedRequest;

#[cfg(test)]
mod bench;
#[cfg(test)]
mod client_tests;
#[cfg(test)]
mod core_tests;
#[cfg(test)]
mod play;
#[cfg(test)]
mod sim;
