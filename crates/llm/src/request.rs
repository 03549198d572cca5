//! A request of a caller, and what is sent for it.

use bytes::Bytes;
use himalia_model::{LlmConfig, LlmEndpoint as Endpoint, LlmError};
use himalia_upstream::json;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::members;

/// Bytes of a text for one token, where nothing better is known.
const BYTES_OF_TOKEN: u64 = 4;
/// Tokens of an image or another file, at least, and bytes of it for one token.
const TOKENS_OF_FILE: u64 = 1000;
const FILE_BYTES_OF_TOKEN: u64 = 750;
/// Members whose texts are read.
const ASKED: &[&str] = &[
    "messages",
    "input",
    "tools",
    "functions",
    "response_format",
    "prediction",
    "chat_template_kwargs",
];
const MAX_ANSWERS: u64 = 128;

/// Upper estimate of a call's usage, before the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Tokens that are read: about as many.
    pub input_tokens: u64,
    /// Tokens that are written, at most. 0 if there is no bound.
    pub output_tokens: u64,
}

#[derive(Clone, Debug)]
pub struct Request {
    endpoint: Endpoint,
    body: Map<String, Value>,
}

/// A request as it is sent.
#[derive(Clone, Debug)]
pub struct PreparedRequest {
    pub(crate) endpoint: Endpoint,
    pub(crate) body: Bytes,
    /// The answer is to come in pieces.
    pub is_stream: bool,
    /// The caller wants the numbers of tokens in the stream.
    pub(crate) shows_usage: bool,
    pub estimate: Estimate,
    /// True if its temperature is 0: equal requests have nearly equal replies.
    pub is_fixed: bool,
    /// Identifies what is asked, of this model.
    pub key: [u8; 32],
}

impl Request {
    /// Reads one.
    ///
    /// # Errors
    /// It is no JSON object that could be a request.
    pub fn read(endpoint: Endpoint, text: &[u8]) -> Result<Self, LlmError> {
        let body = json::parse(text).map_err(|reason| LlmError::member("body", reason))?;
        let Value::Object(body) = body else {
            return Err(LlmError::member("body", "must be a JSON object"));
        };
        if let Some(model) = body.get("model")
            && !model.is_null()
            && !model.is_string()
        {
            return Err(LlmError::member("model", "must be a text"));
        }
        let needed = match endpoint {
            Endpoint::Chat => "messages",
            Endpoint::Embeddings => "input",
        };
        if !body.contains_key(needed) {
            return Err(LlmError::member(needed, "is needed"));
        }
        Ok(Self { endpoint, body })
    }

    /// The model that it names.
    pub fn model(&self) -> Option<&str> {
        let name = self.body.get("model")?.as_str()?;
        (!name.is_empty()).then_some(name)
    }

    /// Part of the request that is logged, before it is cut: without members that are the same in each request.
    pub fn shown(&self) -> Value {
        let mut shown = self.body.clone();
        shown.remove("model");
        // Names with `token` in them would be hidden as secrets.
        let limit = [shown.remove("max_completion_tokens"), shown.remove("max_tokens")];
        if let Some(limit) = limit.into_iter().flatten().find(|limit| !limit.is_null()) {
            shown.insert("output_limit".to_owned(), limit);
        }
        Value::Object(shown)
    }

    /// Prepares the request for this model.
    ///
    /// # Errors
    /// A member cannot be used.
    pub fn prepare(mut self, config: &LlmConfig) -> Result<PreparedRequest, LlmError> {
        members::check(self.endpoint, &self.body)?;
        let body = &mut self.body;
        body.insert("model".to_owned(), config.model.clone().into());
        let (mut output_tokens, mut is_stream, mut shows_usage) = (0, false, false);
        if self.endpoint == Endpoint::Chat {
            let most = output_limit(body, config)?;
            let answers = number(body, "n")?.unwrap_or(1);
            if !(1..=MAX_ANSWERS).contains(&answers) {
                return Err(LlmError::member("n", format_args!("is not 1 to {MAX_ANSWERS}")));
            }
            output_tokens = most.unwrap_or(0).saturating_mul(answers);
            is_stream = match body.get("stream") {
                None | Some(Value::Null) => false,
                Some(Value::Bool(stream)) => *stream,
                Some(_) => return Err(LlmError::member("stream", "is neither true nor false")),
            };
            if is_stream {
                shows_usage = ask_for_usage(body)?;
            }
        } else if body
            .get("stream")
            .is_some_and(|stream| *stream != Value::Bool(false))
        {
            return Err(LlmError::member("stream", "is not for embeddings"));
        }
        let read = ASKED.iter().filter_map(|name| body.get(*name));
        // A prediction is read, and what of it is not used counts as written.
        let predicted = body.get("prediction").map_or(0, tokens);
        let is_fixed = body.get("temperature").and_then(Value::as_f64) == Some(0.0);
        let estimate = Estimate {
            input_tokens: read.map(tokens).sum(),
            output_tokens: output_tokens.saturating_add(predicted),
        };
        let text = Value::Object(self.body).to_string();
        let mut hash = Sha256::new();
        for part in [config.name.as_str(), self.endpoint.path(), text.as_str()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Ok(PreparedRequest {
            endpoint: self.endpoint,
            body: text.into(),
            is_stream,
            shows_usage,
            estimate,
            is_fixed,
            key: hash.finalize().into(),
        })
    }
}

/// A number that a member has, if there is one.
fn number(body: &Map<String, Value>, name: &str) -> Result<Option<u64>, LlmError> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .map(Some)
            .ok_or_else(|| LlmError::member(name, "must be a whole number above 0")),
    }
}

