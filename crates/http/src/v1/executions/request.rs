//! What `POST /v1/sessions/{id}/executions` asks for.

use std::time::Duration;

use axum::http::{HeaderMap, header};
use himalia_engine::{
    Execute, MAX_CODE_BYTES, MAX_FAILURES, MAX_KEY_BYTES, MAX_TEXT_CHARS, MAX_TIMEOUT_MS, OnTimeout,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::stream::Framing;
use crate::error::ApiError;
use crate::v1::input::{Text, Whole};

/// How long a caller that says nothing waits for its answer. The execution goes on then.
const WAIT: Duration = Duration::from_mins(5);

/// An execution, and whether it is waited for.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) execute: Execute,
    pub(super) background: bool,
    /// Absent: the first one.
    pub(super) kernel: Option<String>,
}

/// How the answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One result.
    Json,
    Events(Framing),
}

impl Form {
    /// By `Accept`: the first of the known types in it.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let accepted = headers.get_all(header::ACCEPT).iter();
        let accepted = accepted.filter_map(|value| value.to_str().ok());
        let mut types = accepted.flat_map(|list| list.split(','));
        let known = types.find_map(|kind| match kind.split(';').next().unwrap_or_default().trim() {
            "text/event-stream" => Some(Self::Events(Framing::Sse)),
            "application/x-ndjson" => Some(Self::Events(Framing::Ndjson)),
            "application/json" => Some(Self::Json),
            _ => None,
        });
        known.unwrap_or(Self::Json)
    }
}

/// Code that is to be run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewExecution {
    code: Text<0, MAX_CODE_BYTES>,
    /// A kernel of the session; the first one unless said.
    kernel: Option<String>,
    /// Its language by name: the kernel's own, or `bash` where the kernel is one of Himalia's. The kernel's unless said.
    language: Option<String>,
    /// Time that the code may run. Without one it may take for ever, and a caller that waits for one JSON answer gets it after
    /// five minutes at the latest.
    timeout_ms: Option<Whole<1, MAX_TIMEOUT_MS>>,
    /// Only with `timeout_ms`; `interrupt` unless said.
    on_timeout: Option<OnTimeout>,
    /// Answer at once; false unless said.
    background: Option<bool>,
    budget: Option<Budget>,
    /// Whether the code may ask for input; false unless said.
    allow_stdin: Option<bool>,
    /// Whether the kernel counts it and remembers it; true unless said.
    store_history: Option<bool>,
    /// The kernel process that it is meant for; in another one it does not run.
    expect_incarnation: Option<Whole<0, { u32::MAX as u64 }>>,
    /// It is refused when so many executions of the session in a row have failed, whatever their code.
    max_failures: Option<Whole<1, { MAX_FAILURES as u64 }>>,
    /// The same request again is the same execution.
    idempotency_key: Option<Text<1, MAX_KEY_BYTES>>,
}

/// How large a result may be.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Budget {
    /// Characters of text; 8,000 unless said.
    text_chars: Option<Whole<0, { MAX_TEXT_CHARS as u64 }>>,
}

impl NewExecution {
    /// For the engine. `header` is the idempotency key of the header.
    pub(super) fn read(self, header: Option<String>, form: Form) -> Result<Wish, ApiError> {
        let plain = Execute::default();
        let background = self.background.unwrap_or(false);
        let waits = !background && form == Form::Json;
        let timeout = self.timeout_ms.map(|Whole(ms)| Duration::from_millis(ms));
        let (timeout, on_timeout) = match (timeout, self.on_timeout) {
            (None, Some(_)) => return Err(ApiError::bad_field("on_timeout", "needs timeout_ms")),
            (None, None) if waits => (Some(WAIT), OnTimeout::Detach),
            (timeout, on_timeout) => (timeout, on_timeout.unwrap_or_default()),
        };
        let chars = self.budget.and_then(|budget| budget.text_chars);
        let execute = Execute {
            code: self.code.0,
            language: self.language,
            timeout,
            on_timeout,
            text_chars: chars.map_or(plain.text_chars, |Whole(chars)| {
                usize::try_from(chars).unwrap_or(usize::MAX)
            }),
            allow_stdin: self.allow_stdin.unwrap_or(plain.allow_stdin),
            store_history: self.store_history.unwrap_or(plain.store_history),
            expect_incarnation: self
                .expect_incarnation
                .and_then(|Whole(number)| u32::try_from(number).ok()),
            max_failures: self.max_failures.and_then(|Whole(most)| u32::try_from(most).ok()),
            key: key(self.idempotency_key.map(|Text(key)| key), header)?,
        };
        Ok(Wish {
            execute,
            background,
            kernel: self.kernel,
        })
    }
}

