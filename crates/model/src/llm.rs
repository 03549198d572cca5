//! Language models that code in sessions calls: as the operator configures them, what a session may use, and why a call has no reply.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::credential::check_credential_name;
use crate::principal::{MAX_PRINCIPAL_CHARS, OPERATOR};
use crate::tool_server::HttpUrl;

/// Models of a template.
pub const MAX_LLMS_OF_TEMPLATE: usize = 64;
/// Most characters of the name of a model, here and at its server.
const MAX_NAME: usize = 64;
const MAX_UPSTREAM_NAME: usize = 256;
/// How long a call may take by default, and at most.
const CALL_TIME: Duration = Duration::from_mins(10);
const MAX_CALL_TIME: Duration = Duration::from_hours(1);
/// Tokens of one answer, at most.
const MAX_OUTPUT_TOKENS: u64 = 10_000_000;
/// Caps of a tree, unless the template says otherwise, and the most that it may say.
const CALLS: u64 = 1000;
const MAX_CALLS: u64 = 1_000_000_000;
const TOKENS: u64 = 10_000_000;
const MAX_TOKENS: u64 = 1_000_000_000_000;
const PARALLEL: u32 = 16;
const MAX_PARALLEL: u32 = 64;
/// The highest price of a million tokens, and the highest spend.
const MAX_PRICE: f64 = 1e6;
const MAX_SPEND: f64 = 1e9;
const NANOS: f64 = 1e9;

/// An amount in the operator's currency unit. As JSON it is a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spend(u64);

impl Spend {
    /// So many thousand-millionths of the unit.
    pub fn of_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// In thousand-millionths of the unit.
    pub fn nanos(self) -> u64 {
        self.0
    }

    /// From units; `None`: it is no amount from 0 to 1,000,000,000.
    pub fn of_units(units: f64) -> Option<Self> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked"
        )]
        (0.0..=MAX_SPEND)
            .contains(&units)
            .then(|| Self((units * NANOS).round() as u64))
    }

    /// In units.
    #[expect(clippy::cast_precision_loss, reason = "an amount is shown, not counted with")]
    pub fn units(self) -> f64 {
        self.0 as f64 / NANOS
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left when the other one is taken away.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Spend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.units())
    }
}

impl Serialize for Spend {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.units())
    }
}

impl<'de> Deserialize<'de> for Spend {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let units = f64::deserialize(deserializer)?;
        Self::of_units(units).ok_or_else(|| serde::de::Error::custom("is no amount from 0 to 1,000,000,000"))
    }
}

impl JsonSchema for Spend {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        f64::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        f64::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

/// What a call of a model took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelUse {
    /// Tokens that the model has read.
    pub input_tokens: u64,
    /// Tokens that it has written.
    pub output_tokens: u64,
    /// What that costs.
    pub spend: Spend,
    /// The answer was in the cache.
    #[serde(skip_serializing_if = "is_false")]
    pub cached: bool,
    /// The server did not say the numbers of tokens: they are estimates.
    #[serde(skip_serializing_if = "is_false")]
    pub estimated: bool,
}

impl ModelUse {
    /// Adds what another call took.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.spend = self.spend.plus(other.spend);
    }

    /// Tokens that it has read and written.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Prices of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// Of one token that it reads, in thousand-millionths of the currency unit.
    input: u64,
    /// Of one that it writes.
    output: u64,
}

impl Prices {
    /// What so many tokens cost.
    pub fn spend(self, input_tokens: u64, output_tokens: u64) -> Spend {
        let input = self.input.saturating_mul(input_tokens);
        Spend(input.saturating_add(self.output.saturating_mul(output_tokens)))
    }
}

