//! The body of `POST /v1/sessions/{id}/executions`.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use himalia_engine::{
    Execute, MAX_CODE_BYTES, MAX_CWD_BYTES, MAX_FAILURES, MAX_KEY_BYTES, MAX_TEXT_CHARS, MAX_TIMEOUT_MS,
    OnTimeout, STOP_TIME,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::images;
use super::stream::Framing;
use crate::error::ApiError;
use crate::v1::input::{Text, Wait, Whole, key_of, or_empty};
use crate::variables;

/// Time that a response waits for the end of an execution by default. The execution continues afterwards.
pub(super) const WAIT: Duration = Duration::from_mins(5);
/// The longest wait, seconds.
pub(in crate::v1) const WAIT_MOST: u64 = 600;

/// An execution, and how long it is waited for.
#[derive(Debug)]
pub(super) struct ExecuteRequest {
    pub(super) execute: Execute,
    /// It is answered at once, whatever the form of the answer.
    pub(super) background: bool,
    /// Time that one JSON response waits.
    pub(super) wait: ResponseTiming,
    /// Images in one JSON answer.
    pub(super) images: images::Bounds,
    /// Absent: the first one.
    pub(super) kernel: Option<String>,
}

/// The time that a response waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseTiming {
    /// As its caller says.
    Exact(Duration),
    /// The caller does not say it: [`WAIT`], and so long for the beginning.
    Usual { queued: Duration },
}

/// The form of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::v1) enum Form {
    Json,
    Events(Framing),
}

impl Form {
    /// By `Accept`: the first of the known types in it.
    pub(in crate::v1) fn of(headers: &HeaderMap) -> Self {
        let known = first_known(headers, |kind| match kind {
            "text/event-stream" => Some(Self::Events(Framing::Sse)),
            "application/x-ndjson" => Some(Self::Events(Framing::Ndjson)),
            "application/json" => Some(Self::Json),
            _ => None,
        });
        known.unwrap_or(Self::Json)
    }
}

/// The result of `known` for the first type in `Accept` that it knows.
pub(super) fn first_known<T>(headers: &HeaderMap, known: impl Fn(&str) -> Option<T>) -> Option<T> {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|list| list.split(','));
    types.find_map(|kind| known(kind.split(';').next().unwrap_or_default().trim()))
}

/// Code to run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewExecution {
    code: Text<0, MAX_CODE_BYTES>,
    /// A kernel of the session; default: the first one.
    kernel: Option<String>,
    /// The language of the kernel (the default), or `bash` if the kernel runs `himalia_kernel`.
    language: Option<String>,
    /// Seconds that the code may run, without its wait in the queue or for input; default: no limit. Without `wait_s`, the response
    /// waits about 10 seconds longer at most.
    timeout_s: Option<Wait<{ MAX_TIMEOUT_MS / 1000 }>>,
    /// Only with `timeout_s`; default `interrupt`.
    on_timeout: Option<OnTimeout>,
    /// Respond immediately with JSON, whatever `Accept` says; default false.
    background: Option<bool>,
    /// Seconds that a JSON response waits for the end; after that it is 202, and the execution continues. Default 300, and less if
    /// `timeout_s` has expired.
    wait_s: Option<Wait<WAIT_MOST>>,
    /// Characters of text in the result; default 8,000.
    text_chars: Option<Whole<0, { MAX_TEXT_CHARS as u64 }>>,
    /// Bytes of images that a JSON response contains in base64; larger ones are addresses. Default 0.
    image_bytes: Option<Whole<0, { images::MOST }>>,
    /// Pixels on a side of these images; of a larger one the response contains the smaller copy (`preview`), if there is one. Default: any
    /// number.
    image_pixels: Option<Whole<1, { images::MOST_PIXELS }>>,
    /// If true, the code may request input. Default: false.
    allow_stdin: Option<bool>,
    /// If true, the kernel counts it and stores it in its history; default true.
    store_history: Option<bool>,
    /// Run only in this kernel process.
    expect_incarnation: Option<Whole<0, { u32::MAX as u64 }>>,
    /// Refuse it if this many consecutive executions of the session have failed, whatever their code.
    max_failures: Option<Whole<1, { MAX_FAILURES as u64 }>>,
    /// Environment variables while the code runs; afterwards they are as before. Only for kernels of `himalia_kernel`.
    #[serde(default, deserialize_with = "or_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>", extend("maxProperties" = variables::COUNT))]
    env: BTreeMap<String, String>,
    /// The working directory while the code runs, absolute or relative to the directory of the session.
    cwd: Option<Text<1, MAX_CWD_BYTES>>,
    /// Data of the caller that is returned with the execution; at most 4,096 bytes as JSON.
    #[serde(default, deserialize_with = "or_empty")]
    #[schemars(with = "Option<Map<String, Value>>")]
    metadata: Map<String, Value>,
    /// A repeated request with this key is the same execution.
    idempotency_key: Option<Text<1, MAX_KEY_BYTES>>,
}

