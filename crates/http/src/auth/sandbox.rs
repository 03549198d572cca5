//! How E2B's clients show who they are.
//!
//! The control plane takes an API key, which is any token of the gateway, in `X-API-KEY`. A sandbox takes its own token
//! ([`SandboxTokens`]), in `X-Access-Token` or `E2B-Traffic-Access-Token`, beside its id in `E2b-Sandbox-Id`. The address of a file
//! can be signed instead: `signature` is a hash of what is allowed and of the token.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use himalia_engine::{Principal, SessionInfo};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::SandboxTokens;
use super::caller::wrong_token;
use super::token::hash;
use super::tokens::Shown;
use crate::app::App;
use crate::error::ApiError;
use crate::listen::Peer;
use crate::query;

/// What the paths of this API begin with.
const PREFIX: &str = "/e2b/";
/// Where files are; clients drop the prefix from the addresses that they sign.
const FILES: [&str; 2] = ["/e2b/files", "/files"];
/// The id of the sandbox that a request is for.
pub(crate) const SANDBOX_ID: HeaderName = HeaderName::from_static("e2b-sandbox-id");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const ACCESS_TOKEN: HeaderName = HeaderName::from_static("x-access-token");
const TRAFFIC_TOKEN: HeaderName = HeaderName::from_static("e2b-traffic-access-token");
/// The headers with something secret.
pub(crate) const E2B_CREDENTIALS: [HeaderName; 3] = [API_KEY, ACCESS_TOKEN, TRAFFIC_TOKEN];
/// What a wrong signature stands for.
const NO_TOKEN: &str = "-";
/// Most pairs of a sandbox and a credential that one signature is compared with.
const COMPARED: usize = 10_000;

/// Whether a route is of the sandboxes themselves, and not of the control plane.
pub(crate) fn is_of_sandbox(pattern: &str) -> bool {
    FILES.contains(&pattern) || (pattern.starts_with(PREFIX) && pattern != "/e2b/{*path}")
}

/// Who sent a request to a route with this pattern; `None` if it shows nothing of E2B's.
pub(super) fn check(
    app: &App,
    request: &Request,
    pattern: &str,
) -> Option<Result<(Principal, Shown), ApiError>> {
    let tokens = &app.config().e2b.as_ref()?.tokens;
    if !is_of_sandbox(pattern) && !pattern.starts_with(PREFIX) {
        return None;
    }
    let (headers, known) = (request.headers(), app.tokens());
    let found = if is_of_sandbox(pattern)
        && let Some(token) = text(headers, &ACCESS_TOKEN).or_else(|| text(headers, &TRAFFIC_TOKEN))
    {
        let sandbox = text(headers, &SANDBOX_ID).unwrap_or_default();
        tokens.verify(token, sandbox).and_then(|mark| {
            let principal = known.marked(mark)?.clone();
            let (secret, mark) = (hash(token.as_bytes()), mark.to_owned());
            Some((principal, Shown::Sandbox { secret, mark }))
        })
    } else {
        let key = text(headers, &API_KEY)?;
        let principal = known.principal(key.as_bytes()).cloned();
        principal.map(|principal| (principal, Shown::Token(hash(key.as_bytes()))))
    };
    Some(found.ok_or_else(|| {
        let error = wrong_token(app, request.extensions().get::<Peer>());
        let is_signed = FILES.contains(&pattern) && query::last(request.uri(), "signature").is_some();
        if is_signed && error.status == StatusCode::UNAUTHORIZED {
            return ApiError::wrong_signature();
        }
        error
    }))
}

/// Gives a request for a signed address of a file the headers that its signature stands for. A wrong signature becomes a wrong
/// token.
pub(super) fn unsign(app: &App, request: &mut Request, pattern: &str) {
    let Some(e2b) = app.config().e2b.as_ref().filter(|_| FILES.contains(&pattern)) else {
        return;
    };
    let Some(signature) = query::all(request.uri(), "signature").pop() else {
        return;
    };
    let found = Signed::read(request, &signature)
        .and_then(|signed| signed.find(app, &e2b.tokens))
        .unwrap_or_else(|| (NO_TOKEN.to_owned(), NO_TOKEN.to_owned()));
    let headers = request.headers_mut();
    for (name, value) in [(SANDBOX_ID, found.0), (ACCESS_TOKEN, found.1)] {
        let value = HeaderValue::from_str(&value);
        headers.insert(name, value.unwrap_or(HeaderValue::from_static(NO_TOKEN)));
    }
}

