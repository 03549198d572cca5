//! Requests between replicas of the gateway: HTTP/2 over mutual TLS, with a signed statement of who the caller is.
//!
//! * [`Authority`] is the one secret that replicas share. It issues the [`Identity`] of a replica: a certificate for its
//!   address, and the key of the statements.
//! * [`Pool`] sends requests to peers: one connection for each, with bounded streams and pings.
//! * [`serve`] accepts peers. A request reaches the service only with a valid [`Statement`]: of this request, for this
//!   replica, not older than [`STALE`] and not seen before.
//!
//! The crate knows nothing of sessions or principals: what a caller may do is text that the service understands. There
//! is one hop and never two: [`Pool::send`] takes no request that has a statement already.
//!
//! # Bounds
//! A connection has [`MAX_STREAMS`] streams, each with a window of [`STREAM_WINDOW`] bytes that its reader has not taken.
//! The connection's window is that of all streams, so that slow readers do not delay others.

mod authority;
mod cut;
mod listener;
mod pool;
mod replays;
mod statement;
mod tls;

use std::time::Duration;

pub use authority::{Authority, AuthorityError, Identity};
pub use listener::serve;
pub use pool::{Body, BoxError, Peer, Pool, RelayUse, Response, ResponseBody, SendError, body, empty};
pub use statement::{HEADER, STALE, Signer, Statement, StatementError};

/// Streams of one connection at once: as many as a gateway has clients by default.
pub const MAX_STREAMS: u32 = 4096;
/// Bytes of a stream that its reader has not taken.
pub const STREAM_WINDOW: u32 = 64 << 10;
/// Bytes of a stream that wait to be sent.
const SEND_BUFFER: usize = 64 << 10;
/// All streams of a connection.
const CONNECTION_WINDOW: u32 = MAX_STREAMS * STREAM_WINDOW;
/// Interval of pings to a peer, and time for its answer.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for name, TCP, TLS and HTTP/2 of a new connection.
const CONNECT_TIME: Duration = Duration::from_secs(3);