impl NewExecution {
    /// For the engine. `header` is the idempotency key of the header.
    pub(super) fn read(self, header: Option<String>) -> Result<ExecuteRequest, ApiError> {
        variables::check("env", &self.env)?;
        let plain = Execute::default();
        let background = self.background.unwrap_or(false);
        let timeout = match self.timeout_s {
            Some(Wait(time)) if time.is_zero() => {
                return Err(ApiError::bad_field("timeout_s", "must be more than 0"));
            }
            // The kernel's clock counts milliseconds.
            time => time.map(|Wait(time)| time.max(Duration::from_millis(1))),
        };
        let wait = match self.wait_s {
            Some(Wait(wait)) if background && !wait.is_zero() => {
                return Err(ApiError::bad_field("wait_s", "must be 0 with background"));
            }
            Some(Wait(wait)) => ResponseTiming::Exact(wait),
            None if background => ResponseTiming::Exact(Duration::ZERO),
            None => ResponseTiming::Usual {
                queued: timeout.map_or(WAIT, |limit| limit.saturating_add(STOP_TIME).min(WAIT)),
            },
        };
        if timeout.is_none() && self.on_timeout.is_some() {
            return Err(ApiError::bad_field("on_timeout", "needs timeout_s"));
        }
        let execute = Execute {
            code: self.code.0,
            language: self.language,
            timeout,
            on_timeout: self.on_timeout.unwrap_or_default(),
            text_chars: self.text_chars.map_or(plain.text_chars, |Whole(chars)| {
                usize::try_from(chars).unwrap_or(usize::MAX)
            }),
            allow_stdin: self.allow_stdin.unwrap_or(plain.allow_stdin),
            store_history: self.store_history.unwrap_or(plain.store_history),
            expect_incarnation: self
                .expect_incarnation
                .and_then(|Whole(number)| u32::try_from(number).ok()),
            max_failures: self.max_failures.and_then(|Whole(most)| u32::try_from(most).ok()),
            key: key_of(self.idempotency_key.map(|Text(key)| key), header)?,
            client: None,
            env: self.env,
            cwd: self.cwd.map(|Text(cwd)| cwd),
            metadata: self.metadata,
        };
        Ok(ExecuteRequest {
            images: images::Bounds {
                bytes: self.image_bytes.map_or(0, |Whole(bytes)| bytes),
                pixels: self.image_pixels.map(|Whole(pixels)| pixels),
            },
            execute,
            background,
            wait,
            kernel: self.kernel,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::input::members;
    use axum::http::HeaderValue;

    fn requested(body: &str, headers: &[(&'static str, &'static str)]) -> Result<ExecuteRequest, ApiError> {
        let named = |wanted| {
            headers
                .iter()
                .find(|(name, _)| *name == wanted)
                .map(|(_, value)| *value)
        };
        members::<NewExecution>(body.as_bytes())?.read(named("idempotency-key").map(str::to_owned))
    }

    #[test]
    fn how_long_an_answer_waits_is_no_part_of_what_runs() {
        let requested = |body| requested(body, &[]).unwrap();
        let plain = requested(r#"{"code": "x"}"#);
        assert_eq!(
            (plain.execute.timeout, plain.wait),
            (None, ResponseTiming::Usual { queued: WAIT })
        );
        for (body, wait) in [
            (r#"{"code": "x", "background": true}"#, Duration::ZERO),
            (r#"{"code": "x", "wait_s": 0}"#, Duration::ZERO),
            (r#"{"code": "x", "wait_s": 0.5}"#, Duration::from_millis(500)),
            (r#"{"code": "x", "wait_s": 600}"#, Duration::from_secs(WAIT_MOST)),
        ] {
            let other = requested(body);
            assert_eq!(
                (other.wait, other.execute),
                (ResponseTiming::Exact(wait), plain.execute.clone())
            );
        }
        let pictures = requested(r#"{"code": "x", "image_bytes": 5}"#);
        assert_eq!((pictures.images.bytes, pictures.execute), (5, plain.execute));
        let one = requested(r#"{"code": "x", "timeout_s": 0.007, "text_chars": 9}"#);
        assert_eq!(
            (one.execute.on_timeout, one.execute.text_chars),
            (OnTimeout::Interrupt, 9)
        );
        for (body, queued) in [
            (
                r#"{"code": "x", "timeout_s": 1}"#,
                Duration::from_secs(1) + STOP_TIME,
            ),
            (r#"{"code": "x", "timeout_s": 3600}"#, WAIT),
        ] {
            assert_eq!(requested(body).wait, ResponseTiming::Usual { queued });
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (body, wanted) in [
            ("{}", "code: is missing"),
            (r#"{"code": "x", "tiemout_ms": 1}"#, "tiemout_ms: unknown field"),
            (
                r#"{"code": "x", "on_timeout": "detach"}"#,
                "on_timeout: needs timeout_s",
            ),
            (r#"{"code": "x", "timeout_ms": 1}"#, "timeout_ms: unknown field"),
            (
                r#"{"code": "x", "timeout_s": 0}"#,
                "timeout_s: must be more than 0",
            ),
            (
                r#"{"code": "x", "image_bytes": 4194305}"#,
                "image_bytes: must be 0 to 4194304",
            ),
            (
                r#"{"code": "x", "wait_s": 601}"#,
                "wait_s: must be 0 to 600 seconds",
            ),
            (
                r#"{"code": "x", "wait_s": 1, "background": true}"#,
                "wait_s: must be 0 with background",
            ),
            (
                r#"{"code": "x", "idempotency_key": "a"}"#,
                "idempotency_key: differs from the header",
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
                requested(body, &[("idempotency-key", "b")]).unwrap_err().message,
                wanted
            );
        }
        assert_eq!(
            requested(r#"{"code": "x"}"#, &[("idempotency-key", "b")])
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
