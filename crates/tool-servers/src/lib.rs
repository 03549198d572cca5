//! The configured upstream servers of tools: one task each, which connects, lists what there is, and stays connected.
//!
//! ```text
//! ToolServers (servers.rs)    start: a Task (task.rs) for each ToolServerConfig (crate model), which owns its state and publishes a
//!   |                           View (state.rs): connect with pauses, list, look whether it is there, connect anew
//!   |- snapshot, states       what the views have: ServerTools (crate tools), of which a session makes its Catalog
//!   `- call                   a turn (turns.rs: 64 at once, fair among owners and sessions), then Upstream::call (upstream.rs)
//!        |- mcp.rs            rmcp has the life of a connection; transport.rs sends what it says; a Ticket takes the answer as bytes;
//!        |                      stdio.rs does both for a program, which Programs (programs.rs) starts elsewhere
//!        `- openapi.rs        description.rs -> operation.rs, schema.rs: tools;   request.rs, reply.rs: a call
//! both -> Http (crate upstream)   one request, sent once
//! ```
//!
//! Servers are hostile. Of what they say, everything has a bound: the bytes of a response and of a list, the values of a JSON text
//! (crate `upstream`), the requests that they make, the time of all of it. Nothing that may have been sent is sent again: a [`CallError`] says
//! whether the outcome of a call is unknown. A server that hangs keeps its own calls waiting, and nothing else.

mod call;
mod listing;
mod mcp;
mod openapi;
mod person;
mod programs;
mod servers;
mod state;
mod task;
#[cfg(test)]
mod tests;
mod turns;
mod upstream;

pub use call::{Blob, CallError, Limits, Reply};
pub use person::{Person, Question};
pub use programs::{Program, ProgramEvent, ProgramInput, Programs};
pub use servers::{Caller, MAX_CALLS, MAX_CALLS_OF_SESSION, MAX_CALLS_OF_TENANT, MAX_WAITING, ToolServers};
pub use state::{OwnedTools, ServerState, ServerStatus};
