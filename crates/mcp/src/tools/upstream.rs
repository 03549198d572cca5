//! The tools of upstream servers: find one in three steps, and call it.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use himalia_engine::{CallTool, ToolFile, exceeds, image_of};
use rmcp::model::{ContentBlock, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::cut;
use super::entry::{Effects, ToolEntry, tool};
use crate::call::{Answer, Call, answer};
use crate::{arguments, limits, sessions};

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
    let mut text = match &reply.content {
        Value::String(text) => text.clone(),
        Value::Null if !reply.files.is_empty() => String::new(),
        other => other.to_string(),
    };
    let images = images(&reply.files, &mut text);
    let shown = json!({
        "call": reply.call, "content": reply.content, "files": reply.files, "duration_ms": reply.duration_ms
    });
    let mut shown = answer(shown, text);
    shown.content.extend(images);
    Ok(shown.into())
}

/// The images that a model is shown, within the bounds of those of executions. Each file has a line in the text.
fn images(files: &[ToolFile], text: &mut String) -> Vec<ContentBlock> {
    let (mut shown, mut left) = (Vec::new(), limits::IMAGE_BYTES);
    for file in files {
        let content = BASE64_STANDARD.decode(&file.data).unwrap_or_default();
        let bytes = content.len() as u64;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        match image_of(&content) {
            Some((kind, size))
                if bytes <= left && shown.len() < limits::IMAGES && !exceeds(size, limits::IMAGE_PIXELS) =>
            {
                left = left.saturating_sub(bytes);
                shown.push(ContentBlock::image(file.data.clone(), kind));
                let _ = writeln!(text, "[image {}: {kind}, {bytes} bytes]", shown.len());
            }
            _ => {
                let kind = cut(&file.mime_type, 100).escape_debug().to_string();
                let _ = writeln!(
                    text,
                    "[not shown: {kind}, {bytes} bytes; code that calls the tool gets it]"
                );
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One black pixel.
    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=";

    #[test]
    fn images_of_a_tool_are_shown_and_other_files_named() {
        let file = |mime_type: &str, data: &str| ToolFile {
            mime_type: mime_type.to_owned(),
            data: data.to_owned(),
        };
        let mut text = "done".to_owned();
        let files = [
            file("image/png", PNG),
            file("audio/wav", "UklGRg=="),
            file("image/png", "AAAA"),
        ];
        let images = images(&files, &mut text);
        assert_eq!(images, [ContentBlock::image(PNG, "image/png")]);
        assert_eq!(
            text,
            "done\n[image 1: image/png, 68 bytes]\n[not shown: audio/wav, 4 bytes; code that calls the tool gets it]\n\
             [not shown: image/png, 3 bytes; code that calls the tool gets it]\n"
        );
        let many: Vec<_> = (0..20).map(|_| file("image/png", PNG)).collect();
        assert_eq!(super::images(&many, &mut String::new()).len(), limits::IMAGES);
    }
}
