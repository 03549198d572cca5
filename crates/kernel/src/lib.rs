//! One kernel: a pure state machine ([`Core`]) and the task that drives it ([`Actor`]).

mod activity;
mod actor;
mod actor_effects;
mod alarm;
mod checkpoint;
mod closing;
mod commands;
mod core;
mod disk;
mod event;
mod executions;
mod handle;
mod held;
mod host;
mod ledger;
mod life;
mod link;
mod log;
mod messages;
mod meta;
mod notices;
mod outbox;
mod questions;
mod rarely;
mod readiness;
mod recovery;
mod refusal;
mod requests;
mod rules;
mod secrets;
mod shim;
mod synthetic;
mod time_limit;
mod writes;

pub use self::core::{Core, Settings, Snapshot};
pub use actor::Actor;
pub use event::{Answer, Claim, Command, CommandError, Now, Request};
pub use executions::brief::{Brief, title};
pub use executions::names::LostVariables;
pub use executions::queue::MAX_RECENT;
pub use executions::records::{
    End, ExecutionRecord, Language, OnTimeout, Replaced, SandboxLoss, StopReason, Submission, execution_of,
    owner_of, owner_of_client,
};
pub use handle::{Envelope, Handle, Mailboxes, Move, Seat, Stage, record, remove_forgotten_logs, remove_log};
pub use host::{HostFuture, KernelHost};
pub use ledger::{RequestKind, parent_key};
pub use life::{MEMORY_WAIT, Phase};
pub use link::Link;
pub use messages::word;
pub use meta::{RecordKind, RecordMeta};
pub use questions::question::{Question, Reply};
pub use rules::Rules;
pub use synthetic::notice;

#[cfg(test)]
mod bench;
#[cfg(test)]
mod core_tests;
#[cfg(test)]
mod play;
#[cfg(test)]
mod sim;
