//! One kernel: a pure state machine ([`core`]) and the task that drives it ([`actor`]).

mod activity;
mod actor;
mod actor_effects;
mod core;
pub(crate) mod culling;
mod event;
mod exit;
mod handle;
mod held;
mod lane_io;
mod ledger;
mod life;
mod lifecycle;
mod listener;
mod messages;
mod meta;
mod outbox;
mod readiness;
mod recovery;
mod requests;
mod sandbox_end;
mod shim;
mod synthetic;
mod teardown;
mod writes;

pub(crate) use self::core::{Core, Settings};
pub(crate) use actor::Actor;
pub(crate) use actor_effects::may_block;
pub(crate) use event::{Command, CommandError, Effect, Event, Now, Request};
pub(crate) use handle::{Envelope, Facts, Handle, Stage, from_micros, remove_forgotten_logs, wall_micros};
pub(crate) use ledger::{RequestKind, parent_key};
pub(crate) use listener::Listener;
pub(crate) use meta::{RecordKind, RecordMeta};
pub(crate) use sandbox_end::death_cause;
pub(crate) use synthetic::notice;
pub(crate) use teardown::Teardown;

#[cfg(test)]
mod sim;
