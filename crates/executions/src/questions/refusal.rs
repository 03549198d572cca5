//! The content of a reply, or the error that it is.

use himalia_model::EngineError;
use serde_json::{Map, Value};

/// Characters of a kernel's error text that are shown.
const TEXT_CHARS: usize = 500;

/// Reply of a kernel that does not answer.
#[derive(Debug)]
pub struct Refusal {
    /// The name of the exception.
    pub name: String,
    /// Text of the reply.
    pub text: String,
}

/// The members of a reply; a `status` other than `ok` is a refusal.
pub fn content_of(bytes: &[u8]) -> Result<Result<Map<String, Value>, Refusal>, EngineError> {
    let Ok(mut content) = serde_json::from_slice::<Map<String, Value>>(bytes) else {
        return Err(EngineError::Unsupported {
            reason: "the kernel's reply cannot be read".into(),
        });
    };
    if content.remove("status").as_ref().and_then(Value::as_str) == Some("ok") {
        return Ok(Ok(content));
    }
    let text = |name: &str| {
        let text = content.get(name).and_then(Value::as_str).unwrap_or_default();
        text.chars().take(TEXT_CHARS).collect::<String>()
    };
    Ok(Err(Refusal {
        name: text("ename"),
        text: text("evalue"),
    }))
}
