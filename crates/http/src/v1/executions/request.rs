//! What `POST /v1/sessions/{id}/executions` asks for.

use std::time::Duration;

use axum::http::{HeaderMap, header};
use himalia_engine::{Execute, OnTimeout};

use super::stream::Framing;
use crate::body::Fields;
use crate::error::ApiError;

/// How long a caller that says nothing waits for its answer. The execution goes on then.
const WAIT: Duration = Duration::from_mins(5);

/// An execution, and whether it is waited for.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) execute: Execute,
    pub(super) background: bool,
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

/// Reads the body. Members: `code` (required), `language` (the kernel's, or `bash`), `timeout_ms`, `on_timeout` (`interrupt` or `detach`), `background` (false),
/// `budget` `{text_chars}` (8000), `allow_stdin` (false), `store_history` (true), `expect_incarnation`,
/// `idempotency_key` (or the header `Idempotency-Key`).
///
/// Without a timeout the execution may take for ever, and a caller that waits for one JSON answer gets it after five
/// minutes at the latest.
pub(super) fn read(mut fields: Fields, headers: &HeaderMap) -> Result<Wish, ApiError> {
    let plain = Execute::default();
    let code = fields
        .string("code")?
        .ok_or_else(|| ApiError::bad_field("code", "is missing"))?;
    let timeout = fields.number("timeout_ms")?.map(Duration::from_millis);
    let policies = [("interrupt", OnTimeout::Interrupt), ("detach", OnTimeout::Detach)];
    let on_timeout = fields.word("on_timeout", &policies)?;
    let background = fields.boolean("background")?.unwrap_or(false);
    let text_chars = match fields.object("budget")? {
        Some(mut budget) => {
            let chars = budget.number("text_chars")?;
            budget.finish()?;
            chars.map_or(plain.text_chars, |chars| {
                usize::try_from(chars).unwrap_or(usize::MAX)
            })
        }
        None => plain.text_chars,
    };
    let waits = !background && Form::of(headers) == Form::Json;
    let (timeout, on_timeout) = match (timeout, on_timeout) {
        (None, Some(_)) => return Err(ApiError::bad_field("on_timeout", "needs timeout_ms")),
        (None, None) if waits => (Some(WAIT), OnTimeout::Detach),
        (timeout, on_timeout) => (timeout, on_timeout.unwrap_or_default()),
    };
    let execute = Execute {
        code,
        language: fields.string("language")?,
        timeout,
        on_timeout,
        text_chars,
        allow_stdin: fields.boolean("allow_stdin")?.unwrap_or(plain.allow_stdin),
        store_history: fields.boolean("store_history")?.unwrap_or(plain.store_history),
        expect_incarnation: match fields.number("expect_incarnation")? {
            None => None,
            Some(number) => Some(
                u32::try_from(number)
                    .map_err(|_| ApiError::bad_field("expect_incarnation", "is too large"))?,
            ),
        },
        key: key(&mut fields, headers)?,
    };
    fields.finish()?;
    Ok(Wish { execute, background })
}

/// The idempotency key: of the body, or of the header.
fn key(fields: &mut Fields, headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let told = fields.string("idempotency_key")?;
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(told);
    };
    let value = value
        .to_str()
        .map_err(|_| ApiError::bad_request("Idempotency-Key: expected ASCII"))?;
    match told {
        Some(told) if told != value => Err(ApiError::bad_field(
            "idempotency_key",
            "is not that of the header",
        )),
        _ => Ok(Some(value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn wish(body: &str, headers: &[(&'static str, &'static str)]) -> Result<Wish, ApiError> {
        let headers = headers.iter().map(|(name, value)| {
            let name = axum::http::HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        read(Fields::parse(body.as_bytes()).unwrap(), &headers.collect())
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
                r#"{"code": "x", "expect_incarnation": 4294967296}"#,
                "expect_incarnation: is too large",
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