/// The member of a request that says how many tokens an answer may have. Servers know one of them or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimitName {
    /// That of `OpenAI`.
    #[default]
    MaxCompletionTokens,
    /// Its former name, which other servers have.
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
    /// Its name in sessions: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`.
    pub name: String,
    /// The base of the API, such as `https://api.example.org/v1`.
    pub url: HttpUrl,
    /// Its name at the server.
    pub model: String,
    /// The name of the credential that is added to its requests.
    pub credential: Option<String>,
    /// Whose sessions may use it: a tenant, or `operator` for all.
    pub owner: String,
    /// What it costs. `None`: that is not known.
    pub prices: Option<Prices>,
    /// Most tokens of an answer.
    pub max_output_tokens: Option<u64>,
    /// How its server calls that bound.
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
    /// Its name at the server. Default: its own.
    pub model: Option<String>,
    /// The name of a credential.
    pub credential: Option<String>,
    /// The tenant whose sessions may use it. Default: all may.
    pub tenant: Option<String>,
    /// What a million tokens cost that it reads.
    pub input_price: Option<f64>,
    /// What a million tokens cost that it writes.
    pub output_price: Option<f64>,
    /// Most tokens of an answer.
    pub max_output_tokens: Option<u64>,
    /// How its server calls that bound. Default: `max_completion_tokens`.
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
            (Some(input), Some(output)) => Some(Prices {
                input: price("input_price", input)?,
                output: price("output_price", output)?,
            }),
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

/// The price of one token, in thousand-millionths of the unit.
fn price(member: &str, of_a_million: f64) -> Result<u64, String> {
    if !(0.0..=MAX_PRICE).contains(&of_a_million) {
        return Err(format!("{member}: is not 0 to {MAX_PRICE}"));
    }
    // A millionth of the unit is a thousand of these.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    Ok((of_a_million * 1000.0).round() as u64)
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

/// What the calls of models of one execution may take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LlmLimits {
    /// Calls.
    pub calls: u64,
    /// Tokens, those that are read and those that are written.
    pub tokens: u64,
    /// What they cost; `None`: anything.
    pub spend: Option<Spend>,
    /// Calls at once. The next ones wait.
    pub parallel: u32,
}

impl Default for LlmLimits {
    fn default() -> Self {
        Self {
            calls: CALLS,
            tokens: TOKENS,
            spend: None,
            parallel: PARALLEL,
        }
    }
}

/// [`LlmLimits`] as they are written in the configuration; `None`: the default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LlmLimitFields {
    /// `model_calls`.
    pub calls: Option<u64>,
    /// `model_tokens`.
    pub tokens: Option<u64>,
    /// `model_spend`.
    pub spend: Option<f64>,
    /// `model_parallel`.
    pub parallel: Option<u32>,
}

impl LlmLimits {
    /// Checks what is written.
    ///
    /// # Errors
    /// What is wrong, beginning with the name of the member.
    pub fn new(fields: LlmLimitFields) -> Result<Self, String> {
        let usual = Self::default();
        let spend = fields
            .spend
            .map(|units| {
                Spend::of_units(units).ok_or_else(|| format!("model_spend: is not 0 to {MAX_SPEND}"))
            })
            .transpose()?;
        let made = Self {
            calls: fields.calls.unwrap_or(usual.calls),
            tokens: fields.tokens.unwrap_or(usual.tokens),
            spend,
            parallel: fields.parallel.unwrap_or(usual.parallel),
        };
        if !(1..=MAX_CALLS).contains(&made.calls) {
            return Err(format!("model_calls: is not 1 to {MAX_CALLS}"));
        }
        if !(1..=MAX_TOKENS).contains(&made.tokens) {
            return Err(format!("model_tokens: is not 1 to {MAX_TOKENS}"));
        }
        if !(1..=MAX_PARALLEL).contains(&made.parallel) {
            return Err(format!("model_parallel: is not 1 to {MAX_PARALLEL}"));
        }
        Ok(made)
    }
}

/// What a session may do with models.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LlmPolicy {
    /// The models that it may use. The first one is for requests that name none.
    pub models: Vec<String>,
    /// How much of them.
    pub limits: LlmLimits,
}