/// What a signature allows.
struct Signed {
    /// What is signed before the token.
    allowed: String,
    /// The same after it.
    expires: String,
    signature: Vec<u8>,
}

impl Signed {
    /// `None` where it has expired or is none.
    fn read(request: &Request, signature: &str) -> Option<Self> {
        let one = |name: &str| query::all(request.uri(), name).pop();
        let operation = match *request.method() {
            Method::GET | Method::HEAD => "read",
            Method::POST => "write",
            _ => return None,
        };
        let expires = match one("signature_expiration") {
            None => String::new(),
            Some(text) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
                (now < text.parse().ok()?).then(|| format!(":{text}"))?
            }
        };
        let (path, user) = (
            one("path").unwrap_or_default(),
            one("username").unwrap_or_default(),
        );
        Some(Self {
            allowed: format!("{path}:{operation}:{user}:"),
            expires,
            signature: BASE64_STANDARD_NO_PAD
                .decode(signature.strip_prefix("v1_")?)
                .ok()?,
        })
    }

    /// The sandbox and the token that it was signed with.
    fn find(&self, app: &App, tokens: &SandboxTokens) -> Option<(String, String)> {
        let sandboxes = app.engine().session_infos(&Principal::operator()).ok()?;
        let known = app.tokens();
        let pairs = sandboxes.iter().flat_map(|info: &SessionInfo| {
            let marks = known.marks(&info.session.owner);
            marks.into_iter().map(|mark| (info.id().to_string(), mark))
        });
        pairs.take(COMPARED).find_map(|(sandbox, mark)| {
            let token = tokens.with_mark(&mark, &sandbox);
            self.fits(&token).then_some((sandbox, token))
        })
    }

    fn fits(&self, token: &str) -> bool {
        let expected = Sha256::digest(format!("{}{token}{}", self.allowed, self.expires));
        bool::from(expected.as_slice().ct_eq(&self.signature))
    }
}

/// The text of a header that is there once and not empty.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let (first, more) = (values.next()?, values.next());
    let text = first.to_str().ok()?;
    (more.is_none() && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    #[test]
    fn the_control_plane_is_no_sandbox() {
        for of_sandbox in [
            "/files",
            "/e2b/files",
            "/e2b/execute",
            "/e2b/process.Process/{method}",
        ] {
            assert!(is_of_sandbox(of_sandbox), "{of_sandbox}");
        }
        for other in ["/e2b/{*path}", "/v1/sessions", "/mcp"] {
            assert!(!is_of_sandbox(other), "{other}");
        }
    }

    #[test]
    fn a_signature_is_for_one_file_one_operation_and_a_time() {
        let request = |method: Method, query: &str| {
            let uri = format!("/files?{query}");
            Request::builder()
                .method(method)
                .uri(uri)
                .body(Body::empty())
                .unwrap()
        };
        let sign = |text: &str| format!("v1_{}", BASE64_STANDARD_NO_PAD.encode(Sha256::digest(text)));
        let fits = |method: Method, query: &str, signature: &str| {
            let signed = Signed::read(&request(method, query), signature);
            signed.is_some_and(|signed| signed.fits("tok"))
        };
        let read = sign("a/b.txt:read::tok");
        assert!(fits(Method::GET, "path=a%2Fb.txt", &read));
        assert!(!fits(Method::POST, "path=a%2Fb.txt", &read));
        assert!(!fits(Method::GET, "path=a%2Fc.txt", &read));
        assert!(!fits(Method::GET, "path=a%2Fb.txt", &sign("a/b.txt:read::other")));
        assert!(!fits(Method::GET, "path=a%2Fb.txt&username=root", &read));
        let later = sign("a:write:user:tok:99999999999");
        assert!(fits(
            Method::POST,
            "path=a&username=user&signature_expiration=99999999999",
            &later
        ));
        let past = sign("a:write:user:tok:99");
        assert!(!fits(
            Method::POST,
            "path=a&username=user&signature_expiration=99",
            &past
        ));
        assert!(!fits(Method::GET, "path=a%2Fb.txt", "v1_???"));
    }
}
