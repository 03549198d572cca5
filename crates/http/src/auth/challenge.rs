//! The challenge of `/mcp` (`WWW-Authenticate`): the scope that a token needs, and the address of the document that describes the resource
//! (RFC 9728).

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;

use super::cookie::is_https;
use crate::app::App;
use crate::error::ApiError;
use crate::viewer::base_of;

/// The path of the document, below the base URL. The path of the resource follows.
pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource";
/// The scope of a token that may call tools.
pub(crate) const SCOPE: &str = "execute";

/// Facts of a request that its challenge needs.
#[derive(Debug)]
pub(super) struct Challenge {
    metadata: Option<String>,
    has_token: bool,
}

impl Challenge {
    pub(super) fn of(app: &App, request: &HeaderMap) -> Self {
        Self {
            metadata: address(app, request, &format!("{METADATA}/mcp")),
            has_token: request.contains_key(header::AUTHORIZATION),
        }
    }

    /// Adds the challenge to a response that needs one.
    pub(super) fn add(&self, response: &mut Response) {
        let Some(error) = response.extensions().get::<Box<ApiError>>() else {
            return;
        };
        let reason = match (error.status, error.needs_scope) {
            (StatusCode::UNAUTHORIZED, _) if self.has_token => Some("invalid_token"),
            (StatusCode::UNAUTHORIZED, _) => None,
            (StatusCode::FORBIDDEN, true) => Some("insufficient_scope"),
            _ => return,
        };
        let error = reason.map(|reason| format!("error=\"{reason}\""));
        let metadata = self.metadata.as_ref();
        let metadata = metadata.map(|address| format!("resource_metadata=\"{address}\""));
        let scope = format!("scope=\"{SCOPE}\"");
        let parts: Vec<String> = error.into_iter().chain(metadata).chain([scope]).collect();
        if let Ok(value) = HeaderValue::try_from(format!("Bearer {}", parts.join(", "))) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
        }
    }
}

/// The address of a path below the base URL, as the client of this request sees it. `None`: its `Host` is no authority.
pub(crate) fn address(app: &App, request: &HeaderMap, path: &str) -> Option<String> {
    let host = request.get(header::HOST)?.to_str().ok()?;
    let host: Authority = host.parse().ok()?;
    let scheme = if is_https(request) { "https" } else { "http" };
    let own = app.url("");
    Some(format!("{scheme}://{host}{}{path}", base_of(request, &own)))
}
