//! The MCP facade: a few tools over one [`Engine`](himalia_engine::Engine), for agents.
//!
//! [`service`] is a tower service that answers `POST` with the Streamable HTTP transport
//! ([2026-07-28](https://modelcontextprotocol.io/specification/2026-07-28)); the code that mounts it authenticates before it and
//! puts the [`Principal`](himalia_engine::Principal) into the request's extensions. Clients of the revisions before, which
//! begin with `initialize`, are served by the same code.
//!
//! * `tools` has one file for each tool: its description, its schema and what it does.
//! * `follow` waits for executions and tells progress; `render` shows results to models; `images` decides what they see.
//!
//! Invariants: there are no transport sessions and no state between calls; everything is named by its handle in the
//! arguments. A client that goes away, or cancels a call, stops nothing. Models read the text of an execution; programs find the
//! very result of the native API in `_meta`.

mod arguments;
mod asking;
mod call;
mod failure;
mod file_uri;
mod follow;
mod images;
mod input;
mod limits;
mod progress;
mod prompts;
mod render;
mod resources;
mod result;
mod server;
mod sessions;
mod state;
mod tools;

pub use asking::Service;
pub use server::{Server, service};
