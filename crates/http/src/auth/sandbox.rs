//! Authentication of E2B's clients.
//!
//! The control plane takes an API key, which is any token of the gateway, in `X-API-KEY`. A sandbox takes its own token
//! ([`SandboxTokens`]), in `X-Access-Token` or `E2B-Traffic-Access-Token`, beside its id in `E2b-Sandbox-Id`. The address of a file
//! can be signed instead: `signature` is a hash of what is allowed and of the token.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use futures_util::future::BoxFuture;
use himalia_engine::{Principal, SessionId};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

use super::SandboxTokens;
use super::authenticator::{Authenticator, Identity, UnknownCaller};
use super::caller::wrong_token;
use super::token::hash;
use super::tokens::ShownCredential;
use super::valid_tokens::ValidTokens;
use crate::app::App;
use crate::error::ApiError;
use crate::listen::Peer;
use crate::query;

/// The prefix of the paths of this API.
const PREFIX: &str = "/e2b/";
/// The paths of files. Clients drop the prefix from the addresses that they sign.
const FILES: &[&str] = &["/e2b/files", "/files"];
/// The id of the sandbox that a request is for.
pub(crate) const SANDBOX_ID: HeaderName = HeaderName::from_static("e2b-sandbox-id");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const ACCESS_TOKEN: HeaderName = HeaderName::from_static("x-access-token");
const TRAFFIC_TOKEN: HeaderName = HeaderName::from_static("e2b-traffic-access-token");
/// The headers with something secret.
pub(crate) const E2B_CREDENTIALS: [HeaderName; 3] = [API_KEY, ACCESS_TOKEN, TRAFFIC_TOKEN];
/// Parameter with the time up to which a signature is valid.
const EXPIRES: &str = "signature_expiration";
/// The token in place of a wrong signature.
const NO_TOKEN: &str = "-";
/// Most tokens that the signature of an address is compared with, if the address names its sandbox.
const COMPARED: usize = 1_000;
/// The same if it names none: pairs of a sandbox and a credential.
const COMPARED_UNNAMED: usize = 64;
/// No principal is known before a signature fits, so one is compared at a time.
static TURN: Semaphore = Semaphore::const_new(1);

/// Checks whether a route belongs to the sandboxes themselves, and not to the control plane.
pub(crate) fn is_of_sandbox(pattern: &str) -> bool {
    FILES.contains(&pattern) || (pattern.starts_with(PREFIX) && pattern != "/e2b/{*path}")
}

/// API keys of the control plane, tokens of sandboxes, and signed addresses of files.
pub(super) struct SandboxCredentials;

impl Authenticator for SandboxCredentials {
    fn prepare<'a>(
        &self,
        app: &'a App,
        request: &'a mut Request,
        pattern: &str,
    ) -> Option<BoxFuture<'a, Result<(), ApiError>>> {
        let e2b = app.config().e2b.as_ref().filter(|_| FILES.contains(&pattern))?;
        let signature = query::all(request.uri(), "signature").pop()?;
        Some(Box::pin(unsign(app, request, &e2b.tokens, signature)))
    }

    fn identify(&self, caller: UnknownCaller<'_>) -> Option<Result<Identity, ApiError>> {
        let UnknownCaller {
            app,
            request,
            pattern,
            ..
        } = caller;
        let (tokens, pattern) = (&app.config().e2b.as_ref()?.tokens, pattern?);
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
                let shown = ShownCredential {
                    kind: "sandbox",
                    hash: hash(token.as_bytes()),
                    mark: Some(mark.to_owned()),
                };
                Some((principal, shown))
            })
        } else {
            let key = text(headers, &API_KEY)?;
            let principal = known.principal(key.as_bytes()).cloned();
            principal.map(|principal| (principal, ShownCredential::token(key.as_bytes())))
        };
        Some(found.ok_or_else(|| {
            let error = wrong_token(app, request.extensions().get::<Peer>());
            let is_signed = FILES.contains(&pattern) && query::last(request.uri(), "signature").is_some();
            if is_signed && error.status == StatusCode::UNAUTHORIZED {
                let expires = query::all(request.uri(), EXPIRES).pop();
                return if expires.is_some_and(|text| !is_ahead(&text)) {
                    ApiError::expired_signature()
                } else {
                    ApiError::wrong_signature()
                };
            }
            error
        }))
    }
}

/// Gives a request for a signed address of a file the headers that its signature stands for. A wrong signature becomes a wrong
/// token. A peer that has shown too many of them is refused before anything is compared.
async fn unsign(
    app: &App,
    request: &mut Request,
    tokens: &SandboxTokens,
    signature: String,
) -> Result<(), ApiError> {
    let address = request.extensions().get::<Peer>().map(Peer::address);
    if let Some(wait) = address.and_then(|address| app.backoff().waits(address.ip(), Instant::now())) {
        return Err(ApiError::too_many_wrong_tokens(wait));
    }
    let found = match SignedAddress::read(request, &signature) {
        Some(signed) => {
            let _turn = TURN.acquire().await;
            signed.find(app, tokens)
        }
        None => None,
    };
    let found = found.unwrap_or_else(|| (NO_TOKEN.to_owned(), NO_TOKEN.to_owned()));
    let headers = request.headers_mut();
    for (name, value) in [(SANDBOX_ID, found.0), (ACCESS_TOKEN, found.1)] {
        let value = HeaderValue::from_str(&value);
        headers.insert(name, value.unwrap_or(HeaderValue::from_static(NO_TOKEN)));
    }
    Ok(())
}

