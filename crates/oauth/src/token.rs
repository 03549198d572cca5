//! Tokens: got, refreshed, revoked.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use himalia_credentials::{SecretText, check_secret};
use http::HeaderValue;
use serde::{Deserialize, Serialize};
use url::form_urlencoded::Serializer;

use crate::OAuthError;
use crate::call::{Transport, json, post};
use crate::discovery::{Server, confidential};

const WHAT: &str = "token endpoint";
const REVOCATION: &str = "revocation endpoint";
const FORM: &str = "application/x-www-form-urlencoded";
/// Most bytes of a scope that is kept.
const SCOPE_BYTES: usize = 4096;

/// The gateway as the authorization server knows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    pub id: String,
    /// Client secret. `None`: a public client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
    /// True if the secret goes into the body.
    #[serde(default)]
    pub secret_in_body: bool,
}

/// Tokens from an authorization server.
#[derive(Clone, PartialEq, Eq)]
pub struct Tokens {
    /// For requests.
    pub access: SecretText,
    /// For the next tokens; `None`: there is none, or the one before stays.
    pub refresh: Option<SecretText>,
    /// Seconds for which the access token is good; `None`: the server does not say.
    pub expires_in: Option<u64>,
    /// The scopes, if they are not those that were asked for.
    pub scope: Option<String>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(…)")
    }
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: Option<SecretText>,
    refresh_token: Option<SecretText>,
    token_type: Option<String>,
    expires_in: Option<Seconds>,
    scope: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// Some servers write a number as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seconds {
    Whole(u64),
    Part(f64),
    Text(String),
}

impl Seconds {
    fn whole(self) -> Option<u64> {
        match self {
            Self::Whole(seconds) => Some(seconds),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is in range"
            )]
            Self::Part(seconds) => (0.0..1e15).contains(&seconds).then_some(seconds as u64),
            Self::Text(text) => text.trim().parse().ok(),
        }
    }
}

impl Client {
    /// Gets tokens for a grant: `grant_type` and its parameters. The resource is added.
    ///
    /// # Errors
    /// The server refuses, or there is no answer that can be used.
    pub async fn tokens(
        &self,
        transport: &dyn Transport,
        server: &Server,
        grant: &[(&str, &str)],
    ) -> Result<Tokens, OAuthError> {
        let mut form = grant.to_vec();
        form.extend(server.resource.as_deref().map(|resource| ("resource", resource)));
        let url = confidential(WHAT, "its address", &server.token)?;
        let (body, authorization) = self.authenticated(form)?;
        let response = post(transport, WHAT, &url, (FORM, body), authorization).await?;
        let answered: TokenResponse = json(WHAT, &response)?;
        if let Some(error) = answered.error {
            return Err(OAuthError::refused(&error, answered.error_description.as_deref()));
        }
        let bad = |reason: String| OAuthError::answer(WHAT, reason);
        let access = answered.access_token.filter(|_| response.status().is_success());
        let access = access.ok_or_else(|| {
            bad(format!(
                "status {}, and there is no access token",
                response.status().as_u16()
            ))
        })?;
        let named = answered.token_type.unwrap_or_else(|| "Bearer".to_owned());
        if !named.eq_ignore_ascii_case("bearer") {
            return Err(bad(format!(
                "tokens of type {:?} are not supported",
                crate::shown(&named)
            )));
        }
        check_secret(&access).map_err(|reason| bad(format!("the access token {reason}")))?;
        if let Some(refresh) = &answered.refresh_token {
            check_secret(refresh).map_err(|reason| bad(format!("the refresh token {reason}")))?;
        }
        Ok(Tokens {
            access,
            refresh: answered.refresh_token,
            expires_in: answered.expires_in.and_then(Seconds::whole),
            scope: answered.scope.filter(|scope| scope.len() <= SCOPE_BYTES),
        })
    }

    /// Revokes a token (RFC 7009). Gives whether the server can.
    ///
    /// # Errors
    /// The server refuses, or there is no answer.
    pub async fn revoke(
        &self,
        transport: &dyn Transport,
        server: &Server,
        (token, hint): (&SecretText, &str),
    ) -> Result<bool, OAuthError> {
        let Some(url) = &server.revocation else {
            return Ok(false);
        };
        let url = confidential(REVOCATION, "its address", url)?;
        let form = vec![("token", token.expose()), ("token_type_hint", hint)];
        let (body, authorization) = self.authenticated(form)?;
        let response = post(transport, REVOCATION, &url, (FORM, body), authorization).await?;
        if response.status().is_success() {
            return Ok(true);
        }
        Err(OAuthError::answer(
            REVOCATION,
            format!("status {}", response.status().as_u16()),
        ))
    }

    /// A form with the id of the client, and its secret where the server takes it.
    fn authenticated<'a>(
        &'a self,
        mut form: Vec<(&'a str, &'a str)>,
    ) -> Result<(Bytes, Option<HeaderValue>), OAuthError> {
        let mut authorization = None;
        match &self.secret {
            Some(secret) if !self.secret_in_body => {
                let pair = format!("{}:{}", form_encoded(&self.id), form_encoded(secret.expose()));
                let value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)));
                authorization = Some(value.map_err(|error| OAuthError::answer(WHAT, error.to_string()))?);
            }
            secret => {
                form.push(("client_id", &self.id));
                form.extend(secret.as_ref().map(|secret| ("client_secret", secret.expose())));
            }
        }
        let body = Serializer::new(String::new()).extend_pairs(form).finish();
        Ok((Bytes::from(body), authorization))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// As RFC 6749 2.3.1 has it: form encoding before Basic.
pub fn form_encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_secrets_are_encoded_as_forms() {
        assert_eq!(form_encoded("a b+c:d%\u{e4}"), "a+b%2Bc%3Ad%25%C3%A4");
        assert_eq!(form_encoded("plain-1._*"), "plain-1._*");
    }
}
