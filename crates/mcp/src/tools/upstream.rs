//! The tools of upstream servers: find one in three steps, and call it.

use himalia_engine::CallTool;
use rmcp::model::Tool;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::entry::{Effects, ToolEntry, tool};
use crate::call::{Answer, Call, answer};
use crate::{arguments, sessions};

pub(super) const TOOLS: &[ToolEntry] = &[
    ToolEntry {
        name: "list_api_servers",
        describe: |name| {
            let schema = json!({"session": {"type": "string"}});
            let description = "Servers whose tools the session may call. Code in it calls them too: import himalia; \
                await himalia.call(\"server.tool\", **arguments).";
            looks(name, "API servers", description, &schema, &["session"])
        },
        run: |call| Box::pin(list(call)),
    },
    ToolEntry {
        name: "tools_search",
        describe: |name| {
            let schema = json!({
                "session": {"type": "string"},
                "query": {"type": "string"},
                "server": {"type": "string"},
                "limit": {"type": "integer", "description": "default 10"}
            });
            let description = "Finds tools of these servers by words.";
            looks(name, "Search tools", description, &schema, &["session", "query"])
        },
        run: |call| Box::pin(search(call)),
    },
    ToolEntry {
        name: "get_tool_info",
        describe: |name| {
            let schema = json!({"session": {"type": "string"}, "tool": {"type": "string"}});
            let description = "A tool\'s schema, example and effects.";
            looks(name, "Tool info", description, &schema, &["session", "tool"])
        },
        run: |call| Box::pin(info(call)),
    },
    ToolEntry {
        name: "call_tool",
        describe: |name| {
            let schema = json!({
                "type": "object",
                "properties": {
                    "session": {"type": "string"},
                    "tool": {"type": "string", "description": "server.tool"},
                    "arguments": {"type": "object"},
                    "approval": {"type": "string", "description": "the approved prompt"}
                },
                "required": ["session", "tool"]
            });
            let description = "Calls one. For many calls or large replies, execute code that calls it.";
            tool(name, "Call a tool", description, schema, &Effects::ANY)
        },
        run: |call| Box::pin(call_tool(call)),
    },
];

fn looks(
    name: &'static str,
    title: &str,
    description: &'static str,
    properties: &Value,
    required: &[&str],
) -> Tool {
    let schema = json!({
        "type": "object", "properties": properties, "required": required
    });
    tool(name, title, description, schema, &Effects::READS)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfSession {
    session: String,
}

async fn list(mut call: Call) -> Answer {
    let wanted: OfSession = arguments::read(call.take_arguments())?;
    let kernel = sessions::kernel(&call, &wanted.session, None)?;
    let found = call.engine.tool_servers(&call.principal, kernel).await?;
    Ok(answer(json!({ "servers": found.servers }), found.text).into())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    session: String,
    query: String,
    server: Option<String>,
    limit: Option<usize>,
}

async fn search(mut call: Call) -> Answer {
    let wanted: SearchArguments = arguments::read(call.take_arguments())?;
    let kernel = sessions::kernel(&call, &wanted.session, None)?;
    let limit = wanted.limit.unwrap_or(10).clamp(1, 100);
    let (server, query) = (wanted.server.as_deref(), &wanted.query);
    let found = call
        .engine
        .search_tools(&call.principal, kernel, server, query, limit)
        .await?;
    let ids: Vec<&str> = found.tools.iter().map(|one| one.id.as_str()).collect();
    Ok(answer(json!({ "tools": ids }), found.text).into())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfTool {
    session: String,
    tool: String,
}

async fn info(mut call: Call) -> Answer {
    let wanted: OfTool = arguments::read(call.take_arguments())?;
    let kernel = sessions::kernel(&call, &wanted.session, None)?;
    let found = call
        .engine
        .tool_info(&call.principal, kernel, &wanted.tool)
        .await?;
    let text = found.text.clone();
    let shown = json!({
        "id": found.id, "read_only": found.read_only, "callers": found.callers, "permitted": found.permitted,
        "approval": found.approval
    });
    Ok(answer(shown, text).into())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToCall {
    session: String,
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    approval: Option<String>,
}

async fn call_tool(mut call: Call) -> Answer {
    let wanted: ToCall = arguments::read(call.take_arguments())?;
    let kernel = sessions::kernel(&call, &wanted.session, None)?;
    let order = CallTool {
        tool: wanted.tool,
        arguments: wanted.arguments,
        timeout_s: None,
        approval: wanted.approval,
        approval_key: None,
        line: None,
    };
    let reply = call.engine.call_tool(&call.principal, kernel, order).await?;
    let text = match &reply.content {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let shown = json!({
        "call": reply.call, "content": reply.content, "files": reply.files, "duration_ms": reply.duration_ms
    });
    Ok(answer(shown, text).into())
}
