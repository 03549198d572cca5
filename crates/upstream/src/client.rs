//! Requests to one server: with its credential, without redirects, and with what is read of a response in bounds.

use std::error::Error as _;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use himalia_credentials::{
    ApplyError, ApplyOutcome, Credential, CredentialSource, LiveMask, Mask, SecretText, Unusable,
    ask_for_whole, challenge_parameter, is_part,
};
use himalia_model::{HttpUrl, credential::UrlScheme};
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, LOCATION, USER_AGENT, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use reqwest::{Client, redirect};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::{Body, SentFlag, clip};

/// Longest wait for a connection, its TLS handshake included.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Time that an idle connection is kept.
const KEPT_TIME: Duration = Duration::from_secs(30);
/// Bytes of a response that is an error, which are read for its text.
pub const ERROR_BYTES: usize = 16 * 1024;

/// The client of one server.
pub struct Http {
    client: Client,
    credential: Option<CredentialRef>,
    missing_grant: Mutex<Option<String>>,
    last_token: Mutex<Option<SecretText>>,
}

struct CredentialRef {
    owner: String,
    names: [String; 1],
    source: Arc<dyn CredentialSource>,
}

/// A response whose head has come.
pub struct IncomingResponse {
    pub status: StatusCode,
    headers: HeaderMap,
    pub body: Body,
}

/// Policy for a host that the credential is not bound to: fail, or send the request without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    /// It does not.
    Needed,
    /// It does.
    IfBound,
}

/// Reasons why there is no response.
#[derive(Debug)]
pub enum SendError {
    NotSent(String),
    /// The same, because a person has to grant the credential first: the text says how.
    NoGrant(String),
    /// Something may have been sent.
    Lost(String),
    /// There is one, which cannot be read.
    Unreadable(String),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(reason) | Self::NoGrant(reason) | Self::Lost(reason) | Self::Unreadable(reason) => {
                f.write_str(reason)
            }
        }
    }
}

