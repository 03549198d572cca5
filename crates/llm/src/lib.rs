//! The configured language models, behind APIs like that of `OpenAI`.
//!
//! ```text
//! request.rs   Request::read: a body of a caller -> prepare: what is sent (model, bounds), what it may take (Estimate), its key
//! tree.rs      Trees -> Tree: what the calls of one tree of sessions take together; Held: a place of one call
//! cache.rs     Cache: answers by what was asked
//! models.rs    Models::send: a turn, then Http (crate upstream), once -> Answer: Whole, or a Stream (stream.rs)
//!                usage.rs: tokens, as the server says them;   events.rs: the events of a stream, as they come
//! ```
//!
//! Servers are hostile, and so are callers: what is read of both has a bound. Nothing that may have been sent is sent again.

mod cache;
mod events;
mod failure;
mod members;
mod models;
mod request;
mod stream;
#[cfg(test)]
mod tests;
mod tree;
mod usage;

pub use cache::{CACHE_BYTES, CACHE_ENTRY_BYTES, CACHE_TIME, Cache, CachedAnswer};
pub use failure::Failure;
pub use himalia_model::LlmEndpoint as Endpoint;
pub use models::{Answer, MAX_CALLS, MAX_REPLY_BYTES, MAX_WAITING, Models, Whole};
pub use request::{Estimate, PreparedRequest, Request};
pub use stream::Stream;
pub use tree::{MAX_TREES, Runs, TreeId, TreeReservation, Trees};
