//! Tests of the engine with shims and fake kernels as processes.
//!
//! One program for all files: each would link the whole crate again.

mod adoption;
mod audit;
mod branches;
mod callbacks;
mod clients;
#[macro_use]
mod common;
mod costs;
mod drafts;
mod ended;
mod engine_away;
mod executions;
mod lifecycle;
mod lost_sandboxes;
mod metrics;
mod pool;
mod principals;
mod prompt_webhooks;
mod retention;
mod session_feed;
mod session_kernels;
mod sessions;
mod stopping;
mod triggers;
mod usage;
mod webhooks;
