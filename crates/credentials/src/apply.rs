//! A secret in a request: added, or in the place of its placeholder.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use himalia_model::credential::CredentialKind;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use thiserror::Error;
use time::OffsetDateTime;

use crate::mask::percent_encoded;
use crate::sigv4::{Signing, date, is_s3};
use crate::{Credential, SecretText, Unusable};

const AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
const AMZ_SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const AMZ_CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const SIGNATURE: &str = "AWS4-HMAC-SHA256";
/// Payload hash that leaves a body out of the signature.
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
/// Most bytes of a value with a placeholder in it.
const PLACE_BYTES: usize = 16 * 1024;

/// Reasons why a secret cannot be added to a request. No text has a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// The region or the service of a signature is not known.
    #[error("its definition has no {0}, and the request is not signed for one")]
    Scope(&'static str),
    /// Each part of the body is signed with the key of the client.
    #[error("the parts of the body are signed, which cannot be done again; send it unsigned, or whole")]
    SignedChunks,
    /// The signature is in the URL.
    #[error("the URL is signed (X-Amz-Signature); sign a header instead")]
    SignedUrl,
    /// There is no token for it now.
    #[error("{0}")]
    Unusable(Unusable),
    /// The header or URL with the secret is malformed.
    #[error("the request with it is not well-formed")]
    Malformed,
}

/// Result of adding a secret to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// The secret is in it.
    Done,
    /// The request has no placeholder, and is as it was.
    NoPlaceholder,
    /// The hash of its body is needed: the same again with it.
    NeedsHash,
}

/// The SHA-256 of a body, if it is known.
pub type PayloadHash = Option<[u8; 32]>;

impl Credential {
    /// Adds the secret to a request to a host of it, whose header `host` is set, in the place of what the client has put there.
    ///
    /// # Errors
    /// It cannot be added.
    pub fn add(
        &self,
        request: &mut Parts,
        body: PayloadHash,
        now: OffsetDateTime,
    ) -> Result<ApplyOutcome, ApplyError> {
        let secret = self.value.value.expose();
        match self.definition.kind() {
            CredentialKind::Header { name, prefix } => {
                let name = HeaderName::try_from(name).map_err(|_| ApplyError::Malformed)?;
                set(&mut request.headers, name, &format!("{prefix}{secret}"))?;
            }
            CredentialKind::OAuth(_) | CredentialKind::Bearer => {
                self.check_usable()?;
                set(&mut request.headers, AUTHORIZATION, &format!("Bearer {secret}"))?;
            }
            CredentialKind::Basic { user } => {
                set(
                    &mut request.headers,
                    AUTHORIZATION,
                    &basic(&format!("{user}:{secret}")),
                )?;
            }
            CredentialKind::Query { parameter } => {
                let others = parameters(&request.uri).filter(|pair| !is_parameter(pair, parameter));
                let own = format!(
                    "{}={}",
                    percent_encoded(parameter, "-_.~"),
                    percent_encoded(secret, "-_.~")
                );
                let query: Vec<&str> = others.chain([own.as_str()]).collect();
                let query = query.join("&");
                set_query(request, &query)?;
            }
            CredentialKind::AwsSigV4 { .. } => return self.sign(request, body, now),
        }
        Ok(ApplyOutcome::Done)
    }

