//! Finds the authorization server of a resource, and its addresses.

use himalia_model::HttpUrl;
use himalia_model::credential::{OAuth, TokenSource, is_confidential};
use http::StatusCode;
use http::header::WWW_AUTHENTICATE;
use serde::{Deserialize, Serialize};

use crate::OAuthError;
use crate::call::{Transport, get, json};

const RESOURCE: &str = "metadata of the protected resource";
const SERVER: &str = "metadata of the authorization server";
/// Authorization servers of a resource that are looked at.
const SERVERS_MAX: usize = 16;

/// An authorization server. It is kept with the tokens that it gave: they are refreshed there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Issuer that the server publishes. `None`: it publishes nothing.
    pub issuer: Option<String>,
    /// The page where a person consents.
    pub authorization: Option<String>,
    /// Token endpoint.
    pub token: String,
    /// Endpoint for dynamic client registration.
    pub registration: Option<String>,
    /// Revocation endpoint.
    pub revocation: Option<String>,
    /// True if the client's secret goes into the body, since the server takes no `Authorization` header.
    pub secret_in_body: bool,
    /// True if the server accepts clients without a secret.
    pub takes_public_clients: bool,
    /// True if the redirect back to the client names the issuer (RFC 9207).
    pub names_issuer: bool,
    /// Resource parameter of token requests (RFC 8707).
    pub resource: Option<String>,
}

#[derive(Deserialize)]
struct PublishedResource {
    resource: Option<String>,
    #[serde(default)]
    authorization_servers: Vec<String>,
}

