//! The response to a failed sign-in: a page, or JSON for a client that is not a browser.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use himalia_oidc::SignInError;

use crate::auth::SignedIn;
use crate::error::ApiError;
use crate::mounted::OwnBody;
use crate::request_id::RequestId;
use crate::viewer;

/// A failure: its status, its code for programs and the audit log, and what the person can do.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    code: &'static str,
    advice: String,
    retry_after: Option<u32>,
}

impl Failure {
    pub(super) fn new(status: StatusCode, code: &'static str, advice: impl Into<String>) -> Self {
        Self {
            status,
            code,
            advice: advice.into(),
            retry_after: None,
        }
    }

    /// As an answer to this request. `root` is where the viewer is.
    pub(super) fn answer(self, request: &HeaderMap, root: &str, id: Option<&RequestId>) -> Response {
        let mut response = if wants_page(request) {
            let mut response = (self.status, page(&self, root, id)).into_response();
            let headers = response.headers_mut();
            viewer::restrict(headers, request, root);
            headers.insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("text/html; charset=utf-8"),
            );
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            if let Some(seconds) = self.retry_after {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            response.extensions_mut().insert(OwnBody);
            response
        } else {
            let error = ApiError {
                retry_after: self.retry_after,
                ..ApiError::new(self.status, self.code, self.advice)
            };
            error.into_response()
        };
        response.extensions_mut().insert(SignedIn {
            code: Some(self.code),
            ..SignedIn::default()
        });
        response
    }
}

impl From<&SignInError> for Failure {
    fn from(error: &SignInError) -> Self {
        let (status, code, retry_after) = match error {
            SignInError::State(_) => (StatusCode::BAD_REQUEST, "sign_in_state", None),
            SignInError::Refused { .. } => (StatusCode::FORBIDDEN, "sign_in_refused", None),
            SignInError::Unreachable { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, "provider_unreachable", Some(30))
            }
            SignInError::Token { .. } => (StatusCode::FORBIDDEN, "id_token_refused", None),
            SignInError::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy", Some(2)),
            SignInError::Random => (StatusCode::INTERNAL_SERVER_ERROR, "internal", None),
            _ => (StatusCode::BAD_GATEWAY, "provider_answer", None),
        };
        Self {
            retry_after,
            ..Self::new(status, code, error.advice())
        }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self {
            retry_after: error.retry_after,
            ..Self::new(error.native_status, error.code, error.message)
        }
    }
}

fn wants_page(request: &HeaderMap) -> bool {
    let accept = request.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

fn page(failure: &Failure, root: &str, id: Option<&RequestId>) -> String {
    let id = id.map(RequestId::as_str).unwrap_or_default();
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Sign-in failed - Himalia</title>\
         <h1>Sign-in failed</h1><p>{}</p><p><a href=\"{}/\">Back to the sign-in</a></p>\
         <p>For the operator: <code>{}</code>, request <code>{}</code></p>\n",
        escaped(&failure.advice),
        escaped(root),
        escaped(failure.code),
        escaped(id),
    )
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_no_markup_of_others() {
        let failure = Failure::new(StatusCode::BAD_REQUEST, "code", "<script>\"'&");
        let page = page(&failure, "/\"><b>", None);
        assert!(!page.contains("<script>") && !page.contains("<b>"), "{page}");
        assert!(page.contains("&lt;script&gt;&quot;&#39;&amp;"), "{page}");
    }
}
