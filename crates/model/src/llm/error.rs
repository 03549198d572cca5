//! Errors of model calls.

use std::fmt;

use serde_json::{Value, json};

/// Reason why a model call failed, as a stable code.
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
    /// Code as callers see it.
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
    /// Amount in use; running calls are counted with their upper bound.
    pub used: f64,
    /// Upper bound.
    pub allowed: f64,
}

/// Reason why a model call failed.
#[derive(Clone, Debug, PartialEq)]
pub struct LlmError {
    /// In a word.
    pub code: LlmErrorCode,
    /// One line.
    pub message: String,
    /// The member of the request that it is about.
    pub param: Option<String>,
    /// Remedy, if there is one.
    pub hint: Option<String>,
    /// Exhausted limit; only for [`LlmErrorCode::Limit`].
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

    /// Returns true if the same request may succeed later.
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
