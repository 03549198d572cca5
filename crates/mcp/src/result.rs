//! Results as tools return them.
//!
//! A model reads the text and sees the images. Programs find the whole result of the native API in `_meta`, which hosts do not show
//! to models. Hosts differ in what they do with `structuredContent`: some show it in place of text and images, some in addition to
//! them. It is therefore absent unless the call asks for it.

use himalia_engine::{ExecutionResult, ExecutionStatus};
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};

use crate::arguments::MediaBytes;
use crate::call::Call;
use crate::{images, render};

/// The member of `_meta` that has the whole result.
pub(crate) const RESULT: &str = "himalia/result";

/// A result with its images. Code that raised, or did not come to its end, is an error for the model.
pub(crate) async fn of(
    call: &Call,
    result: &ExecutionResult,
    media: MediaBytes,
    structured: bool,
) -> CallToolResponse {
    let images = images::of(call, result, media).await;
    let text = render::text(result, &images.lines, memory_limit(call, result));
    let mut content = vec![ContentBlock::text(text)];
    content.extend(images.content);
    let mut shown = if render::failed(result.status) {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    let whole = json!(result);
    if structured {
        let mut short = whole.clone();
        shorten(&mut short);
        shown.structured_content = Some(short);
    }
    for_programs(&mut shown, whole);
    shown.into()
}

/// The memory that the session may have, if it was too little for the execution.
fn memory_limit(call: &Call, result: &ExecutionResult) -> Option<u64> {
    if result.status != ExecutionStatus::OomKilled {
        return None;
    }
    let all = call.engine.session_infos(&call.principal).ok()?;
    let info = all.into_iter().find(|info| info.kernel.id == result.session)?;
    info.session.sandbox.limits.memory_bytes
}

/// A text for the model, and the same as JSON for programs.
pub(crate) fn page(body: Value, text: String, structured: bool) -> CallToolResult {
    let mut shown = CallToolResult::success(vec![ContentBlock::text(text)]);
    if structured {
        shown.structured_content = Some(body.clone());
    }
    for_programs(&mut shown, body);
    shown
}

/// Puts JSON where programs find it and models do not.
pub(crate) fn for_programs(shown: &mut CallToolResult, body: Value) {
    let mut meta = shown.meta.take().unwrap_or_default();
    meta.insert(RESULT.to_owned(), body);
    shown.meta = Some(meta);
}

/// Takes out of a result what says nothing, or repeats its `text/plain`.
fn shorten(result: &mut Value) {
    if let Some(Value::Object(usage)) = result.get_mut("usage") {
        usage.retain(|_, value| !value.is_null() && value.as_f64() != Some(0.0));
    }
    let outputs = result.get_mut("outputs").and_then(Value::as_array_mut);
    for output in outputs.into_iter().flatten().filter_map(Value::as_object_mut) {
        shorten_output(output);
    }
}

fn shorten_output(output: &mut Map<String, Value>) {
    let is_whole = !output.contains_key("truncated") && !output.contains_key("summary");
    let Some(Value::Object(data)) = output.get_mut("data") else {
        return;
    };
    let Some(Value::String(plain)) = data.get("text/plain").filter(|_| is_whole) else {
        return;
    };
    // pandas leaves out columns in the middle of a wide frame.
    let has_all_columns = !plain.lines().next().unwrap_or_default().contains("...");
    if data.get("text/html").is_some_and(Value::is_string) {
        data.remove("text/html");
    }
    if has_all_columns {
        output.remove("table");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stands_in_a_short_result_twice() {
        let mut result = json!({
            "status": "ok",
            "usage": {"cpu_ms": 7, "peak_memory_bytes": null, "tool_calls": 0, "model_spend": 0.0},
            "outputs": [
                {"data": {"text/plain": "   a\n0  1", "text/html": "<table/>"}, "table": {"shape": [1, 1]}},
                {"data": {"text/plain": "   a  ...  z\n0  1", "text/html": "<table/>"}, "table": {"shape": [1, 99]}},
                {"data": {"text/plain": "   a", "text/html": {"artifact": "sha256:aa"}}, "table": {}, "truncated": {}},
                {"data": {"text/plain": "<HTML object>", "text/html": "<p>x</p>"}, "summary": "x"},
            ],
        });
        shorten(&mut result);
        assert_eq!(result["usage"], json!({"cpu_ms": 7}));
        let outputs = &result["outputs"];
        assert_eq!(outputs[0], json!({"data": {"text/plain": "   a\n0  1"}}));
        assert_eq!(
            outputs[1]["table"]["shape"],
            json!([1, 99]),
            "columns in the middle are in no text"
        );
        assert!(outputs[1]["data"].get("text/html").is_none());
        assert!(outputs[2].get("table").is_some() && outputs[3]["data"].get("text/html").is_some());
    }

    #[test]
    fn programs_find_the_whole_in_the_metadata() {
        let shown = page(json!({"next": 3}), "abc".into(), false);
        assert_eq!(shown.structured_content, None);
        assert_eq!(shown.meta.unwrap()[RESULT], json!({"next": 3}));
        assert_eq!(
            page(json!(1), "abc".into(), true).structured_content,
            Some(json!(1))
        );
    }
}