/// The sandbox that an address names: `&sandbox=<id>`, or the first label of its host, `<port>-<id>`.
fn named(request: &Request) -> Option<String> {
    query::last(request.uri(), "sandbox").or_else(|| {
        let host = request.headers().get(header::HOST)?.to_str().ok()?;
        let (port, id) = host.split_once('.')?.0.split_once('-')?;
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        (is_port && !id.is_empty()).then(|| id.to_owned())
    })
}

/// True for seconds since 1970 that have not passed.
fn is_ahead(text: &str) -> bool {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(u64::MAX, |now| now.as_secs());
    text.parse().is_ok_and(|end: u64| now < end)
}

/// The permission of a signature.
struct SignedAddress {
    /// The signed text before the token.
    allowed: String,
    /// The same after it.
    expires: String,
    signature: Vec<u8>,
    /// The sandbox that the address names.
    sandbox: Option<String>,
}

impl SignedAddress {
    /// `None` where it has expired or is none.
    fn read(request: &Request, signature: &str) -> Option<Self> {
        let one = |name: &str| query::all(request.uri(), name).pop();
        let operation = match *request.method() {
            Method::GET | Method::HEAD => "read",
            Method::POST => "write",
            _ => return None,
        };
        let expires = match one(EXPIRES) {
            None => String::new(),
            Some(text) => is_ahead(&text).then(|| format!(":{text}"))?,
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
            sandbox: named(request),
        })
    }

    /// The sandbox and the token that it was signed with.
    fn find(&self, app: &App, tokens: &SandboxTokens) -> Option<(String, String)> {
        let (sandboxes, most) = match &self.sandbox {
            Some(sandbox) => {
                let id: SessionId = sandbox.parse().ok()?;
                let info = app
                    .engine()
                    .session_info(&Principal::operator(), id.first_kernel());
                (vec![(id, info.ok()?.session.owner)], COMPARED)
            }
            None => (app.engine().owners_of_few(COMPARED_UNNAMED)?, COMPARED_UNNAMED),
        };
        pairs(&app.tokens(), sandboxes, most)?
            .into_iter()
            .find_map(|(sandbox, mark)| {
                let token = tokens.with_mark(&mark, &sandbox);
                self.fits(&token).then_some((sandbox, token))
            })
    }

    fn fits(&self, token: &str) -> bool {
        let expected = Sha256::digest(format!("{}{token}{}", self.allowed, self.expires));
        bool::from(expected.as_slice().ct_eq(&self.signature))
    }
}

/// Each sandbox with the marks of the tokens that reach it. `None`: there are more than `most` pairs.
fn pairs(
    known: &ValidTokens,
    sandboxes: Vec<(SessionId, String)>,
    most: usize,
) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for (sandbox, owner) in sandboxes {
        let marks = known.marks(&owner);
        if pairs.len() + marks.len() > most {
            return None;
        }
        pairs.extend(marks.into_iter().map(|mark| (sandbox.to_string(), mark)));
    }
    Some(pairs)
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
    use crate::auth::{Token, Tokens};
    use axum::body::Body;
    use std::sync::Arc;

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
            let signed = SignedAddress::read(&request(method, query), signature);
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

    #[test]
    fn an_address_that_names_no_sandbox_is_compared_with_few_tokens() {
        let mut known = Tokens::new(Token::new("of the operator"));
        let compared = |known: &Tokens, count: usize, most: usize| {
            let known = ValidTokens::new(Arc::new(known.clone()), Arc::default(), 0);
            let sandboxes = (0..count).map(|_| (SessionId::random(), "acme".to_owned()));
            pairs(&known, sandboxes.collect(), most).map(|pairs| pairs.len())
        };
        let unnamed = |known: &Tokens, count: usize| compared(known, count, COMPARED_UNNAMED);
        // The operator's token reaches every sandbox.
        assert_eq!(unnamed(&known, COMPARED_UNNAMED), Some(COMPARED_UNNAMED));
        assert_eq!(unnamed(&known, COMPARED_UNNAMED + 1), None);
        for number in 1..COMPARED_UNNAMED {
            let caller = Principal::of_tenant("acme", &format!("c{number}")).unwrap();
            known.add(Token::new(&format!("token {number}")), caller).unwrap();
        }
        assert_eq!(unnamed(&known, 1), Some(COMPARED_UNNAMED));
        assert_eq!(unnamed(&known, 2), None);
        let ada = Principal::of_tenant("acme", "ada").unwrap();
        known.add(Token::new("one more"), ada).unwrap();
        assert_eq!(unnamed(&known, 1), None);
        assert_eq!(compared(&known, 1, COMPARED), Some(COMPARED_UNNAMED + 1));
    }

    #[test]
    fn an_address_may_name_its_sandbox() {
        let named = |host: &str, query: &str| {
            let request = Request::builder()
                .uri(format!("/files?{query}"))
                .header("host", host);
            named(&request.body(Body::empty()).unwrap())
        };
        assert_eq!(named("gw:8888", "path=a&sandbox=s-1").as_deref(), Some("s-1"));
        assert_eq!(named("49983-s-1.e2b.example", "path=a").as_deref(), Some("s-1"));
        assert_eq!(named("49983-s.e2b.example", "sandbox=t").as_deref(), Some("t"));
        for host in [
            "gw.example",
            "127.0.0.1:8888",
            "x-s.example",
            "1-.example",
            "-s.example",
        ] {
            assert_eq!(named(host, "path=a&sandbox="), None, "{host}");
        }
    }
}
