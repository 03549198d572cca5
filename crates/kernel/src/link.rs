//! The gateway's end of a kernel's link.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use super::listener::Arrival;
use super::streams::Streams;

/// A socket that is listened on. Ends when it is dropped.
#[derive(Debug)]
pub struct Link {
    /// Connections of the shim.
    pub arrivals: mpsc::Receiver<Arrival>,
    /// Connections for transfers of files.
    pub streams: Arc<Streams>,
    /// Ends the listener, and the watch over the sandbox.
    pub done: DropGuard,
    /// Name of the socket that it calls.
    pub socket: String,
}
