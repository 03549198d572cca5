//! Tests of the engine with shims and fake kernels as processes.
//!
//! One program for all files: each would link the whole crate again.

mod adoption;
mod branches;
mod clients;
#[macro_use]
mod common;
mod ended;
mod engine_away;
mod executions;
mod lifecycle;
mod lost_sandboxes;
mod metrics;
mod pool;
mod principals;
mod retention;
mod session_feed;
mod session_kernels;
mod sessions;
mod stopping;
mod usage;