    /// Puts the secret into a request to a host of it, in the place of the placeholder, where the kind of the credential has it. A
    /// request without one stays as it is.
    ///
    /// # Errors
    /// It cannot be put there.
    pub fn replace(
        &self,
        request: &mut Parts,
        body: PayloadHash,
        now: OffsetDateTime,
    ) -> Result<ApplyOutcome, ApplyError> {
        let placeholder = self.placeholder();
        let secret = self.value.value.expose();
        match self.definition.kind() {
            CredentialKind::Header { name, .. } => {
                let name = HeaderName::try_from(name).map_err(|_| ApplyError::Malformed)?;
                in_header(&mut request.headers, &name, &placeholder, secret)
            }
            CredentialKind::OAuth(_) | CredentialKind::Bearer | CredentialKind::Basic { .. } => {
                if self.unusable.is_some() && self.is_wanted(request) {
                    self.check_usable()?;
                }
                in_header(&mut request.headers, &AUTHORIZATION, &placeholder, secret)
            }
            CredentialKind::Query { parameter } => {
                let mut found = false;
                let own = format!(
                    "{}={}",
                    percent_encoded(parameter, "-_.~"),
                    percent_encoded(secret, "-_.~")
                );
                let query: Vec<&str> = parameters(&request.uri)
                    .map(|pair| {
                        let value = pair.split_once('=').map_or("", |(_, value)| value);
                        let is_place = is_parameter(pair, parameter) && value == placeholder;
                        found |= is_place;
                        if is_place { own.as_str() } else { pair }
                    })
                    .collect();
                if !found {
                    return Ok(ApplyOutcome::NoPlaceholder);
                }
                let query = query.join("&");
                set_query(request, &query)?;
                Ok(ApplyOutcome::Done)
            }
            CredentialKind::AwsSigV4 { .. } => {
                if parameters(&request.uri)
                    .any(|pair| is_parameter(pair, "X-Amz-Credential") && pair.contains(placeholder.as_str()))
                {
                    return Err(ApplyError::SignedUrl);
                }
                match scope(&request.headers) {
                    Some(scope) if scope.access_key == placeholder => self.sign(request, body, now),
                    _ => Ok(ApplyOutcome::NoPlaceholder),
                }
            }
        }
    }

    fn check_usable(&self) -> Result<(), ApplyError> {
        match &self.unusable {
            Some(reason) => Err(ApplyError::Unusable(reason.clone())),
            None => Ok(()),
        }
    }

    /// True if the header that carries the secret holds the placeholder.
    pub fn is_wanted(&self, request: &Parts) -> bool {
        let placeholder = self.placeholder();
        let mut values = request.headers.get_all(AUTHORIZATION).iter();
        values.any(|value| {
            let text = value.to_str().ok().filter(|text| text.len() <= PLACE_BYTES);
            text.is_some_and(|text| with_secret(text, &placeholder, "").is_some())
        })
    }

    /// Signs a request anew.
    fn sign(
        &self,
        request: &mut Parts,
        body: PayloadHash,
        now: OffsetDateTime,
    ) -> Result<ApplyOutcome, ApplyError> {
        let CredentialKind::AwsSigV4 {
            access_key,
            region,
            service,
        } = self.definition.kind()
        else {
            return Ok(ApplyOutcome::NoPlaceholder);
        };
        let of_request = scope(&request.headers);
        let from_request = |part: fn(&Scope) -> &String| of_request.as_ref().map(part).cloned();
        let region = region.clone().or_else(|| from_request(|scope| &scope.region));
        let region = region.ok_or(ApplyError::Scope("region"))?;
        let service = service.clone().or_else(|| from_request(|scope| &scope.service));
        let service = service.ok_or(ApplyError::Scope("service"))?;
        if parameters(&request.uri).any(|pair| is_parameter(pair, "X-Amz-Signature")) {
            return Err(ApplyError::SignedUrl);
        }
        let said = request.headers.get(AMZ_CONTENT_SHA256);
        let said = said.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let hash = match (said, body) {
            (Some(said), _) if said.starts_with("STREAMING-AWS4") => return Err(ApplyError::SignedChunks),
            (Some(said), _) => said,
            (None, _) if is_s3(&service) => {
                let unsigned = HeaderValue::from_static(UNSIGNED);
                request.headers.insert(AMZ_CONTENT_SHA256, unsigned);
                UNSIGNED.to_owned()
            }
            (None, Some(hash)) => hex::encode(hash),
            (None, None) => return Ok(ApplyOutcome::NeedsHash),
        };
        let headers = &mut request.headers;
        headers.remove(AUTHORIZATION);
        headers.remove(AMZ_SECURITY_TOKEN);
        set(headers, AMZ_DATE, &date(now))?;
        if let Some(token) = &self.value.session_token {
            set(headers, AMZ_SECURITY_TOKEN, token.expose())?;
        }
        let signing = Signing {
            access_key,
            secret_key: self.value.value.expose(),
            region: &region,
            service: &service,
            now,
        };
        let (path, query) = (request.uri.path(), request.uri.query().unwrap_or_default());
        let text = signing.authorization(request.method.as_str(), path, query, headers, &hash);
        set(headers, AUTHORIZATION, &text)?;
        Ok(ApplyOutcome::Done)
    }
}

