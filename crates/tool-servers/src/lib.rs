//! The configured upstream servers of tools: one task each, which connects, lists what there is, and stays connected.
//!
//! ```text
//! ToolServers (servers.rs)    start: a Task (task.rs) for each ToolServerConfig (crate model), which owns its state and publishes a
//!   |                           View (state.rs): connect with pauses (backoff.rs), list, look whether it is there, connect anew
//!   |- snapshot, states       what the views have: ServerTools (crate tools), of which a session makes its Catalog
//!   `- call                   a turn (at most 64 at once), then Upstream::call (upstream.rs)
//!        |- mcp.rs            rmcp has the life of a connection; transport.rs sends what it says; a Ticket takes the answer as bytes
//!        `- openapi.rs        description.rs -> operation.rs, schema.rs: tools;   request.rs, reply.rs: a call
//! both -> Http (crate upstream)   one request, sent once
//! ```
//!
//! Servers are hostile. Of what they say, everything has a bound: the bytes of a response and of a list, the values of a JSON text
//! (crate `upstream`), the requests that they make, the time of all of it. Nothing that may have been sent is sent again: a [`CallError`] says
//! whether the outcome of a call is unknown. A server that hangs keeps its own calls waiting, and nothing else.

mod backoff;
mod call;
mod listing;
mod mcp;
mod openapi;
mod servers;
mod state;
mod task;
#[cfg(test)]
mod tests;
mod upstream;

pub use call::{Blob, CallError, Limits, Reply};
pub use servers::{MAX_CALLS, MAX_WAITING, ToolServers};
pub use state::{OwnedTools, ServerState, ServerStatus};
