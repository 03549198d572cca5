//! Deliveries of a feed.

use bytes::Bytes;
use himalia_model::EngineError;
use himalia_wire::Channel;
use time::OffsetDateTime;

/// One message for one client.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Number in the kernel's log: dense over the whole log, so that one client sees it grow with holes. A notice of a gap carries the last number
    /// that is missing.
    pub seq: u64,
    /// When the gateway stored it, UTC.
    pub at: OffsetDateTime,
    /// The channel it belongs to.
    pub channel: Channel,
    /// The message as a `v1.kernel.websocket.jupyter.org` frame, ready to be sent; shared, not copied.
    pub frame: Bytes,
}

/// Reasons why a feed has ended. Everything before the end was handed out first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeedClosed {
    /// The kernel is gone; a `status: dead` was delivered before.
    KernelGone,
    /// The gateway is stopping; the same client may come back later (WebSocket close code 1012).
    Draining,
    /// A newer connection of the same wire session took over.
    Replaced,
    /// The log cannot be read; the reason is in the gateway's log.
    Storage,
}

/// Error for a log that could not be read to its end.
impl From<FeedClosed> for EngineError {
    fn from(closed: FeedClosed) -> Self {
        match closed {
            FeedClosed::Storage => Self::Internal {
                context: "reading a kernel's log".into(),
            },
            _ => Self::unavailable("the gateway is stopping"),
        }
    }
}