/// The idempotency key: of the body, or of the header.
fn key(told: Option<String>, header: Option<String>) -> Result<Option<String>, ApiError> {
    match (told, header) {
        (Some(told), Some(header)) if told != header => Err(ApiError::bad_field(
            "idempotency_key",
            "is not that of the header",
        )),
        (told, header) => Ok(told.or(header)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::input::members;
    use axum::http::HeaderValue;

    fn wish(body: &str, headers: &[(&'static str, &'static str)]) -> Result<Wish, ApiError> {
        let named = |wanted| {
            headers
                .iter()
                .find(|(name, _)| *name == wanted)
                .map(|(_, value)| *value)
        };
        let accept = named("accept").map(|value| (header::ACCEPT, HeaderValue::from_static(value)));
        let form = Form::of(&accept.into_iter().collect());
        members::<NewExecution>(body.as_bytes())?.read(named("idempotency-key").map(str::to_owned), form)
    }

    #[test]
    fn who_says_nothing_is_answered_in_time_and_interrupts_nothing() {
        let one = wish(r#"{"code": "x"}"#, &[]).unwrap();
        assert_eq!(
            (one.execute.timeout, one.execute.on_timeout),
            (Some(WAIT), OnTimeout::Detach)
        );
        for (body, headers) in [
            (r#"{"code": "x", "background": true}"#, &[][..]),
            (r#"{"code": "x"}"#, &[("accept", "text/event-stream")]),
        ] {
            assert_eq!(wish(body, headers).unwrap().execute.timeout, None);
        }
        let one = wish(
            r#"{"code": "x", "timeout_ms": 7, "budget": {"text_chars": 9}}"#,
            &[],
        )
        .unwrap();
        assert_eq!(
            (one.execute.on_timeout, one.execute.text_chars),
            (OnTimeout::Interrupt, 9)
        );
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (body, wanted) in [
            ("{}", "code: is missing"),
            (r#"{"code": "x", "tiemout_ms": 1}"#, "tiemout_ms: unknown field"),
            (
                r#"{"code": "x", "budget": {"images": 1}}"#,
                "budget.images: unknown field",
            ),
            (
                r#"{"code": "x", "on_timeout": "detach"}"#,
                "on_timeout: needs timeout_ms",
            ),
            (
                r#"{"code": "x", "idempotency_key": "a"}"#,
                "idempotency_key: is not that of the header",
            ),
            (
                r#"{"code": "x", "max_failures": 0}"#,
                "max_failures: must be 1 to 100",
            ),
            (
                r#"{"code": "x", "expect_incarnation": 4294967296}"#,
                "expect_incarnation: must be 0 to 4294967295",
            ),
        ] {
            assert_eq!(
                wish(body, &[("idempotency-key", "b")]).unwrap_err().message,
                wanted
            );
        }
        assert_eq!(
            wish(r#"{"code": "x"}"#, &[("idempotency-key", "b")])
                .unwrap()
                .execute
                .key
                .as_deref(),
            Some("b")
        );
    }

    #[test]
    fn the_first_known_type_is_taken() {
        let form = |accept: &'static str| {
            Form::of(
                &[(header::ACCEPT, HeaderValue::from_static(accept))]
                    .into_iter()
                    .collect(),
            )
        };
        assert_eq!(form("*/*"), Form::Json);
        assert_eq!(
            form("text/html, text/event-stream;q=0.9"),
            Form::Events(Framing::Sse)
        );
        assert_eq!(
            form("application/x-ndjson, application/json"),
            Form::Events(Framing::Ndjson)
        );
    }
}
