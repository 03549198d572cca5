//! Rewrites paths before routing: the base URL, a token in the path, trailing slashes.
//!
//! Clients that cannot send a token with a WebSocket (`GatewayKernelClient` of nbclient and papermill) put it into the
//! path: `{base}/t/<token>/api/kernels/…`. It is cut off here, before anything is matched or logged.

use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::auth::PathToken;

pub(crate) enum Target {
    /// To the routes, below the base URL.
    Inside {
        /// The rest of the address.
        uri: Uri,
        /// The token that stood in the path.
        token: Option<PathToken>,
    },
    /// To the same address without the trailing slash, or to the base URL with one.
    Redirect(String),
    /// Nowhere of ours.
    Outside,
}

/// Finds out. Probes are also found outside the base URL.
pub(crate) fn resolve(base: &str, uri: &Uri, method: &Method) -> Target {
    let full = uri.path();
    let inner = match full.strip_prefix(base) {
        // The page's addresses are relative to it.
        Some("") if method == Method::GET || method == Method::HEAD => {
            return redirect_to(&format!("{base}/"), uri.query());
        }
        Some("") => "/",
        Some(rest) if rest.starts_with('/') => rest,
        _ if full == "/healthz" || full == "/readyz" => full,
        _ => return Target::Outside,
    };
    let (token, inner) = match inner.strip_prefix("/t/") {
        Some(rest) => {
            let (token, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (
                Some(PathToken(decode(token))),
                if rest.is_empty() { "/" } else { rest },
            )
        }
        None => (None, inner),
    };
    let trimmed = inner.trim_end_matches('/');
    if inner.len() > 1 && inner.ends_with('/') && (method == Method::GET || method == Method::HEAD) {
        return redirect_target(full, uri.query());
    }
    match rebuild(if trimmed.is_empty() { "/" } else { trimmed }, uri.query()) {
        Some(uri) => Target::Inside { uri, token },
        None => Target::Outside,
    }
}

/// A path of this server only: `//host/` and `/\host/` must not lead elsewhere.
fn redirect_target(full: &str, query: Option<&str>) -> Target {
    let path = full.trim_matches('/');
    if path.contains('\\') {
        return Target::Outside;
    }
    redirect_to(&format!("/{path}"), query)
}

fn redirect_to(path: &str, query: Option<&str>) -> Target {
    match query {
        Some(query) => Target::Redirect(format!("{path}?{query}")),
        None => Target::Redirect(path.to_owned()),
    }
}

fn rebuild(path: &str, query: Option<&str>) -> Option<Uri> {
    let text = match query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    Some(Uri::from(PathAndQuery::try_from(text).ok()?))
}

/// Redirects with 302, as `jupyter_server` does.
pub(crate) fn redirect(location: &str) -> Response {
    let mut response = StatusCode::FOUND.into_response();
    if let Ok(value) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, value);
    }
    response
}

/// Decodes `%xx`; anything malformed stays as it is.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    let hex = |b: Option<&u8>| {
        b.and_then(|b| char::from(*b).to_digit(16))
            .and_then(|d| u8::try_from(d).ok())
    };
    let bytes = text.as_bytes();
    let (mut out, mut i) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(i) {
        if let (b'%', Some(high), Some(low)) = (byte, hex(bytes.get(i + 1)), hex(bytes.get(i + 2))) {
            out.push(high << 4 | low);
            i += 3;
        } else {
            out.push(byte);
            i += 1;
        }
    }
    out
}

/// One path segment, encoded so that it stays one (RFC 3986 unreserved characters stand as they are).
pub(crate) fn encode_segment(text: &str) -> String {
    use std::fmt::Write;
    text.bytes()
        .fold(String::with_capacity(text.len()), |mut out, byte| {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                out.push(char::from(byte));
            } else {
                let _ = write!(out, "%{byte:02X}");
            }
            out
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(base: &str, uri: &str) -> String {
        match resolve(base, &uri.parse().unwrap(), &Method::GET) {
            Target::Inside { uri, token: None } => uri.to_string(),
            Target::Inside {
                uri,
                token: Some(PathToken(t)),
            } => {
                format!("{uri} with {}", String::from_utf8_lossy(&t))
            }
            Target::Redirect(to) => format!("-> {to}"),
            Target::Outside => "outside".into(),
        }
    }

    #[test]
    fn base_and_token_come_off() {
        assert_eq!(at("", "/api?x=1"), "/api?x=1");
        assert_eq!(at("/j", "/j/api"), "/api");
        assert_eq!(at("/j", "/j"), "-> /j/");
        assert_eq!(at("/j", "/j?a=b"), "-> /j/?a=b");
        assert_eq!(at("/j", "/j/"), "/");
        assert_eq!(at("/j", "/jx/api"), "outside");
        assert_eq!(at("/j", "/api"), "outside");
        assert_eq!(at("/j", "/healthz"), "/healthz");
        assert_eq!(
            at("/j", "/j/t/a%2Fb%zz/api/kernels?y"),
            "/api/kernels?y with a/b%zz"
        );
        assert_eq!(at("", "/t/tok"), "/ with tok");
    }

    #[test]
    fn trailing_slashes_stay_on_this_server() {
        assert_eq!(at("", "/api/kernels/?a=b"), "-> /api/kernels?a=b");
        assert_eq!(at("/j", "/j/api///"), "-> /j/api");
        assert_eq!(at("", "//evil.example/"), "-> /evil.example");
        let uri = "/api/kernels/".parse().unwrap();
        assert!(
            matches!(resolve("", &uri, &Method::POST), Target::Inside { uri, .. } if uri == "/api/kernels")
        );
    }

    #[test]
    fn segments_are_encoded() {
        assert_eq!(encode_segment("logo 64%/é.png"), "logo%2064%25%2F%C3%A9.png");
    }
}