#[derive(Deserialize)]
struct PublishedServer {
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: String,
    registration_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// Finds the authorization server of a credential.
///
/// # Errors
/// It cannot be found, or not be used.
pub async fn discover(transport: &dyn Transport, oauth: &OAuth) -> Result<Server, OAuthError> {
    let resource = oauth.resource_text().map(str::to_owned);
    match (oauth.source(), oauth.resource()) {
        (TokenSource::Endpoints { authorization, token }, _) => Ok(Server {
            authorization: authorization.as_ref().map(|url| url.as_str().to_owned()),
            token: token.as_str().to_owned(),
            takes_public_clients: true,
            resource,
            ..Server::default()
        }),
        (TokenSource::Resource, Some(url)) => {
            let published = of_resource(transport, url).await?;
            let issuer = published
                .authorization_servers
                .into_iter()
                .take(SERVERS_MAX)
                .next();
            // A resource that publishes nothing is its own authorization server, as earlier versions of MCP have it.
            let issuer = issuer.unwrap_or_else(|| origin(url));
            let server = of_server(transport, &issuer).await?;
            Ok(Server {
                resource: published.resource.or(resource),
                ..server
            })
        }
        (TokenSource::Issuer(_) | TokenSource::Resource, _) => {
            let server = of_server(transport, oauth.issuer_text().unwrap_or_default()).await?;
            Ok(Server { resource, ..server })
        }
    }
}

/// Fetches the metadata of a protected resource (RFC 9728).
async fn of_resource(transport: &dyn Transport, url: &HttpUrl) -> Result<PublishedResource, OAuthError> {
    let accept = "application/json, text/event-stream";
    // One that is not protected may answer without an end: then there is nothing to learn from it.
    let refused = get(transport, "the protected resource", url, accept).await.ok();
    let refused = refused.filter(|response| response.status() == StatusCode::UNAUTHORIZED);
    let named = refused.and_then(|response| {
        let mut challenges = response.headers().get_all(WWW_AUTHENTICATE).iter();
        challenges.find_map(|value| parameter(value.to_str().ok()?, "resource_metadata"))
    });
    let (path, query) = path_and_query(url);
    let base = format!("{}/.well-known/oauth-protected-resource", origin(url));
    let candidates = match named {
        Some(named) => vec![of_same_origin(url, named)?],
        None if path.is_empty() && query.is_empty() => vec![base],
        None => vec![format!("{base}{path}{query}"), base],
    };
    for candidate in candidates {
        let candidate = confidential(RESOURCE, "its address", &candidate)?;
        let response = get(transport, RESOURCE, &candidate, "application/json").await?;
        if !response.status().is_success() {
            continue;
        }
        let published: PublishedResource = json(RESOURCE, &response)?;
        if let Some(resource) = &published.resource {
            check_resource(url, resource)?;
        }
        return Ok(published);
    }
    Ok(PublishedResource {
        resource: None,
        authorization_servers: Vec::new(),
    })
}

/// The metadata of a resource are at the resource's own host: another one could choose the authorization server.
fn of_same_origin(url: &HttpUrl, named: String) -> Result<String, OAuthError> {
    let is_same = HttpUrl::parse(&named).is_ok_and(|named| named.has_origin_of(url));
    if is_same {
        return Ok(named);
    }
    let reason = format!(
        "its address ({:?}) is not at {}",
        crate::shown(&named),
        origin(url)
    );
    Err(OAuthError::answer(RESOURCE, reason))
}

/// The metadata must be of this resource, or of one that it is below.
fn check_resource(url: &HttpUrl, said: &str) -> Result<(), OAuthError> {
    let said_url = HttpUrl::parse(said).map_err(|reason| OAuthError::answer(RESOURCE, reason))?;
    let (path, _) = path_and_query(url);
    let (above, _) = path_and_query(&said_url);
    let is_below = path
        .strip_prefix(&above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if said_url.has_origin_of(url) && is_below {
        return Ok(());
    }
    Err(OAuthError::answer(
        RESOURCE,
        format!("it is that of {said_url}, not of {url}"),
    ))
}

/// Fetches the metadata of an authorization server (RFC 8414, `OpenID` Connect Discovery).
async fn of_server(transport: &dyn Transport, issuer: &str) -> Result<Server, OAuthError> {
    let url = confidential(SERVER, "the issuer", issuer)?;
    let (path, _) = path_and_query(&url);
    let origin = origin(&url);
    let mut candidates = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        candidates.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    let mut last = StatusCode::NOT_FOUND;
    for candidate in candidates {
        let candidate = HttpUrl::parse(&candidate).map_err(|reason| OAuthError::answer(SERVER, reason))?;
        let response = get(transport, SERVER, &candidate, "application/json").await?;
        if response.status().is_success() {
            return checked(json(SERVER, &response)?, issuer);
        }
        last = response.status();
    }
    Err(OAuthError::answer(
        SERVER,
        format!("{issuer} publishes none (status {})", last.as_u16()),
    ))
}

fn checked(published: PublishedServer, issuer: &str) -> Result<Server, OAuthError> {
    let bad = |reason: String| OAuthError::answer(SERVER, reason);
    if published.issuer.trim_end_matches('/') != issuer.trim_end_matches('/') {
        return Err(bad(format!(
            "the issuer is {:?}, not {issuer:?}",
            crate::shown(&published.issuer)
        )));
    }
    let pkce = published.code_challenge_methods_supported;
    if pkce.is_some_and(|methods| !methods.iter().any(|method| method == "S256")) {
        return Err(bad("it does not support PKCE with S256".to_owned()));
    }
    let url = |name: &str, text: Option<String>| {
        let checked = text.map(|text| confidential(SERVER, name, &text));
        Ok(checked.transpose()?.map(|url| url.as_str().to_owned()))
    };
    // Without a word about it, a server takes what RFC 8414 names as the default.
    let methods = published
        .token_endpoint_auth_methods_supported
        .unwrap_or_else(|| vec!["client_secret_basic".to_owned()]);
    let takes = |name: &str| methods.iter().any(|method| method == name);
    Ok(Server {
        issuer: Some(published.issuer),
        authorization: url("authorization_endpoint", published.authorization_endpoint)?,
        token: url("token_endpoint", Some(published.token_endpoint))?.unwrap_or_default(),
        registration: url("registration_endpoint", published.registration_endpoint)?,
        revocation: url("revocation_endpoint", published.revocation_endpoint)?,
        secret_in_body: !takes("client_secret_basic") && takes("client_secret_post"),
        takes_public_clients: takes("none"),
        names_issuer: published.authorization_response_iss_parameter_supported,
        resource: None,
    })
}

/// An address that secrets may be sent to.
pub(crate) fn confidential(what: &'static str, name: &str, text: &str) -> Result<HttpUrl, OAuthError> {
    match HttpUrl::parse(text) {
        Ok(url) if is_confidential(&url) => Ok(url),
        _ => Err(OAuthError::answer(
            what,
            format!("{name} ({:?}) must be an https:// address", crate::shown(text)),
        )),
    }
}

fn origin(url: &HttpUrl) -> String {
    let text = url.as_str();
    let (scheme, rest) = text.split_once("://").unwrap_or(("https", text));
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    format!("{scheme}://{host}")
}

/// Without a slash at the end of the path; the query with its `?`.
fn path_and_query(url: &HttpUrl) -> (String, String) {
    let rest = url.as_str().strip_prefix(&origin(url)).unwrap_or_default();
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (rest, String::new()),
    };
    (path.trim_end_matches('/').to_owned(), query)
}

/// A parameter of a challenge, with or without quotes.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    loop {
        let (before, after) = rest.split_once(name)?;
        let begins = before.is_empty() || before.ends_with([' ', ',', '\t']);
        if begins && let Some(value) = after.trim_start().strip_prefix('=') {
            let value = value.trim_start();
            let value = match value.strip_prefix('"') {
                Some(quoted) => quoted.split('"').next(),
                None => value.split([',', ' ']).next(),
            };
            return value.map(str::to_owned);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_read() {
        for (challenge, value) in [
            (r#"Bearer resource_metadata="https://a/x""#, Some("https://a/x")),
            (
                r#"Bearer error="invalid_token", resource_metadata=https://a/x, x=y"#,
                Some("https://a/x"),
            ),
            (r#"Bearer my_resource_metadata="https://b""#, None),
            ("Bearer", None),
        ] {
            assert_eq!(
                parameter(challenge, "resource_metadata").as_deref(),
                value,
                "{challenge}"
            );
        }
    }

    #[test]
    fn metadata_of_another_resource_is_refused() {
        let is_of = |resource: &str| {
            check_resource(&HttpUrl::parse("https://a.test/x/mcp").unwrap(), resource).is_ok()
        };
        assert!(is_of("https://a.test/x/mcp") && is_of("https://a.test") && is_of("https://a.test/x/"));
        for other in [
            "https://b.test/x/mcp",
            "http://a.test",
            "https://a.test/x/m",
            "https://a.test/x/mcp/y",
            "a",
        ] {
            assert!(!is_of(other), "{other}");
        }
    }
}
