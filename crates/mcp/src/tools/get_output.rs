//! `get_output`: the result of an execution, or a part of its text.

use std::time::Duration;

use himalia_engine::ExecutionId;
use rmcp::model::Tool;
use serde::Deserialize;
use serde_json::json;

use super::entry::{Effects, ToolEntry, tool};
use crate::arguments::MediaBytes;
use crate::call::{Answer, Call};
use crate::failure::Failure;
use crate::follow::{self, Patience};
use crate::{arguments, limits, result};

pub(super) const TOOL: ToolEntry = ToolEntry {
    name: "get_output",
    describe,
    run: |call| Box::pin(run(call)),
};

fn describe(name: &'static str) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "execution_id": {"type": "string"},
            "wait_s": {"type": "number", "description": "default 0"},
            "cursor": {"type": "integer", "description": "first byte"},
            "limit": {"type": "integer", "description": "bytes (default 8192)"},
            "image_bytes": {"type": "integer"},
            "structured": {"type": "boolean"}
        },
        "required": ["execution_id"]
    });
    let description = "The result of an execution now; with cursor or limit, that part of its text.";
    tool(name, "Read a result", description, schema, &Effects::READS)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    execution_id: String,
    wait_s: Option<f64>,
    cursor: Option<u64>,
    limit: Option<u64>,
    image_bytes: Option<u64>,
    /// Not in the description, which is short.
    audio_bytes: Option<u64>,
    structured: Option<bool>,
}

async fn run(mut call: Call) -> Answer {
    let wanted: Arguments = arguments::read(call.take_arguments())?;
    let id: ExecutionId = wanted.execution_id.parse()?;
    let media = MediaBytes::read(wanted.image_bytes, wanted.audio_bytes)?;
    let wait = arguments::wait(wanted.wait_s, Duration::ZERO)?;
    let structured = wanted.structured.unwrap_or(false);
    let mut found = call.engine.execution(&call.principal, id).await?;
    call.subject.is_execution(id);
    // A prompt that is there already needs no wait.
    if !wait.is_zero() && !found.status.is_over() && found.input.is_none() {
        found = follow::wait(&call, id, Some(found.seq), Patience::exact(wait)).await?;
    }
    if wanted.cursor.is_none() && wanted.limit.is_none() {
        return Ok(result::of(&call, &found, media, structured).await);
    }
    let limit = wanted.limit.unwrap_or(limits::PAGE_BYTES);
    page(&call, id, wanted.cursor.unwrap_or(0), limit, structured).await
}

async fn page(call: &Call, id: ExecutionId, offset: u64, limit: u64, structured: bool) -> Answer {
    if limit == 0 || limit > limits::PAGE_BYTES_MOST {
        let reason = format!("expected 1 to {}", limits::PAGE_BYTES_MOST);
        return Err(Failure::argument("limit", reason));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let page = call
        .engine
        .execution_output(&call.principal, id, offset, limit)
        .await?;
    let state = match (page.next < page.bytes_total, page.complete) {
        (true, _) => format!("continue at cursor {}", page.next),
        (false, true) => "the end".to_owned(),
        (false, false) => "all so far; it still runs".to_owned(),
    };
    let text = format!(
        "{}\n[bytes {} to {} of {}: {state}]",
        page.text, page.offset, page.next, page.bytes_total
    );
    let mut body = json!(page);
    if page.complete && page.next >= page.bytes_total {
        body["next"] = serde_json::Value::Null;
    }
    Ok(result::page(body, text, structured).into())
}
