//! Parts that the tools of skills and of workflows share: lists of published versions, and results of runs.

use std::fmt::Write as _;

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

use super::{TEXT_CHARS, cut};
use crate::result::for_programs;

/// Characters of a description in a list.
const DESCRIPTION_CHARS: usize = 200;

/// A version that is published.
pub(super) struct Version {
    pub(super) name: String,
    /// Name and version, and the rest of the line's beginning.
    pub(super) head: String,
    pub(super) description: String,
    pub(super) body: Value,
}

/// The latest version of each, as text and as JSON. They come by name, the latest version of each first. `none` is the text without any.
pub(super) fn listed(all: impl Iterator<Item = Version>, none: &str) -> (String, Vec<Value>) {
    let (mut text, mut body) = (String::new(), Vec::new());
    let mut last = None;
    let mut left_out = 0;
    for version in all {
        if last.as_ref() == Some(&version.name) {
            continue;
        }
        last = Some(version.name);
        if text.len() > TEXT_CHARS {
            left_out += 1;
            continue;
        }
        let description = cut(&version.description, DESCRIPTION_CHARS).replace('\n', " ");
        let _ = writeln!(text, "{}: {description}", version.head);
        body.push(version.body);
    }
    if left_out > 0 {
        let _ = writeln!(text, "[{left_out} more]");
    }
    if text.is_empty() {
        text.push_str(none);
    }
    (text, body)
}

/// Outputs that are short enough for a result.
pub(super) fn small(outputs: Option<&Value>) -> Option<&Value> {
    outputs.filter(|outputs| outputs.to_string().len() <= TEXT_CHARS)
}

/// A run for the model.
pub(super) fn told(text: String, failed: bool, shown: Value) -> CallToolResult {
    let content = vec![ContentBlock::text(text)];
    let mut told = if failed {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    for_programs(&mut told, shown);
    told
}
