//! One kernel: a pure state machine ([`Core`]) and the task that drives it ([`Actor`]).

mod activity;
mod actor;
mod actor_effects;
mod alarm;
mod checkpoint;
mod closing;
mod core;
mod disk;
mod early;
mod event;
mod executing;
mod execution_control;
mod execution_records;
mod execution_recovery;
mod executions;
mod exit;
mod handle;
mod health;
mod held;
mod host;
mod ledger;
mod life;
mod lifecycle;
mod link;
mod messages;
mod meta;
mod moving;
mod names;
mod outbox;
mod questions;
mod readiness;
mod recovery;
mod refusal;
mod requests;
mod rules;
mod sandbox_end;
mod secrets;
mod sharing;
mod shim;
mod synthetic;
mod wake_gate;
mod writes;

pub use self::core::{Core, Settings, Snapshot};
pub use actor::Actor;
pub use event::{Answer, Claim, Command, CommandError, Now, Request};
pub use execution_records::{
    End, ExecutionRecord, Language, OnTimeout, Replaced, SandboxLoss, StopReason, Submission, execution_of,
    owner_of, owner_of_client,
};
pub use executions::{Brief, MAX_RECENT, title};
pub use handle::{Envelope, Handle, Mailboxes, Move, Seat, Stage, record};
pub use host::{HostFuture, KernelHost};
pub use ledger::{RequestKind, parent_key};
pub use life::{MEMORY_WAIT, Phase};
pub use link::Link;
pub use messages::word;
pub use meta::{RecordKind, RecordMeta};
pub use names::LostVariables;
pub use questions::{Question, Reply};
pub use rules::Rules;
pub use synthetic::notice;

#[cfg(test)]
mod bench;
#[cfg(test)]
mod core_tests;
#[cfg(test)]
mod disk_tests;
#[cfg(test)]
mod executing_caller_tests;
#[cfg(test)]
mod executing_end_tests;
#[cfg(test)]
mod executing_tests;
#[cfg(test)]
mod health_tests;
#[cfg(test)]
mod play;
#[cfg(test)]
mod questions_tests;
#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod sim;
