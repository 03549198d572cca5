//! Connections: how they are accepted, counted and ended.

mod connection;
mod holders;
mod lingering;
mod peer;
mod secure;
mod serve;
mod waiting;

pub(crate) use holders::Holders;
pub(crate) use lingering::LingeringStream;
pub(crate) use peer::{Peer, until_ended};
pub use secure::Tls;
pub use serve::{Listeners, Peers, ServeError, serve};
