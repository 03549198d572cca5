//! Translates errors of serde: names the invalid member, and never its value, which may be a secret.

use serde_json::Value;
use serde_path_to_error::{Error, Path, Segment};

use crate::body::kind;
use crate::error::ApiError;

/// The error of a body that was `value`.
pub(super) fn of_body(value: &Value, error: &Error<serde_json::Error>) -> ApiError {
    let text = error.inner().to_string();
    let field = name(error.path());
    let kind = at(value, error.path()).map(kind);
    explained(field, &text, kind)
}

/// The error with this text at this place. `kind`: what stands there, in JSON's words.
pub(super) fn explained(mut field: String, text: &str, kind: Option<&str>) -> ApiError {
    if let Some(missing) = between(text, "missing field `") {
        if field == "body" {
            missing.clone_into(&mut field);
        } else {
            field = format!("{field}.{missing}");
        }
        return ApiError::bad_field(field, "is missing");
    }
    if text.starts_with("unknown field") {
        return ApiError::bad_field(field, "unknown field");
    }
    if text.starts_with("unknown variant") || text.starts_with("invalid ") {
        let wanted = text.rsplit_once(", expected ").map_or("", |(_, wanted)| wanted);
        let wanted = wanted.replace('`', "");
        let wanted = match wanted.as_str() {
            "u64" | "u32" | "usize" | "u8" => "a whole number, not negative",
            wanted if wanted.starts_with("struct ") || wanted == "a map" => "an object",
            wanted => wanted,
        };
        let says_more = |kind: &&str| {
            text.starts_with("invalid type") && !(*kind == "a number" && wanted.contains("number"))
        };
        let got = kind.filter(says_more);
        let got = got.map_or_else(String::new, |kind| format!(", got {kind}"));
        return ApiError::bad_field(field, format!("expected {wanted}{got}"));
    }
    ApiError::bad_field(field, text)
}

fn between<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    text.strip_prefix(before)?.split('`').next()
}

/// `a.b`; `body` for the whole.
fn name(path: &Path) -> String {
    let parts: Vec<String> = path
        .iter()
        .map(|segment| {
            segment
                .to_string()
                .chars()
                .take(100)
                .flat_map(char::escape_debug)
                .collect()
        })
        .collect();
    if parts.is_empty() {
        "body".to_owned()
    } else {
        parts.join(".")
    }
}

fn at<'a>(value: &'a Value, path: &Path) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, segment| match segment {
        Segment::Map { key } => value.get(key),
        Segment::Seq { index } => value.get(index),
        _ => None,
    })
}
