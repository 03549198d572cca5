//! Clients of a kernel: what they send ([`Requests`]) and what they are shown ([`Feed`], [`EventFeed`]).

mod client;
mod delivery;
mod events;
mod reader;
mod requests;

pub use client::{Attach, Attachment, Feed};
pub use client::{Connection, start_position};
pub use delivery::{Delivery, FeedClosed};
pub use events::{Event, EventFeed, EventKind};
pub(crate) use reader::{Batch, PacedReader, Position};
pub use reader::{LogReader, Reader};
pub use requests::Requests;
