//! The gateway's end of a kernel's link.

use std::sync::Arc;

use himalia_link::{Arrival, Streams};
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

/// A link that is listened on. Ends when it is dropped.
#[derive(Debug)]
pub struct Link {
    /// Connections of the shim.
    pub arrivals: mpsc::Receiver<Arrival>,
    /// Connections for transfers of files.
    pub streams: Arc<Streams>,
    /// Ends the listener, and the watch over the sandbox.
    pub done: DropGuard,
    pub socket: String,
}