/// Puts the bound of an answer into a request, under the name that the server knows. Gives it.
fn output_limit(body: &mut Map<String, Value>, config: &LlmConfig) -> Result<Option<u64>, LlmError> {
    let mut most = config.max_output_tokens;
    for name in ["max_completion_tokens", "max_tokens"] {
        if let Some(wanted) = number(body, name)? {
            if wanted == 0 {
                return Err(LlmError::member(name, "must be a whole number above 0"));
            }
            most = Some(most.map_or(wanted, |most| most.min(wanted)));
        }
        body.remove(name);
    }
    if let Some(most) = most {
        body.insert(config.output_limit.as_str().to_owned(), most.into());
    }
    Ok(most)
}

/// Asks for the numbers of tokens at the end of a stream. Whether the caller has asked for them too.
fn ask_for_usage(body: &mut Map<String, Value>) -> Result<bool, LlmError> {
    let options = body
        .entry("stream_options")
        .and_modify(|options| {
            if options.is_null() {
                *options = Value::Object(Map::new());
            }
        })
        .or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(options) = options else {
        return Err(LlmError::member("stream_options", "must be an object"));
    };
    let before = options.insert("include_usage".to_owned(), true.into());
    Ok(before == Some(Value::Bool(true)))
}

/// Estimates the tokens of the texts in a value, which is at most as deep as a reader of JSON permits.
fn tokens(value: &Value) -> u64 {
    match value {
        Value::String(text) => (text.len() as u64).div_ceil(BYTES_OF_TOKEN),
        // Tokens that were counted out before, for embeddings.
        Value::Number(_) => 1,
        Value::Array(all) => all.iter().map(tokens).sum(),
        Value::Object(members) => {
            let of_member = |(name, value): (&String, &Value)| match file(name, value) {
                Some(file) => TOKENS_OF_FILE.max((file.len() as u64).div_ceil(FILE_BYTES_OF_TOKEN)),
                None => tokens(value),
            };
            members.iter().map(of_member).sum()
        }
        Value::Null | Value::Bool(_) => 0,
    }
}

