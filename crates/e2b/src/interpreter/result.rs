//! Outputs as the members of a result: each MIME type has a word, others are in `extra`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use himalia_engine::{ArtifactReference, Engine, EngineError, ExecutionId, Principal};
use serde_json::{Map, Value};

use crate::limits::VALUE_BYTES;

/// MIME types with the words for them.
const WORDS: [(&str, &str); 12] = [
    ("text/plain", "text"),
    ("text/html", "html"),
    ("text/markdown", "markdown"),
    ("image/svg+xml", "svg"),
    ("image/png", "png"),
    ("image/jpeg", "jpeg"),
    ("application/pdf", "pdf"),
    ("text/latex", "latex"),
    ("application/json", "json"),
    ("application/javascript", "javascript"),
    ("e2b/data", "data"),
    ("e2b/chart", "chart"),
];

/// The members for a bundle. What the gateway keeps beside the result is read.
pub(super) async fn members(
    engine: &Engine,
    principal: &Principal,
    id: ExecutionId,
    bundle: &Map<String, Value>,
) -> Result<Map<String, Value>, EngineError> {
    let (mut members, mut extra) = (Map::new(), Map::new());
    for (kind, value) in bundle {
        let value = match ArtifactReference::read(kind, value) {
            Some(reference) => content(engine, principal, id, reference).await?,
            None => value.clone(),
        };
        match word(kind) {
            Some("text") => {
                members.insert("text".to_owned(), unquoted(value));
            }
            Some(word) => {
                members.insert(word.to_owned(), value);
            }
            None => {
                extra.insert(kind.clone(), value);
            }
        }
    }
    if !extra.is_empty() {
        members.insert("extra".to_owned(), extra.into());
    }
    Ok(members)
}

fn word(kind: &str) -> Option<&'static str> {
    let known = WORDS.iter().find(|(name, _)| *name == kind);
    known.map(|(_, word)| *word)
}

/// A text without one pair of quotes around it: the value of a string is shown as the string.
fn unquoted(value: Value) -> Value {
    let Value::String(text) = value else {
        return value;
    };
    let inner = ['\'', '"'].iter().find_map(|quote| {
        let inner = text.strip_prefix(*quote)?.strip_suffix(*quote)?;
        Some(inner.to_owned())
    });
    inner.unwrap_or(text).into()
}

/// A value that is kept beside the result: JSON, text, or base64 of what is neither.
async fn content(
    engine: &Engine,
    principal: &Principal,
    id: ExecutionId,
    reference: ArtifactReference<'_>,
) -> Result<Value, EngineError> {
    let artifact = engine.execution_artifact(principal, id, reference.sha256).await?;
    let bytes = artifact.read(0, VALUE_BYTES).await?;
    Ok(decoded(reference.kind, &bytes))
}

fn decoded(kind: &str, bytes: &[u8]) -> Value {
    let is_json = kind.ends_with("json") || matches!(word(kind), Some("data" | "chart"));
    if is_json && let Ok(value) = serde_json::from_slice(bytes) {
        return value;
    }
    let major = kind.split('/').next().unwrap_or_default();
    let is_binary = matches!(major, "image" | "audio" | "video") && kind != "image/svg+xml";
    match std::str::from_utf8(bytes) {
        Ok(text) if !is_binary && kind != "application/pdf" => text.into(),
        _ => BASE64_STANDARD.encode(bytes).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_string_loses_one_pair_of_quotes() {
        for (text, shown) in [
            ("'a'", "a"),
            ("\"it's\"", "it's"),
            ("'a\"", "'a\""),
            ("''", ""),
            ("'", "'"),
            ("2", "2"),
            ("''a''", "'a'"),
        ] {
            assert_eq!(unquoted(json!(text)), json!(shown), "{text}");
        }
    }

    #[test]
    fn kept_values_are_told_from_json_and_decoded_by_type() {
        let kept = json!({"artifact": "sha256:ab", "bytes": 3});
        let reference = ArtifactReference::read("text/html", &kept);
        assert_eq!(reference.map(|reference| reference.sha256), Some("ab"));
        for other in [
            json!("x"),
            json!({"artifact": "x", "bytes": 1}),
            json!({"artifact": "sha256:ab"}),
        ] {
            assert_eq!(ArtifactReference::read("text/html", &other), None);
        }
        assert_eq!(decoded("application/json", b"[1]"), json!([1]));
        assert_eq!(decoded("application/vnd.vega.v5+json", b"{}"), json!({}));
        assert_eq!(decoded("e2b/data", b"{\"a\":[1]}"), json!({"a": [1]}));
        assert_eq!(decoded("text/html", b"<p>"), json!("<p>"));
        assert_eq!(decoded("image/png", b"abc"), json!("YWJj"));
        assert_eq!(decoded("image/svg+xml", b"<svg/>"), json!("<svg/>"));
        assert_eq!(decoded("text/html", b"\xff"), json!("/w=="));
    }
}
