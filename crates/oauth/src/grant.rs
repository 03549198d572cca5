//! The consent of a person: to the page of the authorization server, and back.

use url::Url;

use crate::OAuthError;
use crate::discovery::{Server, confidential};

const WHAT: &str = "authorization endpoint";

/// Parameters of an authorization request.
#[derive(Clone, Copy, Debug)]
pub struct AuthorizationRequest<'a> {
    pub client_id: &'a str,
    /// Redirect URI of the client.
    pub redirect_uri: &'a str,
    /// Value that the redirect must return.
    pub state: &'a str,
    /// PKCE challenge: the hash of the verifier that goes with the code.
    pub challenge: &'a str,
    pub scope: Option<&'a str>,
}

/// Parameters of the redirect from the authorization server.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The authorization code, which is valid once.
    pub code: Option<String>,
    /// Error of the authorization server, in place of `code`.
    pub error: Option<String>,
    /// The server's words about the error.
    pub error_description: Option<String>,
    /// Issuer of the redirect (RFC 9207).
    pub issuer: Option<String>,
}

/// The page where a person consents.
///
/// # Errors
/// The server has none.
pub fn authorization_url(server: &Server, asked: &AuthorizationRequest<'_>) -> Result<String, OAuthError> {
    let page = server.authorization.as_deref();
    let page = page.ok_or_else(|| OAuthError::answer(WHAT, "the authorization server has none"))?;
    let page = confidential(WHAT, "its address", page)?;
    let url = Url::parse(page.as_str());
    let mut url = url.map_err(|error| OAuthError::answer(WHAT, error.to_string()))?;
    {
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", asked.client_id)
            .append_pair("redirect_uri", asked.redirect_uri)
            .append_pair("state", asked.state)
            .append_pair("code_challenge", asked.challenge)
            .append_pair("code_challenge_method", "S256");
        if let Some(scope) = asked.scope {
            query.append_pair("scope", scope);
        }
        if let Some(resource) = &server.resource {
            query.append_pair("resource", resource);
        }
    }
    Ok(url.into())
}

/// The code of an answer, if this server has sent it.
///
/// # Errors
/// It was refused, or comes from another server.
pub fn check_answer(server: &Server, answer: Answer) -> Result<String, OAuthError> {
    match (&answer.issuer, &server.issuer) {
        (Some(named), Some(own)) if named != own => {
            return Err(OAuthError::answer(
                WHAT,
                "another authorization server sent the answer (iss)",
            ));
        }
        (None, _) if server.names_issuer => {
            return Err(OAuthError::answer(
                WHAT,
                "the answer does not name its authorization server (iss)",
            ));
        }
        _ => {}
    }
    if let Some(error) = answer.error {
        return Err(OAuthError::refused(&error, answer.error_description.as_deref()));
    }
    answer
        .code
        .filter(|code| !code.is_empty())
        .ok_or_else(|| OAuthError::answer(WHAT, "the answer has no code"))
}
