//! HTTP API of the gateway for code in a sandbox, at `http://himalia.internal/`. There is no token: the connection is that of one session, which is
//! the caller.
//!
//! ```text
//! GET  /v1/servers                         routes.rs -> SessionApi::tool_servers
//! GET  /v1/servers/{server}/tools?after=             -> SessionApi::tools_of_server
//! GET  /v1/tools?server=&query=&limit=               -> SessionApi::search_tools
//! GET  /v1/tools/{id}                                -> SessionApi::tool_info
//! POST /v1/calls {tool, arguments, timeout_s, ...}   -> SessionApi::call_tool
//! POST /v1/prompts {text, options, timeout_s, key}   -> SessionApi::ask
//! GET  /v1/prompts/{id}?wait_s=                      -> SessionApi::prompt
//! GET  /v1/skills                                    -> SessionApi::skills
//! GET  /v1/skills/{name}?version=                    -> SessionApi::skill
//! POST /v1/skills/{name}/runs {inputs, version, ...} -> SessionApi::run_skill
//! GET  /v1/runs/{id}?wait_s=                         -> SessionApi::skill_run
//! DELETE /v1/runs/{id}                               -> SessionApi::stop_skill_run
//! below /llm: `OpenAI`'s API (llm.rs)                  -> SessionApi::models, SessionApi::ask_model
//! each: Door (door.rs), an InternalService of the session's proxy; answer.rs: JSON, and errors {code, message, hint}
//! ```
//!
//! To add something: a method of [`SessionApi`], which the crate `session` implements, and a row in `routes.rs`. A response may be a stream.

mod answer;
mod door;
mod llm;
mod routes;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use himalia_egress::Body;
use himalia_model::{
    ApiServers, CallTool, EngineError, FoundTools, LlmEndpoint, LlmError, ServerToolsPage, ToolInfo,
    ToolReply,
};
use http::Response;
use serde::Deserialize;
use serde_json::{Map, Value};

pub use door::{Door, MAX_BODY_BYTES, MAX_REQUESTS};

/// Host name of the API in a sandbox.
pub const NAME: &str = "himalia.internal";

/// Question to a person.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskPerson {
    pub text: String,
    /// The possible answers. Without any, the answer is a text.
    #[serde(default)]
    pub options: Vec<String>,
    /// Seconds that it may stay open.
    pub timeout_s: Option<f64>,
    /// A repeated request with the same key returns the same prompt.
    pub key: Option<String>,
}

/// A skill that is to be run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunOfSkill {
    /// Version of the skill. `None`: the latest one that the session may run.
    pub version: Option<String>,
    /// The arguments of `main`.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// Seconds that it may take, if that is less than the skill says.
    pub timeout_s: Option<f64>,
    /// The same key is the same run.
    pub key: Option<String>,
    /// Seconds that the answer waits for its end.
    pub wait_s: Option<f64>,
}

#[derive(Clone, Debug)]
pub struct AskModel {
    pub endpoint: LlmEndpoint,
    /// The request, as `OpenAI`'s API has it.
    pub body: Bytes,
    /// True if the answer may be cached. `None`: if the temperature is 0.
    pub cache: Option<bool>,
    /// The line of the cell from which code asks, if code says it.
    pub line: Option<u32>,
}

/// Commands of a session for its code.
pub trait SessionApi: Send + Sync {
    /// The servers of tools that it may use.
    fn tool_servers(&self) -> BoxFuture<'_, Result<ApiServers, EngineError>>;

    /// The tools of a server with their schemas, by name: those after a name, as many as a page has.
    fn tools_of_server(
        &self,
        server: String,
        after: String,
    ) -> BoxFuture<'_, Result<ServerToolsPage, EngineError>>;

    /// Tools that fit some words, of one server or of all.
    fn search_tools(
        &self,
        server: Option<String>,
        query: String,
        limit: usize,
    ) -> BoxFuture<'_, Result<FoundTools, EngineError>>;

    /// Details of a tool.
    fn tool_info(&self, id: String) -> BoxFuture<'_, Result<ToolInfo, EngineError>>;

    /// Asks a person. The prompt, as `GET /v1/prompts/{id}` of the gateway has it.
    fn ask(&self, wanted: AskPerson) -> BoxFuture<'_, Result<Value, EngineError>>;

    /// A prompt of the session, when it has ended or after this time.
    fn prompt(&self, id: String, wait: Duration) -> BoxFuture<'_, Result<Value, EngineError>>;

    /// The skills that it may run or read.
    fn skills(&self) -> BoxFuture<'_, Result<Value, EngineError>>;

    fn skill(&self, name: String, version: Option<String>) -> BoxFuture<'_, Result<Value, EngineError>>;

    /// Begins a run of a skill, or finds the one with the same key. The run, when it has ended or after this time.
    fn run_skill(
        &self,
        name: String,
        wanted: RunOfSkill,
        wait: Duration,
    ) -> BoxFuture<'_, Result<Value, EngineError>>;

    /// A run that the session has begun, when it has ended or after this time.
    fn skill_run(&self, id: String, wait: Duration) -> BoxFuture<'_, Result<Value, EngineError>>;

    /// Interrupts such a run.
    fn stop_skill_run(&self, id: String) -> BoxFuture<'_, Result<Value, EngineError>>;

    /// The names of the models that it may use; the first one is for requests that name none.
    fn models(&self) -> BoxFuture<'_, Result<Vec<String>, LlmError>>;

    /// Asks a model. The response is that of its server. When this is dropped, or the body of the response, the call is given up.
    fn ask_model(&self, asked: AskModel) -> BoxFuture<'_, Result<Response<Body>, LlmError>>;

    /// Calls a tool. When this is dropped, the call is given up, and its outcome is unknown.
    fn call_tool(&self, call: CallTool) -> BoxFuture<'_, Result<ToolReply, EngineError>>;
}
