//! `/v1/sessions/{id}/tools`: the tools of upstream servers that a session may use.

use axum::extract::{Path, State};
use himalia_engine::{ApiServers, CallTool, FoundTools, ToolInfo, ToolReply};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::answers::NoStoreJson;
use super::input::{Members, Parameters, Whole};
use super::kernels::kernel_id;
use super::sessions::of_session;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// Tools of an answer, if the request does not say how many.
const FOUND: usize = 10;

/// A search for tools.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchToolsQuery {
    /// A server; default: all.
    server: Option<String>,
    /// Words of names, descriptions and parameters; default: the first tools.
    query: Option<String>,
    /// Tools of the answer; default 10.
    limit: Option<Whole<1, 100>>,
}

/// A call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewCall {
    /// `server.tool`.
    tool: String,
    /// The arguments of the tool.
    #[serde(default)]
    arguments: Map<String, Value>,
    /// Seconds that it may take, if that is less than its server permits.
    timeout_s: Option<f64>,
    /// The prompt by which a person has approved it, if one has to.
    approval: Option<String>,
    /// Names the prompt that asks for its approval: the same key is the same prompt.
    approval_key: Option<String>,
}

/// `GET /v1/sessions/{id}/tools/servers`.
pub(crate) async fn servers(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<NoStoreJson<ApiServers>, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, None)?;
    let servers = app.engine().tool_servers(&principal, kernel).await;
    Ok(NoStoreJson(servers.map_err(|error| of_session(error, &id))?))
}

/// `GET /v1/sessions/{id}/tools`.
pub(crate) async fn search(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(wanted): Parameters<SearchToolsQuery>,
) -> Result<NoStoreJson<FoundTools>, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, None)?;
    let limit = wanted
        .limit
        .map_or(FOUND, |Whole(limit)| usize::try_from(limit).unwrap_or(FOUND));
    let server = wanted.server.as_deref().filter(|name| !name.is_empty());
    let query = wanted.query.unwrap_or_default();
    let found = app
        .engine()
        .search_tools(&principal, kernel, server, &query, limit)
        .await;
    Ok(NoStoreJson(found.map_err(|error| of_session(error, &id))?))
}

/// `GET /v1/sessions/{id}/tools/{tool}`.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, tool)): Path<(String, String)>,
) -> Result<NoStoreJson<ToolInfo>, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, None)?;
    let info = app.engine().tool_info(&principal, kernel, &tool).await;
    Ok(NoStoreJson(info.map_err(|error| of_session(error, &id))?))
}

/// `POST /v1/sessions/{id}/tools/calls`.
pub(crate) async fn call(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Members(call): Members<NewCall>,
) -> Result<NoStoreJson<ToolReply>, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, None)?;
    let call = CallTool {
        tool: call.tool,
        arguments: call.arguments,
        timeout_s: call.timeout_s,
        approval: call.approval,
        approval_key: call.approval_key,
        line: None,
    };
    let reply = app.engine().call_tool(&principal, kernel, call).await;
    Ok(NoStoreJson(reply.map_err(|error| of_session(error, &id))?))
}
