//! Paths of `OpenAI`'s API below `/llm/v1`, with its errors.

use bytes::Bytes;
use himalia_egress::Body;
use himalia_model::{LlmEndpoint, LlmError, LlmErrorCode};
use http::header::HeaderName;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::answer::{self, Problem};
use crate::{AskModel, NAME, SessionApi, routes};

/// `true` or `false`: whether the answer may be that to the same request before, and is kept.
const CACHE: &str = "x-himalia-cache";
/// The line of the cell that asks, as its code says.
const LINE: &str = "x-himalia-line";
/// `OpenAI`'s clients do not send a request again if this is `false`.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Answers a request below `/llm`.
pub(crate) async fn respond(api: &dyn SessionApi, path: &str, head: &Parts, body: Body) -> Response<Body> {
    let answered = answered(api, path, head, body).await;
    answered.unwrap_or_else(|error| {
        let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = answer::with_status(status, &error.to_json());
        if !error.is_worth_repeating() {
            response
                .headers_mut()
                .insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        response
    })
}

async fn answered(
    api: &dyn SessionApi,
    path: &str,
    head: &Parts,
    body: Body,
) -> Result<Response<Body>, LlmError> {
    let endpoint = match (&head.method, path) {
        (&Method::POST, "v1/chat/completions") => LlmEndpoint::Chat,
        (&Method::POST, "v1/embeddings") => LlmEndpoint::Embeddings,
        (&Method::GET, "v1/models") => {
            let all: Vec<Value> = api.models().await?.iter().map(|name| model(name)).collect();
            return Ok(answer::json(&json!({"object": "list", "data": all})));
        }
        (&Method::GET, other) => {
            let name = other.strip_prefix("v1/models/").ok_or_else(not_found)?;
            let known = api.models().await?.iter().any(|one| one == name);
            if !known {
                let mut error = LlmError::new(LlmErrorCode::UnknownModel, "this session has no such model");
                error.param = Some("model".to_owned());
                return Err(error);
            }
            return Ok(answer::json(&model(name)));
        }
        _ => return Err(not_found()),
    };
    let cache = match head.headers.get(CACHE).map(HeaderValue::as_bytes) {
        None => None,
        Some(b"true") => Some(true),
        Some(b"false") => Some(false),
        Some(_) => return Err(LlmError::member(CACHE, "is neither true nor false")),
    };
    let line = head.headers.get(LINE).map(|value| {
        let number = value.to_str().ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| LlmError::member(LINE, "must be the number of a line"))
    });
    let line = line.transpose()?;
    let body = routes::whole(body)
        .await
        .map_err(|problem| unreadable(&problem))?;
    api.ask_model(AskModel {
        endpoint,
        body: Bytes::from(body),
        cache,
        line,
    })
    .await
}

/// The error of a handler that has panicked.
pub(crate) fn panicked(problem: &Problem) -> Response<Body> {
    let error = LlmError::new(LlmErrorCode::OutcomeUnknown, problem.message());
    answer::with_status(problem.status(), &error.to_json())
}

fn unreadable(problem: &Problem) -> LlmError {
    let code = match problem.status() {
        StatusCode::PAYLOAD_TOO_LARGE => LlmErrorCode::RequestTooLarge,
        _ => LlmErrorCode::BadRequest,
    };
    LlmError::new(code, problem.message())
}

fn not_found() -> LlmError {
    let message = format!(
        "http://{NAME}/llm has POST /v1/chat/completions, POST /v1/embeddings, GET /v1/models, GET /v1/models/{{id}}"
    );
    LlmError::new(LlmErrorCode::NotFound, message)
}

fn model(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "himalia"})
}
