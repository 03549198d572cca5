//! The content security policy of `/api`, as `jupyter_server` has it: a browser that shows an answer runs and loads nothing, and no
//! page of another origin frames it.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use crate::app::App;

/// Checks whether a path below the base URL belongs to the Jupyter API.
pub(crate) fn is_of_jupyter(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

/// Adds the policy. A WebSocket shows nothing.
pub(crate) fn restrict(app: &App, response: &mut Response) {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return;
    }
    let report = app.url("/api/security/csp-report");
    let policy = format!("frame-ancestors 'self'; report-uri {report}; default-src 'none'");
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response
            .headers_mut()
            .insert(header::CONTENT_SECURITY_POLICY, policy);
    }
}
