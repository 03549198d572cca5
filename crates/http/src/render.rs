//! Bodies of error replies: `{"message", "reason"}` in the Jupyter API, RFC 9457 problem documents under `/v1`, `{"code", "message"}`
//! for E2B's clients.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::mounted::OwnBody;
use crate::problem::problem;
use crate::request_id::RequestId;

/// Gives every error its body and every reply `nosniff`. Errors that the framework made itself become ours.
pub(crate) async fn errors(request: Request, next: Next) -> Response {
    let dialect = Dialect::of(request.uri().path());
    let id = request.extensions().get::<RequestId>().cloned();
    let mut response = next.run(request).await;
    let error = match response.extensions_mut().remove::<Box<ApiError>>() {
        Some(error) => Some(*error),
        None if response.extensions().get::<OwnBody>().is_some() => None,
        None if response.status().is_client_error() || response.status().is_server_error() => {
            Some(foreign(response.status()))
        }
        None => None,
    };
    if let Some(error) = error {
        write(&mut response, &error, dialect, id);
    }
    response.headers_mut().insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

/// The API of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Jupyter,
    Native,
    E2b,
    Azure,
    OpenAi,
}

impl Dialect {
    /// By the path, base URL and token included.
    fn of(path: &str) -> Self {
        let first = path
            .split('/')
            .find(|part| matches!(*part, "api" | "v1" | "e2b" | "azure" | "openai"));
        if first == Some("azure") {
            Self::Azure
        } else if first == Some("openai") {
            Self::OpenAi
        } else if path == "/files" || first == Some("e2b") {
            Self::E2b
        } else if is_native(path) {
            Self::Native
        } else {
            Self::Jupyter
        }
    }
}

/// Checks whether a path, base URL and token included, is one of the native API. Jupyter's comes first: a base URL may be `/v1`.
fn is_native(path: &str) -> bool {
    let own = [
        "/viewer/sign-in",
        "/viewer/sign-out",
        "/viewer/oidc",
        "/viewer/oidc/callback",
        "/metrics",
    ];
    if own.iter().any(|own| path.ends_with(own)) {
        return true;
    }
    let mut segments = path.split('/');
    segments.find(|s| *s == "api" || *s == "v1") == Some("v1")
}

fn foreign(status: StatusCode) -> ApiError {
    let message = status.canonical_reason().unwrap_or("error");
    let code = match status {
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
        s if s.is_server_error() => "internal",
        _ => "bad_request",
    };
    ApiError::new(status, code, message)
}

