//! What code in a sandbox asks the gateway for, by plain HTTP at `http://himalia.internal/`. There is no token: the connection is that of
//! one session, which is the caller.
//!
//! ```text
//! GET  /v1/servers                         routes.rs -> SessionApi::tool_servers
//! GET  /v1/tools?server=&query=&limit=               -> SessionApi::search_tools
//! GET  /v1/tools/{id}                                -> SessionApi::tool_info
//! POST /v1/calls {tool, arguments, timeout_s}        -> SessionApi::call_tool
//! each: Door (door.rs), an InternalService of the session's proxy; answer.rs: JSON, and errors {code, message, hint}
//! ```
//!
//! To add something: a method of [`SessionApi`], which the crate `session` implements, and a row in `routes.rs`. A response may be a stream.

mod answer;
mod door;
mod routes;
#[cfg(test)]
mod tests;

use futures_util::future::BoxFuture;
use himalia_model::{ApiServers, CallTool, EngineError, FoundTools, ToolInfo, ToolReply};

pub use door::{Door, MAX_BODY_BYTES, MAX_REQUESTS};

/// Its name in a sandbox.
pub const NAME: &str = "himalia.internal";

/// What a session may ask for.
pub trait SessionApi: Send + Sync {
    /// The servers of tools that it may use.
    fn tool_servers(&self) -> BoxFuture<'_, Result<ApiServers, EngineError>>;

    /// Tools that fit some words, of one server or of all.
    fn search_tools(
        &self,
        server: Option<String>,
        query: String,
        limit: usize,
    ) -> BoxFuture<'_, Result<FoundTools, EngineError>>;

    /// All about a tool.
    fn tool_info(&self, id: String) -> BoxFuture<'_, Result<ToolInfo, EngineError>>;

    /// Calls a tool. When this is dropped, the call is given up, and its outcome is unknown.
    fn call_tool(&self, call: CallTool) -> BoxFuture<'_, Result<ToolReply, EngineError>>;
}
