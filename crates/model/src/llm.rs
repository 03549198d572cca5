//! Language models that code in sessions calls: as the operator configures them, what a session may use, and why a call has no reply.

mod error;
mod limits;
mod spend;

use std::time::Duration;

use serde::Deserialize;

pub use self::error::{LlmCap, LlmError, LlmErrorCode};
pub use self::limits::{LlmLimitFields, LlmLimits, LlmPolicy};
pub use self::spend::{ModelUse, Prices, Spend};
use crate::credential::check_credential_name;
use crate::principal::{MAX_PRINCIPAL_CHARS, OPERATOR};
use crate::tool_server::HttpUrl;

/// Models of a template.
pub const MAX_LLMS_OF_TEMPLATE: usize = 64;
/// Most characters of the name of a model, here and at its server.
const MAX_NAME: usize = 64;
const MAX_UPSTREAM_NAME: usize = 256;
/// Default and upper bound of the duration of a call.
const CALL_TIME: Duration = Duration::from_mins(10);
const MAX_CALL_TIME: Duration = Duration::from_hours(1);
/// Tokens of one answer, at most.
const MAX_OUTPUT_TOKENS: u64 = 10_000_000;

/// The member of a request that says how many tokens an answer may have. Servers know one of them or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimitName {
    /// The name that `OpenAI` uses.
    #[default]
    MaxCompletionTokens,
    /// The former name, which other servers use.
    MaxTokens,
}

impl OutputLimitName {
    /// The member.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxCompletionTokens => "max_completion_tokens",
            Self::MaxTokens => "max_tokens",
        }
    }
}

/// A model behind an API like that of `OpenAI`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlmConfig {
    /// Name in sessions: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`.
    pub name: String,
    /// The base of the API, such as `https://api.example.org/v1`.
    pub url: HttpUrl,
    /// Name at the server.
    pub model: String,
    /// The name of the credential that is added to its requests.
    pub credential: Option<String>,
    /// Tenant whose sessions may use the model, or `operator` for all.
    pub owner: String,
    /// Prices; `None`: unknown.
    pub prices: Option<Prices>,
    /// Most tokens of an answer.
    pub max_output_tokens: Option<u64>,
    /// Name of the request's member that bounds the output.
    pub output_limit: OutputLimitName,
    /// Longest wait for an answer, the whole of a stream included.
    pub call_time: Duration,
}

/// The members of a model, as they are written in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LlmFields {
    /// The base of the API.
    pub url: Option<String>,
    /// Name at the server. Default: the name in sessions.
    pub model: Option<String>,
    /// The name of a credential.
    pub credential: Option<String>,
    /// The tenant whose sessions may use it. Default: all may.
    pub tenant: Option<String>,
    /// Price of a million input tokens.
    pub input_price: Option<f64>,
    /// Price of a million output tokens.
    pub output_price: Option<f64>,
    /// Most tokens of an answer.
    pub max_output_tokens: Option<u64>,
    /// Name of the request's member that bounds the output. Default: `max_completion_tokens`.
    pub output_limit: Option<OutputLimitName>,
    /// Seconds that a call may take. Default: 600.
    pub call_time: Option<u64>,
}

