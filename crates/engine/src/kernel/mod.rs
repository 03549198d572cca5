//! One kernel: a pure state machine ([`core`]) and the task that drives it ([`actor`]).

mod activity;
mod actor;
mod actor_effects;
mod alarm;
mod checkpoint;
mod closing;
mod core;
pub(crate) mod culling;
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
mod lane_io;
mod ledger;
mod life;
mod lifecycle;
mod listener;
mod messages;
mod meta;
mod moving;
mod names;
mod outbox;
mod questions;
mod rarely;
mod readiness;
mod recovery;
mod refusal;
mod requests;
mod rules;
mod sandbox_end;
mod secrets;
mod sharing;
mod shim;
mod streams;
mod synthetic;
mod teardown;
mod unproven;
mod writes;

pub(crate) use self::core::{Core, Settings};
pub(crate) use actor::Actor;
pub(crate) use event::{Answer, Claim, Command, CommandError, Effect, Event, Now, Request};
pub(crate) use execution_records::{
    End, ExecutionRecord, Submission, execution_of, owner_of, owner_of_client,
};
pub use execution_records::{Language, OnTimeout, Replaced, SandboxLoss, StopReason};
pub(crate) use executions::{Brief, MAX_RECENT, title};
pub(crate) use handle::{Envelope, Handle, Move, Stage, record, remove_forgotten_logs, remove_log};
pub(crate) use ledger::{RequestKind, parent_key};
pub(crate) use life::MEMORY_WAIT;
pub(crate) use life::Phase;
pub(crate) use listener::{Arrival, Listener};
pub(crate) use messages::word;
pub(crate) use meta::{RecordKind, RecordMeta};
pub use names::LostVariables;
pub(crate) use questions::{Question, Reply};
pub(crate) use rules::Rules;
pub(crate) use sandbox_end::death_cause;
pub(crate) use streams::{StreamSocket, Streams};
pub(crate) use synthetic::notice;
pub(crate) use teardown::{SESSION_ENDED, Teardown};
pub(crate) use unproven::Unproven;

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
