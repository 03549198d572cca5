//! `complete_request` and `inspect_request`
//! ([messaging](https://jupyter-client.readthedocs.io/en/stable/messaging.html)). Positions count Unicode characters.

use himalia_model::EngineError;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::refusal::Refusal;

/// The types of the requests.
pub const COMPLETE: &str = "complete_request";
/// The request that asks about a name in code.
pub const INSPECT: &str = "inspect_request";
/// Bytes of code around a cursor.
pub const MAX_CURSOR_CODE_BYTES: usize = 1 << 20;

/// Completions of a piece of code.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Completion {
    /// Texts for the part between `cursor_start` and `cursor_end`.
    pub matches: Vec<String>,
    /// Characters before the replaced text.
    pub cursor_start: u64,
    /// Characters before the end of the replaced text.
    pub cursor_end: u64,
    /// Metadata of the matches, as the kernel sends it.
    pub metadata: Map<String, Value>,
}

/// Description of the object at a cursor.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Inspection {
    /// True if there is an object.
    pub found: bool,
    /// Texts by MIME type.
    pub data: Map<String, Value>,
    /// More about them, in the kernel's words.
    pub metadata: Map<String, Value>,
}

/// The content of a request. The cursor is at the end of the code unless it is said where.
pub fn code_of(code: &str, cursor: Option<u64>, detail: Option<u8>) -> Result<Value, EngineError> {
    if code.len() > MAX_CURSOR_CODE_BYTES {
        let reason = format!("is longer than {MAX_CURSOR_CODE_BYTES} bytes");
        return Err(EngineError::bad_request("code", reason));
    }
    let chars = code.chars().count() as u64;
    let cursor = cursor.unwrap_or(chars);
    if cursor > chars {
        let reason = format!("is behind the end of the code, which has {chars} characters");
        return Err(EngineError::bad_request("cursor_pos", reason));
    }
    let mut content = json!({ "code": code, "cursor_pos": cursor });
    if let Some(detail) = detail {
        content["detail_level"] = detail.into();
    }
    Ok(content)
}

pub fn completion(reply: Result<Map<String, Value>, Refusal>) -> Result<Completion, EngineError> {
    let mut content = reply.map_err(|refusal| failed(&refusal))?;
    let position = |name: &str| content.get(name).and_then(Value::as_u64).unwrap_or_default();
    let (cursor_start, cursor_end) = (position("cursor_start"), position("cursor_end"));
    let matches = match content.remove("matches") {
        Some(Value::Array(matches)) => matches,
        _ => Vec::new(),
    };
    let text = |value| match value {
        Value::String(text) => Some(text),
        _ => None,
    };
    Ok(Completion {
        matches: matches.into_iter().filter_map(text).collect(),
        cursor_start,
        cursor_end,
        metadata: object(&mut content, "metadata"),
    })
}

pub fn inspection(reply: Result<Map<String, Value>, Refusal>) -> Result<Inspection, EngineError> {
    let mut content = reply.map_err(|refusal| failed(&refusal))?;
    Ok(Inspection {
        found: content.get("found") == Some(&Value::Bool(true)),
        data: object(&mut content, "data"),
        metadata: object(&mut content, "metadata"),
    })
}

fn object(content: &mut Map<String, Value>, name: &str) -> Map<String, Value> {
    match content.remove(name) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

fn failed(refusal: &Refusal) -> EngineError {
    EngineError::Unsupported {
        reason: format!("the kernel refused: {}: {}", refusal.name, refusal.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_counts_characters_and_is_within_the_code() {
        assert_eq!(
            code_of("año", None, None).unwrap(),
            json!({"code": "año", "cursor_pos": 3})
        );
        assert_eq!(code_of("año", Some(1), Some(1)).unwrap()["detail_level"], 1);
        let error = code_of("año", Some(4), None).unwrap_err().to_string();
        assert!(error.starts_with("cursor_pos: "), "{error}");
        assert!(code_of(&"x".repeat(MAX_CURSOR_CODE_BYTES + 1), None, None).is_err());
    }

    #[test]
    fn hostile_replies_are_harmless() {
        let content =
            json!({"matches": [1, "a", null], "cursor_start": -1, "cursor_end": "x", "metadata": 3});
        let done = completion(Ok(content.as_object().unwrap().clone())).unwrap();
        assert_eq!((done.matches, done.cursor_start), (vec!["a".to_owned()], 0));
        assert!(!inspection(Ok(Map::new())).unwrap().found);
    }
}