impl LlmConfig {
    /// Checks the members of a model.
    ///
    /// # Errors
    /// What is wrong, beginning with the name of the member.
    pub fn new(name: &str, fields: LlmFields) -> Result<Self, String> {
        check_name(name).map_err(|reason| format!("name: {reason}"))?;
        let url = fields
            .url
            .ok_or("url: is needed: the base of an API like that of OpenAI")?;
        let url = HttpUrl::parse(&url).map_err(|reason| format!("url: {reason}"))?;
        if url.as_str().contains('?') {
            return Err(format!("url: {:?} has a query (?)", url.as_str()));
        }
        let model = fields.model.unwrap_or_else(|| name.to_owned());
        if model.is_empty() || model.len() > MAX_UPSTREAM_NAME {
            return Err(format!("model: has not 1 to {MAX_UPSTREAM_NAME} bytes"));
        }
        if let Some(credential) = &fields.credential {
            check_credential_name(credential).map_err(|reason| format!("credential: {reason}"))?;
        }
        let owner = fields.tenant.unwrap_or_else(|| OPERATOR.to_owned());
        if owner.is_empty() || owner.chars().count() > MAX_PRINCIPAL_CHARS {
            return Err(format!("tenant: has not 1 to {MAX_PRINCIPAL_CHARS} characters"));
        }
        let prices = match (fields.input_price, fields.output_price) {
            (None, None) => None,
            (Some(input), Some(output)) => Some(Prices::of_a_million(input, output)?),
            (Some(_), None) => return Err("output_price: is needed with input_price".to_owned()),
            (None, Some(_)) => return Err("input_price: is needed with output_price".to_owned()),
        };
        if fields
            .max_output_tokens
            .is_some_and(|most| !(1..=MAX_OUTPUT_TOKENS).contains(&most))
        {
            return Err(format!("max_output_tokens: is not 1 to {MAX_OUTPUT_TOKENS}"));
        }
        let call_time = fields.call_time.map_or(CALL_TIME, Duration::from_secs);
        if call_time.is_zero() || call_time > MAX_CALL_TIME {
            return Err(format!(
                "call_time: is not 1 to {} seconds",
                MAX_CALL_TIME.as_secs()
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            url,
            model,
            credential: fields.credential,
            owner,
            prices,
            max_output_tokens: fields.max_output_tokens,
            output_limit: fields.output_limit.unwrap_or_default(),
            call_time,
        })
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins && name.len() <= MAX_NAME && name.bytes().all(plain) {
        return Ok(());
    }
    Err(format!(
        "{:?} has not 1 to {MAX_NAME} of A-Z a-z 0-9 . _ -, with a letter or a digit first",
        name.chars().take(MAX_NAME).collect::<String>()
    ))
}

/// API operation of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlmEndpoint {
    /// An answer to messages.
    Chat,
    /// Vectors of texts.
    Embeddings,
}

impl LlmEndpoint {
    /// Path below the base URL of the API.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "chat/completions",
            Self::Embeddings => "embeddings",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn model(name: &str, fields: Value) -> Result<LlmConfig, String> {
        LlmConfig::new(name, serde_json::from_value(fields).unwrap())
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let made = model("small-1.5", json!({"url": "https://api.example.org/v1"})).unwrap();
        assert_eq!(
            (made.model.as_str(), made.owner.as_str()),
            ("small-1.5", OPERATOR)
        );
        assert_eq!(
            (made.call_time.as_secs(), made.max_output_tokens, made.prices),
            (600, None, None)
        );
        assert_eq!(made.output_limit.as_str(), "max_completion_tokens");
    }

    #[test]
    fn an_error_names_its_member() {
        let url = "https://a.test/v1";
        for (member, fields) in [
            ("url", json!({})),
            ("url", json!({"url": "ftp://a.test"})),
            ("url", json!({"url": "https://a.test/?x=1"})),
            ("model", json!({"url": url, "model": ""})),
            ("credential", json!({"url": url, "credential": "A B"})),
            ("tenant", json!({"url": url, "tenant": ""})),
            ("output_price", json!({"url": url, "input_price": 1})),
            ("input_price", json!({"url": url, "output_price": 1})),
            (
                "input_price",
                json!({"url": url, "input_price": -1, "output_price": 1}),
            ),
            (
                "output_price",
                json!({"url": url, "input_price": 1, "output_price": 1e7}),
            ),
            ("max_output_tokens", json!({"url": url, "max_output_tokens": 0})),
            ("call_time", json!({"url": url, "call_time": 0})),
            ("call_time", json!({"url": url, "call_time": 3601})),
        ] {
            let error = model("a", fields).unwrap_err();
            assert!(error.starts_with(&format!("{member}: ")), "{member}: {error}");
        }
        for name in ["", "-a", "a/b", "a b", &"a".repeat(MAX_NAME + 1)] {
            let error = model(name, json!({"url": url})).unwrap_err();
            assert!(error.starts_with("name: "), "{error}");
        }
    }

    #[test]
    fn tokens_cost_what_a_million_of_them_does() {
        let fields = json!({"url": "https://a.test/v1", "input_price": 0.25, "output_price": 2});
        let prices = model("a", fields).unwrap().prices.unwrap();
        assert_eq!(prices.spend(1_000_000, 0), Spend::of_nanos(250_000_000));
        assert_eq!(prices.spend(4, 1), Spend::of_nanos(3000));
        let text = serde_json::to_string(&prices.spend(4, 1)).unwrap();
        assert_eq!(text, "3e-6");
        assert_eq!(serde_json::from_str::<Spend>(&text).unwrap(), prices.spend(4, 1));
        assert_eq!(prices.spend(u64::MAX, u64::MAX), Spend::of_nanos(u64::MAX));
    }
}