impl LlmPolicy {
    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// What both permit.
    #[must_use]
    pub fn within(mut self, other: &Self) -> Self {
        self.models.retain(|name| other.models.contains(name));
        let (own, others) = (self.limits, other.limits);
        self.limits = LlmLimits {
            calls: own.calls.min(others.calls),
            tokens: own.tokens.min(others.tokens),
            spend: match (own.spend, others.spend) {
                (Some(own), Some(other)) => Some(own.min(other)),
                (own, other) => own.or(other),
            },
            parallel: own.parallel.min(others.parallel),
        };
        self
    }
}

/// What is asked of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlmEndpoint {
    /// An answer to messages.
    Chat,
    /// Vectors of texts.
    Embeddings,
}

impl LlmEndpoint {
    /// Its path below the base of the API.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "chat/completions",
            Self::Embeddings => "embeddings",
        }
    }
}

/// Why a call of a model has no reply, in a stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlmErrorCode {
    /// The request cannot be used. Nothing was sent.
    BadRequest,
    /// The request is too long. Nothing was sent.
    RequestTooLarge,
    /// There is nothing at this path.
    NotFound,
    /// The session has no model of this name. Nothing was sent.
    UnknownModel,
    /// A cap would be exceeded. Nothing was sent.
    Limit,
    /// The server, or the gateway, cannot do it now. Nothing was sent.
    Unavailable,
    /// The server does not do it, or says what is no reply.
    Failed,
    /// The reply is longer than it may be.
    ReplyTooLarge,
    /// No reply in time. The call may have been done.
    Timeout,
    /// The connection ended before the reply. The call may have been done.
    OutcomeUnknown,
}

impl LlmErrorCode {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::RequestTooLarge => "request_too_large",
            Self::NotFound => "not_found",
            // As OpenAI says it.
            Self::UnknownModel => "model_not_found",
            Self::Limit => "model_limit",
            Self::Unavailable => "model_unavailable",
            Self::Failed => "model_failed",
            Self::ReplyTooLarge => "reply_too_large",
            Self::Timeout => "model_timeout",
            Self::OutcomeUnknown => "outcome_unknown",
        }
    }

    /// The status of an HTTP response with it.
    pub fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::RequestTooLarge => 413,
            Self::NotFound | Self::UnknownModel => 404,
            Self::Limit => 429,
            Self::Unavailable => 503,
            Self::Failed | Self::ReplyTooLarge => 502,
            Self::Timeout | Self::OutcomeUnknown => 504,
        }
    }

    /// `OpenAI`'s word for errors of this kind.
    fn kind(self) -> &'static str {
        match self {
            Self::BadRequest | Self::RequestTooLarge | Self::NotFound | Self::UnknownModel => {
                "invalid_request_error"
            }
            Self::Limit => "model_limit",
            Self::Unavailable | Self::Failed | Self::ReplyTooLarge | Self::Timeout | Self::OutcomeUnknown => {
                "api_error"
            }
        }
    }
}

/// A cap that a call would exceed.
#[derive(Clone, Debug, PartialEq)]
pub struct LlmCap {
    /// The key of the template: `model_tokens`.
    pub name: &'static str,
    /// How much of it is used; calls in progress count with what they may take.
    pub used: f64,
    /// How much there is.
    pub allowed: f64,
}

/// Why a call of a model has no reply.
#[derive(Clone, Debug, PartialEq)]
pub struct LlmError {
    /// In a word.
    pub code: LlmErrorCode,
    /// One line.
    pub message: String,
    /// The member of the request that it is about.
    pub param: Option<String>,
    /// What to do, if there is something.
    pub hint: Option<String>,
    /// Of [`LlmErrorCode::Limit`].
    pub cap: Option<LlmCap>,
}

