//! The WebSocket protocol (RFC 6455, version 13, no extensions), server side, on the raw TCP socket of an upgraded connection.
//!
//! Frame headers, close codes and the answer to the handshake are those of `tungstenite`, which `tokio-tungstenite` brings. The
//! reader and the writer are our own. The writer shares large messages instead of copying them, and the position of a client needs the
//! exact end of each message in the stream of bytes: server frames are not masked, so it is a sum of payloads and of headers of 2, 4
//! or 10 bytes. The reader allocates what has arrived, not what a header announces. `docs/adr/0010` has the measurements.
//!
//! * `frame`: frame headers and masking, sans-IO
//! * `reader`: messages from the peer, with every rule and limit checked
//! * `outbox`: messages to the peer, and how far they got
//! * `handshake`: the upgrade
//! * `close`: why a connection ends, as close codes
//! * `closing`: its last bytes, within a bound
//! * `echo`: a server for test suites of the protocol

mod close;
mod closing;
#[cfg(any(test, feature = "echo"))]
mod echo;
mod frame;
mod handshake;
mod outbox;
mod reader;

pub(crate) use close::Close;
pub(crate) use closing::{CLOSING_TIME, closing_handshake};
#[cfg(any(test, feature = "echo"))]
pub use echo::serve_echo;
pub(crate) use handshake::{Handshake, UpgradedSocket};
pub(crate) use outbox::Outbox;
pub(crate) use reader::{IncomingMessage, Reader};
