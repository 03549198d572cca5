//! The native API.

pub(crate) mod events;
pub(crate) mod fork;
pub(crate) mod models;
pub(crate) mod pools;
pub(crate) mod sessions;
mod sse;
mod start;
