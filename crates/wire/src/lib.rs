//! Jupyter messages as bytes: ZMQ multipart, signatures, a look at headers, and the two WebSocket framings.
//!
//! Sans-IO: nothing here opens a socket, waits or knows HTTP. Every input is treated as hostile: lengths are
//! checked against [`Limits`] before they are used, and no input makes a function panic.
//!
//! Content is never parsed and never written anew. A message keeps the bytes that its sender signed
//! ([`Parts`]), because re-serialising JSON changes key order, numbers and lone surrogates.
//!
//! | module | what |
//! |---|---|
//! | [`zmq`] | multipart messages of the kernel's sockets, with `<IDS\|MSG>` and signature |
//! | [`zmtp`] | the bytes that carry them: frames, handshake |
//! | [`v1`] | `v1.kernel.websocket.jupyter.org`, also the form that is stored and sent between processes |
//! | [`legacy`] | the older WebSocket framing: JSON text, or big-endian binary when there are buffers |
//! | [`header`] | message id, type and session, borrowed from the header's bytes |
//! | [`build`] | the few messages that Himalia itself sends |

#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod channel;
mod connection;
mod duplicate;
mod error;
mod json;
mod json_memory;
mod parts;
mod repair;
mod signer;

pub mod build;
pub mod header;
pub mod legacy;
pub mod v1;
pub mod zmq;
pub mod zmtp;

pub use channel::Channel;
pub use connection::{ConnectionFile, Socket, Transport};
pub use duplicate::DuplicateGuard;
pub use error::{Error, Result};
pub use json_memory::{MAX_JSON_MEMORY, exceeds_json_memory};
pub use parts::{Limits, Parts};
pub use signer::Signer;