/// The text of a file, or its URL, where a member of a message has one. Elsewhere it is a text like any other.
fn file<'a>(name: &str, value: &'a Value) -> Option<&'a str> {
    let inner = |name: &str| value.get(name).and_then(Value::as_str);
    let (text, begins): (_, &[&str]) = match name {
        // Some servers take the URL of an image without the object around it.
        "image_url" => (
            value.as_str().or_else(|| inner("url")),
            &["data:", "https:", "http:"],
        ),
        "file" => (inner("file_data"), &["data:"]),
        "input_audio" => (inner("data"), &[""]),
        _ => return None,
    };
    text.filter(|text| begins.iter().any(|begin| text.starts_with(begin)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::config;

    fn read(body: &Value) -> Result<Request, LlmError> {
        Request::read(Endpoint::Chat, body.to_string().as_bytes())
    }

    fn sent(body: &Value, fields: Value) -> (Value, PreparedRequest) {
        let prepared = read(body).unwrap().prepare(&config("m", fields)).unwrap();
        (serde_json::from_slice(&prepared.body).unwrap(), prepared)
    }

    #[test]
    fn the_bound_of_an_answer_is_the_smaller_one_under_the_name_that_the_server_knows() {
        let messages = json!([{"role": "user", "content": "12345678"}]);
        let usual = json!({"url": "http://a.test/v1", "model": "there", "max_output_tokens": 50});
        let (body, prepared) = sent(
            &json!({"messages": messages, "max_tokens": 100, "n": 2}),
            usual.clone(),
        );
        let expected = json!({"messages": messages, "model": "there", "max_completion_tokens": 50, "n": 2});
        assert_eq!(body, expected);
        // "user" is one, the text two.
        assert_eq!(
            prepared.estimate,
            Estimate {
                input_tokens: 3,
                output_tokens: 100
            }
        );
        let (body, _) = sent(&json!({"messages": messages, "max_completion_tokens": 7}), usual);
        assert_eq!(body["max_completion_tokens"], 7);
        let older = json!({"url": "http://a.test/v1", "output_limit": "max_tokens"});
        let (body, _) = sent(
            &json!({"messages": messages, "max_completion_tokens": 7}),
            older.clone(),
        );
        assert_eq!(body, json!({"messages": messages, "model": "m", "max_tokens": 7}));
        let (body, prepared) = sent(&json!({"messages": messages}), older);
        assert!(body.get("max_tokens").is_none());
        assert_eq!(prepared.estimate.output_tokens, 0);
    }

    #[test]
    fn a_member_that_is_not_known_is_not_sent() {
        let body = json!({"messages": [], "service_tier": "priority"});
        let config = config("m", json!({"url": "http://a.test/v1"}));
        let refused = read(&body).unwrap().prepare(&config).err();
        let refused = refused.and_then(|error| error.param);
        assert_eq!(refused.as_deref(), Some("service_tier"));
    }

    #[test]
    fn files_and_deep_texts_count() {
        let input = |body: Value| {
            let (_, prepared) = sent(&body, json!({"url": "http://a.test/v1"}));
            prepared.estimate.input_tokens
        };
        let message = |content: Value| json!({"messages": [{"content": content}]});
        let data = format!("data:image/png;base64,{}", "A".repeat(1_500_000));
        let image = json!([{"image_url": {"url": data}}]);
        assert_eq!(input(message(image)), 2001);
        let small = json!([{"image_url": {"url": "https://a.test/x.png"}}]);
        assert_eq!(input(message(small)), 1000);
        let audio = json!([{"input_audio": {"data": "A".repeat(1_500_000)}}]);
        assert_eq!(input(message(audio)), 2000);
        // A text that only begins like a file is one.
        let as_text = (data.len() as u64).div_ceil(4);
        assert_eq!(input(message(data.clone().into())), as_text);
        assert_eq!(input(message(json!({"file": data.clone()}))), as_text);
        let deep = (0..60).fold(json!("x".repeat(400)), |inner, _| json!([inner]));
        assert_eq!(input(message(deep)), 100);
        let predicted = json!({"messages": [], "prediction": {"content": "x".repeat(400)}, "max_tokens": 7});
        let (_, prepared) = sent(&predicted, json!({"url": "http://a.test/v1"}));
        let expected = Estimate {
            input_tokens: 100,
            output_tokens: 107,
        };
        assert_eq!(prepared.estimate, expected);
    }

    #[test]
    fn a_stream_is_asked_for_its_numbers_of_tokens() {
        let fields = || json!({"url": "http://a.test/v1"});
        let (body, prepared) = sent(&json!({"messages": [], "stream": true}), fields());
        assert_eq!(body["stream_options"], json!({"include_usage": true}));
        assert!(prepared.is_stream && !prepared.shows_usage);
        let options = json!({"include_usage": true, "x": 1});
        let (body, prepared) = sent(
            &json!({"messages": [], "stream": true, "stream_options": options}),
            fields(),
        );
        assert_eq!(body["stream_options"], options);
        assert!(prepared.shows_usage);
        let (body, prepared) = sent(&json!({"messages": [], "stream": false}), fields());
        assert!(body.get("stream_options").is_none() && !prepared.is_stream);
    }

    #[test]
    fn the_same_question_to_the_same_model_has_the_same_key() {
        let key = |body: Value, name: &str| {
            let config = config(name, json!({"url": "http://a.test/v1"}));
            read(&body).unwrap().prepare(&config).unwrap().key
        };
        let one = json!({"messages": [], "temperature": 0});
        assert_eq!(
            key(one.clone(), "m"),
            key(json!({"temperature": 0, "messages": []}), "m")
        );
        assert_ne!(key(one.clone(), "m"), key(one.clone(), "n"));
        assert_ne!(
            key(one, "m"),
            key(json!({"messages": [1], "temperature": 0}), "m")
        );
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (param, body) in [
            ("body", json!([])),
            ("messages", json!({"model": "m"})),
            ("model", json!({"model": 1, "messages": []})),
        ] {
            assert_eq!(read(&body).unwrap_err().param.as_deref(), Some(param));
        }
        for (param, body) in [
            ("n", json!({"messages": [], "n": 0})),
            ("n", json!({"messages": [], "n": 1000})),
            ("max_tokens", json!({"messages": [], "max_tokens": -1})),
            (
                "max_completion_tokens",
                json!({"messages": [], "max_completion_tokens": 0}),
            ),
            ("stream", json!({"messages": [], "stream": "yes"})),
            (
                "stream_options",
                json!({"messages": [], "stream": true, "stream_options": 1}),
            ),
        ] {
            let config = config("m", json!({"url": "http://a.test/v1"}));
            let error = read(&body).unwrap().prepare(&config).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param), "{body}");
        }
    }

    #[test]
    fn a_log_has_the_question_and_not_the_name_of_a_secret() {
        let request = read(&json!({"model": "m", "messages": ["hi"], "max_tokens": 5})).unwrap();
        assert_eq!(request.shown(), json!({"messages": ["hi"], "output_limit": 5}));
        assert_eq!(request.model(), Some("m"));
    }
}
