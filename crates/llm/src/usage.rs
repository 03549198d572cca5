//! Numbers of tokens, as servers say them.

use serde_json::Value;

/// Tokens of an answer; what a server says of more is not believed.
const MAX_TOKENS: u64 = 1_000_000_000;

/// Usage of a call as its server reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

/// The `usage` of an answer, or of an event of a stream.
pub(crate) fn of(answer: &Value) -> Option<Usage> {
    let usage = answer.get("usage")?.as_object()?;
    let tokens = |name: &str| usage.get(name).and_then(Value::as_u64);
    let input = tokens("prompt_tokens")?;
    Some(Usage {
        input_tokens: input.min(MAX_TOKENS),
        // Embeddings have none.
        output_tokens: tokens("completion_tokens").unwrap_or(0).min(MAX_TOKENS),
    })
}
