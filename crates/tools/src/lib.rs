//! Tools of upstream servers, as a session finds and calls them. Pure: nothing in here waits, or knows how a server is reached.
//!
//! ```text
//! a server     ServerTools (server.rs): its tools, checked and bounded, with an index of their words (index.rs, words.rs)
//! a session    Catalog (catalog.rs): the servers and tools that it may use: list, find, look up; near misses (nearest.rs)
//! a call       Tool::check (schema.rs): arguments against the schema, before anything is sent
//! a model      listing.rs: all of it as text, within a budget of characters; example.rs: arguments that fit a schema
//! ```

mod catalog;
mod example;
mod index;
mod listing;
mod nearest;
mod schema;
mod server;
mod tool;
mod words;

pub use catalog::{Catalog, CatalogMatch, UnknownName};
pub use listing::{describe, list_found, list_servers};
pub use schema::{Part, Schema, Steps, Violation};
pub use server::{BadTools, MAX_SCHEMA_BYTES, MAX_TOOLS, RejectedTool, ServerTools};
pub use tool::{Effect, Tool, ToolDefinition, ToolId};