fn write(response: &mut Response, error: &ApiError, dialect: Dialect, id: Option<RequestId>) {
    let (status, kind, body) = match dialect {
        Dialect::Native => (
            error.native_status,
            "application/problem+json",
            problem(error, id),
        ),
        Dialect::Jupyter => (error.status, "application/json", jupyter(error)),
        Dialect::E2b => {
            let body = json!({ "code": error.status.as_u16(), "message": error.message });
            (error.status, "application/json", body)
        }
        Dialect::OpenAi => {
            let body = json!({ "error": {
                "code": error.code, "message": error.message, "type": "invalid_request_error", "param": null
            }});
            (error.status, "application/json", body)
        }
        Dialect::Azure => {
            let body = json!({ "error": { "code": error.code, "message": error.message } });
            (error.status, "application/json", body)
        }
    };
    *response.status_mut() = status;
    *response.body_mut() = Body::from(body.to_string());
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::UNAUTHORIZED {
        let challenge = headers.entry(header::WWW_AUTHENTICATE);
        challenge.or_insert(HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = error.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if error.close {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

fn jupyter(error: &ApiError) -> Value {
    let reason = error.reason.or(error.status.canonical_reason());
    let mut body = json!({ "message": error.message, "reason": reason });
    if error.short_message {
        body["short_message"] = error.message.clone().into();
    }
    if let Some(stderr) = &error.stderr {
        body["stderr"] = stderr.clone().into();
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use himalia_engine::{EndedSession, EngineError, ForkError, Hazard, NotOffered, RemovedBy, SessionId};

    #[test]
    fn dialects() {
        let error = ApiError::from(EngineError::KernelLimit {
            limit: 3,
            tenant: None,
        });
        assert_eq!(
            jupyter(&error),
            json!({"message": "the limit of 3 kernels is reached", "reason": "Resource Limit"})
        );
        let problem = problem(&error, None);
        assert_eq!(
            (&problem["status"], &problem["code"]),
            (&json!(429), &json!("kernel_limit"))
        );
        assert_eq!(problem["retryable"], json!(true));
    }

    #[test]
    fn a_session_that_is_over_is_gone_and_to_jupyter_not_there() {
        let ended = EndedSession {
            id: SessionId(uuid::Uuid::from_u128(1)),
            ended: time::OffsetDateTime::UNIX_EPOCH,
            cause: "ttl".into(),
        };
        let error = ApiError::from(EngineError::SessionEnded(ended.clone()));
        assert_eq!(error.status, StatusCode::NOT_FOUND);
        let shown = problem(&error, None);
        assert_eq!(
            (&shown["status"], &shown["code"], &shown["retryable"]),
            (&json!(410), &json!("session_ended"), &json!(false))
        );
        assert_eq!(
            (&shown["session"], &shown["ended"], &shown["reason"]),
            (
                &json!(ended.id),
                &json!("1970-01-01T00:00:00.000000Z"),
                &json!("ttl")
            )
        );
        let named = problem(
            &ApiError::from(EngineError::NameEnded {
                name: "eda".into(),
                last: ended,
            }),
            None,
        );
        assert_eq!(
            (&named["status"], &named["code"]),
            (&json!(404), &json!("session_not_found"))
        );
        assert_eq!(
            (&named["session"], &named["reason"]),
            (&shown["session"], &json!("ttl"))
        );
        let removed = ApiError::from(EngineError::Removed {
            by: RemovedBy::Retention,
            reason: "it was long ago".into(),
        });
        assert_eq!(removed.status, StatusCode::NOT_FOUND);
        assert_eq!(problem(&removed, None)["status"], 410);
    }

    #[test]
    fn a_refused_fork_says_what_stands_in_the_way() {
        let hazard = Hazard {
            kind: "native-thread".into(),
            name: "polars".into(),
            detail: "2 threads".into(),
            refuses: true,
        };
        let shown = problem(
            &ApiError::from(EngineError::Fork {
                code: ForkError::Hazard,
                reason: "it would break".into(),
                hazards: vec![hazard],
            }),
            None,
        );
        assert_eq!(
            (&shown["status"], &shown["code"], &shown["retryable"]),
            (&json!(409), &json!("fork_hazard"), &json!(false))
        );
        assert_eq!(shown["hazards"][0]["severity"], "refuse");
        let busy = problem(
            &ApiError::from(EngineError::Fork {
                code: ForkError::Busy,
                reason: "a cell runs".into(),
                hazards: Vec::new(),
            }),
            None,
        );
        assert_eq!((&busy["retryable"], busy.get("hazards")), (&json!(true), None));
        assert_eq!(
            (&busy["code"], &busy["retry_after_s"]),
            (&json!("session_busy"), &json!(1))
        );
    }

    #[test]
    fn what_is_not_offered_names_the_field() {
        let error = ApiError::from(EngineError::NotOffered {
            code: NotOffered::Limit,
            field: "limits.pids",
            reason: "is more than 5".into(),
        });
        assert_eq!(
            error.status,
            StatusCode::BAD_REQUEST,
            "as Jupyter's clients know it"
        );
        let shown = problem(&error, None);
        assert_eq!(
            (&shown["status"], &shown["code"], &shown["field"]),
            (&json!(422), &json!("limit_exceeded"), &json!("limits.pids"))
        );
        assert_eq!(shown["detail"], "limits.pids: is more than 5");
    }

    #[test]
    fn a_session_names_an_unknown_kernelspec_its_own_way() {
        let error = ApiError::from(EngineError::NoSuchKernelspec { name: "x".into() });
        assert_eq!(error.status, StatusCode::BAD_REQUEST);
        let error = error.for_session();
        assert_eq!(error.status, StatusCode::NOT_IMPLEMENTED);
        assert_eq!(jupyter(&error)["short_message"], jupyter(&error)["message"]);
    }

    #[test]
    fn the_path_decides_the_dialect() {
        assert!(is_native("/v1/sessions/x/events"));
        assert!(is_native("/base/t/token/v1/x"));
        assert!(!is_native("/api/kernels/v1"));
        assert!(!is_native("/nothing"));
        for (path, dialect) in [
            ("/e2b/sandboxes", Dialect::E2b),
            ("/azure/python3/files", Dialect::Azure),
            ("/openai/v1/containers", Dialect::OpenAi),
            ("/files", Dialect::E2b),
            ("/base/e2b/v2/sandboxes", Dialect::E2b),
            ("/v1/sessions/x/files/e2b/y", Dialect::Native),
            ("/api/kernels", Dialect::Jupyter),
        ] {
            assert_eq!(Dialect::of(path), dialect, "{path}");
        }
    }
}
