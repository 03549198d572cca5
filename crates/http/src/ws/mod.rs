//! The WebSocket protocol (RFC 6455, version 13, no extensions), server side, on the raw TCP socket of an upgraded connection.
//!
//! Why not a library: the position of a client is the last message that its TCP acknowledged, so the byte count of each
//! message must be known exactly; messages are shared `Bytes` that go out by gathered writes, many per system call, without
//! being copied into a buffer that keeps its largest size; a socket that nobody writes to costs no more than its read
//! buffer; and a writer that waits for a slow peer must not keep the reader from reading.
//!
//! * `frame`: the bytes of a frame header, sans-IO
//! * `reader`: messages from the peer, with every rule and limit checked
//! * `outbox`: messages to the peer, and how far they got
//! * `handshake`: the upgrade
//! * `close`: why a connection ends, as close codes
//! * `farewell`: its last bytes, within a bound
//! * `echo`: a server for test suites of the protocol

mod close;
#[cfg(any(test, feature = "echo"))]
mod echo;
mod farewell;
mod frame;
mod handshake;
mod outbox;
mod reader;

pub(crate) use close::Close;
#[cfg(any(test, feature = "echo"))]
pub use echo::serve_echo;
pub(crate) use farewell::{FAREWELL, farewell};
pub(crate) use handshake::{Handshake, Upgraded};
pub(crate) use outbox::Outbox;
pub(crate) use reader::{Incoming, Reader};
