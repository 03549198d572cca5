//! The socket below a connection: TCP, or TLS over TCP.
//!
//! * `stream`: both as one type, while hyper has the connection
//! * `halves`: what is left of it after an upgrade: two halves, and how many bytes the peer's TCP has not acknowledged
//! * `records`: the state of TLS after an upgrade, with the place of each record in both streams of bytes
//! * `unacknowledged`: the same question to the system

mod halves;
mod records;
mod stream;
mod unacknowledged;

pub(crate) use halves::WriteHalf;
pub(crate) use stream::Stream;