impl Http {
    /// The client of a server of this owner (a tenant, or the operator), with the credential of this name, if it has one.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(
        owner: &str,
        credential: Option<&str>,
        credentials: &Arc<dyn CredentialSource>,
        needs_tls: bool,
    ) -> Result<Self, String> {
        himalia_tls::install_provider();
        let builder = Client::builder()
            .connect_timeout(CONNECT_TIME)
            .pool_idle_timeout(KEPT_TIME)
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            // One connection for each call: the one of a call that is given up is closed.
            .http1_only();
        // The certificates of the system are read for https only. Plain text is for the own network, without its proxy.
        let builder = if needs_tls {
            builder
        } else {
            builder.no_proxy().tls_certs_only([])
        };
        let client = builder
            .build()
            .map_err(|error| format!("TLS cannot be set up: {}", innermost(&error)))?;
        let credential = credential.map(|name| CredentialRef {
            owner: owner.to_owned(),
            names: [name.to_owned()],
            source: Arc::clone(credentials),
        });
        Ok(Self {
            client,
            credential,
            missing_grant: Mutex::default(),
            last_token: Mutex::default(),
        })
    }

    /// Sends a request whose URL is whole, to the host of `url`, once, with the credential, and waits for the head of the response, of
    /// whose body at most so many bytes are read. A wait ends when this is dropped, and the connection with it. A request whose token
    /// the server refuses is sent once more with another token, if there is one.
    ///
    /// # Errors
    /// [`SendError`] says whether something may have been sent.
    pub async fn send(
        &self,
        url: &HttpUrl,
        mut request: Request<Bytes>,
        secret: Secret,
        most: usize,
        sent: &SentFlag,
    ) -> Result<IncomingResponse, SendError> {
        let headers = request.headers_mut();
        headers.insert(HOST, host_of(url).map_err(SendError::NotSent)?);
        // A compressed body cannot be counted before it is unpacked, nor searched for the secret.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("himalia/", env!("CARGO_PKG_VERSION"))),
        );
        let credential = self.credential(url, secret).await.map_err(SendError::NotSent)?;
        let has_tokens = credential.as_ref().is_some_and(Credential::has_tokens);
        if has_tokens {
            let token = credential
                .as_ref()
                .map(|credential| credential.value.value.clone());
            *self.last_token.lock().unwrap_or_else(PoisonError::into_inner) = token;
        }
        let again = has_tokens.then(|| request.clone());
        let incoming = self
            .send_once(url, request, credential.clone(), most, sent)
            .await?;
        let incoming = match (again, credential) {
            // The server says that it has done nothing, since the token is not good.
            (Some(again), Some(refused)) if incoming.refuses_token() => match self.renewed(&refused).await {
                Some(renewed) => self.send_once(url, again, Some(renewed), most, sent).await?,
                None => incoming,
            },
            (_, Some(refused)) => {
                self.note_scope(&incoming, &refused).await;
                incoming
            }
            _ => incoming,
        };
        let encoding = incoming.header(&CONTENT_ENCODING).unwrap_or_default();
        if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
            return Err(SendError::Unreadable(format!(
                "the response is encoded ({}), though it was asked not to be",
                clip(encoding)
            )));
        }
        Ok(incoming)
    }

    /// One request, with this credential.
    async fn send_once(
        &self,
        url: &HttpUrl,
        request: Request<Bytes>,
        credential: Option<Credential>,
        most: usize,
        sent: &SentFlag,
    ) -> Result<IncomingResponse, SendError> {
        let (mut head, body) = request.into_parts();
        let mut mask = None;
        let whole = credential.as_ref().is_some_and(Credential::sends_secret);
        if let Some(credential) = credential {
            if whole {
                ask_for_whole(&mut head.headers);
            }
            let hash = Some(Sha256::digest(&body).into());
            let added = credential.add(&mut head, hash, OffsetDateTime::now_utc());
            self.note_grant(&credential.name, &added);
            if !matches!(added, Ok(ApplyOutcome::Done)) {
                return Err(not_added(&credential.name, added));
            }
            mask = Some(LiveMask::new(vec![credential]));
        }
        let request = Request::from_parts(head, sent.watched(body));
        let request = reqwest::Request::try_from(request)
            .map_err(|error| SendError::NotSent(format!("the request: {}", innermost(&error))))?;
        let response = self.client.execute(request).await.map_err(|error| {
            let reason = masked(mask.as_mut().map(|mask| &**mask.current()), innermost(&error));
            if error.is_connect() || !sent.is_sent() {
                SendError::NotSent(format!("{}: {reason}", host_text(url)))
            } else {
                SendError::Lost(format!("{}: the connection ended ({reason})", host_text(url)))
            }
        })?;
        if whole && is_part(response.status(), response.headers()) {
            return Err(SendError::Unreadable(
                "the response is a part (206, or multipart/byteranges), in which a secret cannot be found"
                    .to_owned(),
            ));
        }
        Ok(IncomingResponse {
            status: response.status(),
            headers: masked_headers(response.headers(), mask.as_mut().map(|mask| &**mask.current())),
            body: Body::new(response, mask, most),
        })
    }

    /// Remembers whether the credential lacks the grant of a person.
    fn note_grant(&self, name: &str, added: &Result<ApplyOutcome, ApplyError>) {
        let missing = match added {
            Err(ApplyError::Unusable(Unusable::NoGrant(reason))) => Some(lacks(name, reason)),
            _ => None,
        };
        *self.missing_grant.lock().unwrap_or_else(PoisonError::into_inner) = missing;
    }

    /// The way to grant the credential, if the last request failed because a person has to.
    pub fn missing_grant(&self) -> Option<String> {
        let missing = self.missing_grant.lock();
        missing.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes the scopes that a token lacks, if the server refuses a request because of them.
    async fn note_scope(&self, incoming: &IncomingResponse, refused: &Credential) {
        if let (Some(scope), Some(CredentialRef { owner, source, .. })) =
            (incoming.missing_scope(), &self.credential)
            && refused.has_tokens()
        {
            source.lacks_scope(owner, refused, scope).await;
        }
    }

    /// True if the credential has another token than that of the last request. No authorization server is asked for one.
    pub async fn has_new_token(&self) -> bool {
        let Some(CredentialRef { owner, names, source }) = &self.credential else {
            return false;
        };
        let found = source.find(owner, names).await.unwrap_or_default();
        let mut tokens = found.into_iter().filter(Credential::has_tokens);
        let last = self
            .last_token
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        tokens.any(|one| !one.value.value.expose().is_empty() && Some(one.value.value) != last)
    }

    /// The credential with another token than the refused one, if there is one.
    async fn renewed(&self, refused: &Credential) -> Option<Credential> {
        let CredentialRef { owner, source, .. } = self.credential.as_ref()?;
        source.renewed(owner, refused).await
    }

    /// The credential of the server as it is now.
    async fn credential(&self, url: &HttpUrl, secret: Secret) -> Result<Option<Credential>, String> {
        let Some(CredentialRef { owner, names, source }) = &self.credential else {
            return Ok(None);
        };
        let [name] = names;
        let found = source.find(owner, names).await;
        let found = found.map_err(|_| "the gateway cannot read its credentials now".to_owned())?;
        let found = found.into_iter().find(|credential| credential.name == *name);
        let credential =
            found.ok_or_else(|| format!("the credential {name} does not exist, or was revoked"))?;
        if !credential.is_bound_to(url.scheme(), url.host(), url.port()) {
            if secret == Secret::IfBound {
                return Ok(None);
            }
            return Err(format!(
                "the credential {name} is not bound to {}",
                host_text(url)
            ));
        }
        if !credential.has_tokens() {
            return Ok(Some(credential));
        }
        let ready = source.ready(owner, credential).await;
        let ready = ready.map_err(|_| "the gateway cannot read its credentials now".to_owned())?;
        Ok(Some(ready))
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Http")
    }
}

