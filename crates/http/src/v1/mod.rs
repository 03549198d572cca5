//! The native API.

pub(crate) mod artifacts;
pub(crate) mod code;
pub(crate) mod collect;
pub(crate) mod events;
pub(crate) mod executions;
mod file_bodies;
pub(crate) mod files;
pub(crate) mod fork;
pub(crate) mod history;
pub(crate) mod models;
pub(crate) mod pools;
mod push;
pub(crate) mod sessions;
mod sse;
mod start;
pub(crate) mod variables;
