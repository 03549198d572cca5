//! The channels of a kernel of another replica.
//!
//! The replica of the client has the WebSocket, with its framing, its pings and the bytes that the client's TCP has
//! acknowledged; the owner has the log. Between them is one stream of HTTP/2 in both directions:
//!
//! * from the owner: messages with their numbers, which requests it has accepted, why the feed ends
//! * to the owner: requests with a number of their own, and the number up to which the client has everything
//!
//! What lies in a buffer on the way is not acknowledged: the position is that of the client's TCP. When the owner is
//! lost, the next one is asked for what comes after the last message, and the client sees a pause. Requests that no
//! owner has accepted are not sent again: the client learns which may not have arrived.

mod client;
mod link;
mod owner;

pub(super) use client::open;
pub(super) use owner::serve;

/// The path at which owners serve channels; the last segment is the id of the kernel.
pub(super) const ROUTE: &str = "/relay/channels/{kernel_id}";