impl fmt::Debug for IncomingResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incoming({}, {:?})", self.status, self.body)
    }
}

impl IncomingResponse {
    /// The value of a header, without secrets.
    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// True if the server refuses the token of the request (RFC 6750): nothing was done.
    fn refuses_token(&self) -> bool {
        let challenges = self.headers.get_all(WWW_AUTHENTICATE).iter();
        let mut schemes = challenges.filter_map(|value| value.as_bytes().get(..6));
        self.status == StatusCode::UNAUTHORIZED
            && schemes.any(|scheme| scheme.eq_ignore_ascii_case(b"bearer"))
    }

    /// The scopes that the token of the request lacks, if the server refuses it because of them (RFC 6750).
    fn missing_scope(&self) -> Option<&str> {
        if self.status != StatusCode::FORBIDDEN {
            return None;
        }
        let challenges = self.headers.get_all(WWW_AUTHENTICATE).iter();
        let mut challenges = challenges.filter_map(|value| value.to_str().ok());
        challenges.find_map(|challenge| {
            let is_scope = challenge_parameter(challenge, "error") == Some("insufficient_scope");
            challenge_parameter(challenge, "scope").filter(|scope| is_scope && !scope.trim().is_empty())
        })
    }

    /// The type of the body, without parameters, in lower case.
    pub fn media_type(&self) -> String {
        let whole = self.header(CONTENT_TYPE).unwrap_or_default();
        whole
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase()
    }

    /// Text of an error response, cut, and without secrets.
    pub async fn refusal(self) -> String {
        if self.status.is_redirection() {
            let to = self.header(LOCATION).unwrap_or("nowhere");
            return format!("a redirect to {}, which is not followed", clip(to));
        }
        let text = self.body.start(ERROR_BYTES).await;
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// True if a media type is JSON.
pub fn is_json(media_type: &str) -> bool {
    media_type == "application/json" || media_type.ends_with("+json") || media_type == "text/json"
}

/// Describes why a request is not sent without its credential.
fn not_added(name: &str, added: Result<ApplyOutcome, ApplyError>) -> SendError {
    match added {
        Err(ApplyError::Unusable(Unusable::NoGrant(reason))) => SendError::NoGrant(lacks(name, &reason)),
        Err(error) => SendError::NotSent(lacks(name, &error)),
        Ok(_) => SendError::NotSent(format!("the credential {name} cannot be added")),
    }
}

fn lacks(name: &str, reason: &dyn fmt::Display) -> String {
    format!("the credential {name} cannot be added: {reason}")
}

/// Copies the headers that callers read, without secrets.
fn masked_headers(headers: &HeaderMap, mask: Option<&Mask>) -> HeaderMap {
    let mut kept = headers.clone();
    for value in kept.values_mut() {
        if let Some(masked) = mask.and_then(|mask| mask.text(value.as_bytes())) {
            *value = HeaderValue::from_bytes(&masked).unwrap_or(HeaderValue::from_static("***"));
        }
    }
    kept
}

fn masked(mask: Option<&Mask>, text: String) -> String {
    let masked = mask.and_then(|mask| mask.text(text.as_bytes()));
    masked.map_or(text, |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn host_text(url: &HttpUrl) -> String {
    if url.port() == url.scheme().port() {
        url.host().to_string()
    } else {
        format!("{}:{}", url.host(), url.port())
    }
}

fn host_of(url: &HttpUrl) -> Result<HeaderValue, String> {
    HeaderValue::try_from(host_text(url)).map_err(|error| error.to_string())
}

/// True if one of these URLs needs TLS.
pub fn needs_tls<'a>(urls: impl IntoIterator<Item = &'a HttpUrl>) -> bool {
    urls.into_iter().any(|url| url.scheme() == UrlScheme::Https)
}

/// The cause at the bottom: the text of the error itself is the URL.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if error.source().is_none() {
        "failed".to_owned()
    } else {
        cause.to_string()
    }
}
