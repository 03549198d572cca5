//! A kernel of a gateway, as Jupyter clients of this machine know kernels: a connection file and five ZMQ sockets.
//!
//! ```text
//! jupyter console ──ZMQ── guard ── zeromq ── hub ── link ──WebSocket── gateway
//! ```
//!
//! * `scan`: the limits of what a ZMQ client sends, sans-IO
//! * `guard`: a client's connection up to the `zeromq` crate, with these limits
//! * `peer`: one connection behind its guard: a ROUTER, or an XPUB of one subscriber
//! * `outbox`: what waits for one client
//! * `routes`: whose request it was
//! * `hub`: signatures, and which message goes where
//! * `requests`: what waits for the gateway
//! * `link`: the WebSocket, made again when it is lost
//! * `upgrade`: how that WebSocket begins
//! * `listen`: the five sockets; `file`: the connection file
//!
//! The `zeromq` crate has no limit for frames, drops what a slow subscriber of a PUB does not take, and gives the replies of a peer to
//! the next one that comes with the same identity. So each connection has a socket of the crate of its own, which it reaches through a
//! guard: the guard refuses frames over the limits before they get to the crate, counts what the client has taken, and
//! refuses an identity that is in use; an XPUB of one subscriber waits for it and loses nothing.

mod bridge;
mod end;
mod file;
mod flow;
mod guard;
mod hub;
mod link;
mod listen;
mod outbox;
mod peer;
mod requests;
mod routes;
mod scan;
mod upgrade;

pub use bridge::{Bridge, Settings};
pub use end::{End, Error, Report};
pub use himalia_wire::Transport;
pub use link::{Dial, DialError, Io};
pub use upgrade::Upgrade;