/// Access key, region and service of a client's signature.
struct Scope {
    access_key: String,
    region: String,
    service: String,
}

fn scope(headers: &HeaderMap) -> Option<Scope> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (_, after) = text.strip_prefix(SIGNATURE)?.split_once("Credential=")?;
    let scope = after.split([',', ' ']).next()?;
    let mut parts = scope.split('/');
    let access_key = parts.next()?.to_owned();
    // Then the day.
    parts.next()?;
    let plain = |part: &str| {
        !part.is_empty()
            && part.len() <= 64
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let region = parts.next().filter(|part| plain(part))?.to_owned();
    let service = parts.next().filter(|part| plain(part))?.to_owned();
    Some(Scope {
        access_key,
        region,
        service,
    })
}

fn basic(text: &str) -> String {
    format!("Basic {}", STANDARD.encode(text))
}

/// Sets a header that no debug text shows.
fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), ApplyError> {
    let mut value = HeaderValue::try_from(value).map_err(|_| ApplyError::Malformed)?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

/// Replaces a placeholder in the values of a header, also inside of `Basic`.
fn in_header(
    headers: &mut HeaderMap,
    name: &HeaderName,
    placeholder: &str,
    secret: &str,
) -> Result<ApplyOutcome, ApplyError> {
    let values: Vec<HeaderValue> = headers.get_all(name).iter().cloned().collect();
    let mut applied = ApplyOutcome::NoPlaceholder;
    let mut replaced = Vec::with_capacity(values.len());
    for value in values {
        let text = value.to_str().ok().filter(|text| text.len() <= PLACE_BYTES);
        let text = text.and_then(|text| with_secret(text, placeholder, secret));
        replaced.push(match text {
            None => value,
            Some(text) => {
                applied = ApplyOutcome::Done;
                let mut value = HeaderValue::try_from(text.expose()).map_err(|_| ApplyError::Malformed)?;
                value.set_sensitive(true);
                value
            }
        });
    }
    if applied == ApplyOutcome::Done {
        headers.remove(name);
        for value in replaced {
            headers.append(name, value);
        }
    }
    Ok(applied)
}

/// `None`: there is no placeholder in it.
fn with_secret(text: &str, placeholder: &str, secret: &str) -> Option<SecretText> {
    if text.contains(placeholder) {
        return Some(SecretText::new(text.replace(placeholder, secret)));
    }
    let (scheme, encoded) = text.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let with = SecretText::new(
        decoded
            .contains(placeholder)
            .then(|| decoded.replace(placeholder, secret))?,
    );
    Some(SecretText::new(basic(with.expose())))
}

fn parameters(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
}

/// True if a pair of a query has this name, in any percent-encoding.
fn is_parameter(pair: &str, name: &str) -> bool {
    let written = pair.split_once('=').map_or(pair, |(name, _)| name);
    let mut rest = written.as_bytes();
    let mut decoded = Vec::with_capacity(rest.len());
    while let [byte, after @ ..] = rest {
        let escaped = after.split_at_checked(2).filter(|_| *byte == b'%');
        let escaped = escaped.and_then(|(two, after)| {
            let digits = std::str::from_utf8(two).ok()?;
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        let (one, after) = escaped.unwrap_or((*byte, after));
        decoded.push(one);
        rest = after;
    }
    decoded == name.as_bytes()
}

fn set_query(request: &mut Parts, query: &str) -> Result<(), ApplyError> {
    let path = PathAndQuery::try_from(format!("{}?{query}", request.uri.path()))
        .map_err(|_| ApplyError::Malformed)?;
    let mut parts = std::mem::take(&mut request.uri).into_parts();
    parts.path_and_query = Some(path);
    request.uri = Uri::from_parts(parts).map_err(|_| ApplyError::Malformed)?;
    Ok(())
}

#[cfg(test)]
mod tests;
