//! Responses to code, and why there is none.

use std::convert::Infallible;

use bytes::Bytes;
use himalia_budget::{DailyQuantity, DayOver};
use himalia_egress::{Body, BodyError};
use himalia_kernel::ToolOutcome;
use himalia_llm::{Failure, Whole};
use himalia_model::{LlmCap, LlmError, LlmErrorCode, Spend};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use tokio::sync::mpsc;

/// Says that an answer is from the cache.
const CACHE: HeaderName = HeaderName::from_static("x-himalia-cache");

/// A whole reply, as the server gave it.
pub(super) fn whole(whole: Whole) -> Response<Body> {
    let mut response = json(whole.status, whole.body);
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::try_from(&whole.media_type)
        && !value.is_empty()
    {
        headers.insert(CONTENT_TYPE, value);
    }
    for (name, value) in whole.headers {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    response
}

pub(super) fn cached(body: Bytes) -> Response<Body> {
    let mut response = json(StatusCode::OK, body);
    response
        .headers_mut()
        .insert(CACHE, HeaderValue::from_static("hit"));
    response
}

/// One that comes in pieces.
pub(super) fn stream(mut pieces: mpsc::Receiver<Result<Bytes, BodyError>>) -> Response<Body> {
    let frames = futures_util::stream::poll_fn(move |cx| {
        let piece = pieces.poll_recv(cx);
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed());
    head(&mut response, "text/event-stream");
    response
}

fn json(status: StatusCode, body: Bytes) -> Response<Body> {
    let body = Full::new(body).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed());
    *response.status_mut() = status;
    head(&mut response, "application/json");
    response
}

fn head(response: &mut Response<Body>, media_type: &'static str) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// Outcome and error of a call without a reply.
pub(super) fn failure(model: &str, failure: &Failure) -> (ToolOutcome, LlmError) {
    let (outcome, code, hint) = match failure {
        Failure::Unavailable(_) => (
            ToolOutcome::NotDone,
            LlmErrorCode::Unavailable,
            Some("Nothing was sent. Try again later."),
        ),
        Failure::Timeout(_) => (
            ToolOutcome::Unknown,
            LlmErrorCode::Timeout,
            Some("Ask for less, or have the answer in pieces (stream)."),
        ),
        Failure::Lost => (ToolOutcome::Unknown, LlmErrorCode::OutcomeUnknown, None),
        Failure::TooLarge(_) => (
            ToolOutcome::Failed,
            LlmErrorCode::ReplyTooLarge,
            Some("Ask for less with each call."),
        ),
        Failure::Failed(_) => (ToolOutcome::Failed, LlmErrorCode::Failed, None),
    };
    let error = LlmError::new(code, format!("{model}: {failure}"));
    (
        outcome,
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        },
    )
}

/// A cap is exceeded.
pub(super) fn over(cap: &LlmCap, wanted: f64) -> LlmError {
    let LlmCap { name, used, allowed } = *cap;
    let (message, hint) = match name {
        "model_calls" => (
            format!("what runs has called models {used} times, as often as it may ({name})"),
            "Ask for more with each call, or continue in another execution.",
        ),
        "model_parallel" => (
            format!(
                "{used} calls of models are in progress, as many as may be at once ({name}), and none of them ended in time"
            ),
            "Wait for some of them.",
        ),
        "model_spend" => (
            format!("{name}: what runs has spent {used} of {allowed}, and this call may cost {wanted}"),
            "Bound the answer (max_tokens), ask for less, or continue in another execution.",
        ),
        _ => (
            format!(
                "{name}: what runs has used {used} of {allowed} tokens, and this call may take about {wanted}"
            ),
            "Bound the answer (max_tokens), ask for less, or continue in another execution.",
        ),
    };
    let message = format!("{message}. Calls in progress count with what they may take. Nothing was sent");
    let mut error = LlmError::new(LlmErrorCode::Limit, message).with_hint(hint);
    error.cap = Some(LlmCap { name, used, allowed });
    error
}

/// The day of the tenant has too little left.
pub(super) fn over_in_day(over: &DayOver) -> LlmError {
    let message = format!("{over}. Calls in progress count with what they may take. Nothing was sent");
    let mut error = LlmError::new(LlmErrorCode::Limit, message).with_hint(
        "Bound the answer (max_tokens), ask for less, continue then, or ask the operator for more.",
    );
    #[expect(clippy::cast_precision_loss, reason = "a count is shown, not counted with")]
    let amount = |amount: u64| match over.what {
        DailyQuantity::ModelSpend => Spend::of_nanos(amount).units(),
        _ => amount as f64,
    };
    error.cap = Some(LlmCap {
        name: over.what.quota(),
        used: amount(over.used),
        allowed: amount(over.limit),
    });
    error
}
