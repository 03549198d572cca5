//! The members of a request that are sent on. One that is unknown could cost more than the prices of the model say, or name another model.

use himalia_model::{LlmEndpoint, LlmError};
use serde_json::{Map, Value};

/// Members of a request for an answer to messages: those of `OpenAI`, and those of other servers that choose how tokens are sampled.
const CHAT: &[&str] = &[
    "add_generation_prompt",
    "bad_words",
    "chat_template_kwargs",
    "continue_final_message",
    "enable_thinking",
    "frequency_penalty",
    "function_call",
    "functions",
    "grammar",
    "guided_choice",
    "guided_decoding_backend",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "ignore_eos",
    "include_reasoning",
    "include_stop_str_in_output",
    "length_penalty",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "min_p",
    "min_tokens",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "modalities",
    "model",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "random_seed",
    "reasoning_effort",
    "repeat_penalty",
    "repetition_penalty",
    "response_format",
    "safe_prompt",
    "safety_identifier",
    "seed",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "stop",
    "stop_token_ids",
    "store",
    "stream",
    "stream_options",
    "structured_outputs",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_logprobs",
    "top_p",
    "typical_p",
    "user",
    "verbosity",
];

/// Members of a request for vectors.
const EMBEDDINGS: &[&str] = &[
    "dimensions",
    "encoding_format",
    "input",
    "input_type",
    "model",
    "stream",
    "task",
    "truncate",
    "truncate_prompt_tokens",
    "user",
];

/// Refuses a member that is not sent on. One that is null is none.
///
/// # Errors
/// Names the member.
pub(crate) fn check(endpoint: LlmEndpoint, body: &Map<String, Value>) -> Result<(), LlmError> {
    let known = match endpoint {
        LlmEndpoint::Chat => CHAT,
        LlmEndpoint::Embeddings => EMBEDDINGS,
    };
    let unknown = body
        .iter()
        .find(|(name, value)| !value.is_null() && !known.contains(&name.as_str()));
    if let Some((name, _)) = unknown {
        let shown: String = name.chars().take(64).collect();
        let reason = "is not sent on: what it costs is not known; leave it out";
        return Err(LlmError::member(&shown, reason));
    }
    let has_audio = body.get("modalities").and_then(Value::as_array);
    if has_audio.is_some_and(|kinds| kinds.iter().any(|kind| kind != "text")) {
        return Err(LlmError::member(
            "modalities",
            "is not [\"text\"]: answers are texts",
        ));
    }
    let is_own = |tool: &Value| {
        let kind = tool.get("type").and_then(Value::as_str);
        kind.is_none_or(|kind| kind == "function" || kind == "custom")
    };
    let tools = body.get("tools").and_then(Value::as_array);
    if tools.is_some_and(|tools| !tools.iter().all(is_own)) {
        return Err(LlmError::member(
            "tools",
            "has one whose type is neither \"function\" nor \"custom\": the server would run it, and what it costs is not known; leave it out",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(endpoint: LlmEndpoint, body: &Value) -> Option<String> {
        let refused = check(endpoint, body.as_object().unwrap()).err()?;
        refused.param
    }

    #[test]
    fn members_that_could_cost_more_are_refused() {
        for name in [
            "service_tier",
            "web_search_options",
            "audio",
            "models",
            "best_of",
            "plugins",
        ] {
            let body = json!({"messages": [], name: {}});
            assert_eq!(refused(LlmEndpoint::Chat, &body).as_deref(), Some(name));
            assert_eq!(refused(LlmEndpoint::Chat, &json!({name: null})), None);
        }
        assert_eq!(
            refused(LlmEndpoint::Embeddings, &json!({"messages": []})).as_deref(),
            Some("messages")
        );
        assert_eq!(
            refused(LlmEndpoint::Chat, &json!({"modalities": ["text", "audio"]})).as_deref(),
            Some("modalities")
        );
        for kind in ["web_search", "builtin_function", "Function"] {
            let tools = json!({"messages": [], "tools": [{"type": "function"}, {"type": kind}]});
            assert_eq!(refused(LlmEndpoint::Chat, &tools).as_deref(), Some("tools"));
        }
        let usual = json!({"messages": [], "model": "m", "temperature": 0, "tools": [{"type": "function"}], "top_k": 5, "user": "u", "modalities": ["text"]});
        assert_eq!(refused(LlmEndpoint::Chat, &usual), None);
        assert_eq!(
            refused(LlmEndpoint::Embeddings, &json!({"input": "x", "dimensions": 3})),
            None
        );
    }
}
