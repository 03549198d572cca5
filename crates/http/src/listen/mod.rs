//! Connections: how they are accepted, counted and ended.

mod connection;
mod holders;
mod peer;
mod serve;
mod unacknowledged;
mod waiting;

pub(crate) use holders::Holders;
pub(crate) use peer::{Peer, until_ended};
pub use serve::{ServeError, serve};
pub(crate) use unacknowledged::unacknowledged;
