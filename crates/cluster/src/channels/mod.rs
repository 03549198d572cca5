//! The channels of a kernel of another replica.
//!
//! The replica of the client has the WebSocket, with its framing, its pings and the bytes that the client's TCP has
//! acknowledged; the owner has the log. Between them is one stream of HTTP/2 in both directions:
//!
//! * from the owner: messages with their numbers, the requests that it has accepted, the reason of the end of the feed
//! * to the owner: requests with a number of their own, and the number up to which the client has everything
//!
//! Bytes in a buffer on the way are not acknowledged: the position is that of the client's TCP. When the owner is lost, the next one is
//! asked for the messages after the last one, and the client sees a pause. Requests that no owner has accepted are not sent again: the
//! client is notified of requests that may not have arrived.

mod attach;
mod client;
mod link;
mod owner;
mod stream;

use std::time::Duration;

pub use attach::{AttachRequest, Refusal};
pub use client::{RemoteChannels, RemoteFeed, RemoteRequests, open_channels};
pub use link::Link;
pub use owner::serve_channels;

/// The path at which owners serve channels; the last segment is the id of the kernel. The query is that of the client's WebSocket.
pub const CHANNELS: &str = "/relay/channels/{kernel_id}";
/// Time for the last position of a client after its feed has ended: longer than the closing handshake of a WebSocket.
const LAST_TIME: Duration = Duration::from_secs(4);