impl LlmError {
    /// One without anything beside.
    pub fn new(code: LlmErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            param: None,
            hint: None,
            cap: None,
        }
    }

    /// A member of the request that cannot be used.
    pub fn member(name: &str, reason: impl fmt::Display) -> Self {
        let mut made = Self::new(LlmErrorCode::BadRequest, format!("{name}: {reason}"));
        made.param = Some(name.to_owned());
        made
    }

    /// The same with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether a client that sends the request again may have another answer.
    pub fn is_worth_repeating(&self) -> bool {
        !matches!(
            self.code,
            LlmErrorCode::Limit | LlmErrorCode::ReplyTooLarge | LlmErrorCode::Failed
        )
    }

    /// The body of a response, as `OpenAI`'s: `{"error": {message, type, param, code}}`, with `hint`, `used` and `allowed`.
    pub fn to_json(&self) -> Value {
        let mut error = json!({
            "message": self.message,
            "type": self.code.kind(),
            "param": self.param,
            "code": self.code.as_str(),
        });
        if let Some(hint) = &self.hint {
            error["hint"] = hint.clone().into();
        }
        if let Some(cap) = &self.cap {
            error["param"] = cap.name.into();
            error["used"] = cap.used.into();
            error["allowed"] = cap.allowed.into();
        }
        json!({"error": error})
    }
}

#[cfg(test)]
mod tests {
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
        let limits = LlmLimits::new(LlmLimitFields::default()).unwrap();
        assert_eq!(limits, LlmLimits::default());
        assert_eq!(
            (limits.calls, limits.tokens, limits.parallel),
            (1000, 10_000_000, 16)
        );
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
        for (member, fields) in [
            (
                "model_calls",
                LlmLimitFields {
                    calls: Some(0),
                    ..LlmLimitFields::default()
                },
            ),
            (
                "model_tokens",
                LlmLimitFields {
                    tokens: Some(0),
                    ..LlmLimitFields::default()
                },
            ),
            (
                "model_spend",
                LlmLimitFields {
                    spend: Some(-1.0),
                    ..LlmLimitFields::default()
                },
            ),
            (
                "model_spend",
                LlmLimitFields {
                    spend: Some(f64::NAN),
                    ..LlmLimitFields::default()
                },
            ),
            (
                "model_parallel",
                LlmLimitFields {
                    parallel: Some(65),
                    ..LlmLimitFields::default()
                },
            ),
        ] {
            let error = LlmLimits::new(fields).unwrap_err();
            assert!(error.starts_with(&format!("{member}: ")), "{member}: {error}");
        }
    }

    #[test]
    fn what_two_policies_permit_is_what_both_do() {
        let policy = |models: &[&str], tokens, spend: Option<u64>| LlmPolicy {
            models: models.iter().map(|name| (*name).to_owned()).collect(),
            limits: LlmLimits {
                tokens,
                spend: spend.map(Spend::of_nanos),
                ..LlmLimits::default()
            },
        };
        let both = policy(&["a", "b"], 10, None).within(&policy(&["b", "c"], 20, Some(5)));
        assert_eq!(both, policy(&["b"], 10, Some(5)));
        let both = policy(&["b"], 10, Some(3)).within(&both);
        assert_eq!(both, policy(&["b"], 10, Some(3)));
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

    #[test]
    fn an_error_has_the_form_of_openai() {
        let mut error = LlmError::new(LlmErrorCode::Limit, "too many").with_hint("stop");
        error.cap = Some(LlmCap {
            name: "model_calls",
            used: 3.0,
            allowed: 3.0,
        });
        let expected = json!({"error": {"message": "too many", "type": "model_limit", "param": "model_calls",
            "code": "model_limit", "hint": "stop", "used": 3.0, "allowed": 3.0}});
        assert_eq!(error.to_json(), expected);
        let error = LlmError::member("n", "is no number").to_json();
        assert_eq!(
            (&error["error"]["param"], &error["error"]["type"]),
            (&json!("n"), &json!("invalid_request_error"))
        );
    }
}
