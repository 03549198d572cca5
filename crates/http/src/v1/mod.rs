//! The native API.

pub(crate) mod events;
mod sse;
