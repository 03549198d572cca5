//! Finds the authorization server of a resource, and its addresses.

use himalia_credentials::challenge_parameter;
use himalia_model::HttpUrl;
use himalia_model::credential::{OAuth, TokenSource, is_confidential};
use http::StatusCode;
use http::header::WWW_AUTHENTICATE;
use serde::{Deserialize, Serialize};

use crate::OAuthError;
use crate::call::{Transport, get, json, post_to_mcp};

const RESOURCE: &str = "metadata of the protected resource";
const SERVER: &str = "metadata of the authorization server";
/// Authorization servers of a resource that are looked at.
const SERVERS_MAX: usize = 16;
/// Most bytes of the scopes that a resource names.
const SCOPE_BYTES: usize = 4096;

/// An authorization server. It is kept with the tokens that it gave: they are refreshed there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one server")]
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
    /// True if the id of a client may be the address of its metadata.
    #[serde(default)]
    pub takes_client_documents: bool,
    /// Resource parameter of token requests (RFC 8707).
    pub resource: Option<String>,
    /// The scopes that the resource wants of a token, if it names some.
    #[serde(default)]
    pub scope: Option<String>,
}

#[derive(Default, Deserialize)]
struct PublishedResource {
    resource: Option<String>,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// A resource, as it describes itself.
struct Resource {
    published: PublishedResource,
    /// The scopes of its challenge.
    challenged: Option<String>,
}

impl Resource {
    /// The scopes to ask for: those of the challenge, or all that the resource has.
    fn scope(&self) -> Option<String> {
        let supported = || self.published.scopes_supported.join(" ");
        let scope = self.challenged.clone().unwrap_or_else(supported);
        Some(scope).filter(|scope| is_scope(scope))
    }
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
    client_id_metadata_document_supported: bool,
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
            let found = of_resource(transport, url).await?;
            let scope = found.scope();
            let published = found.published;
            let issuer = published
                .authorization_servers
                .into_iter()
                .take(SERVERS_MAX)
                .next();
            // A resource that publishes nothing is its own authorization server, as earlier versions of MCP have it.
            let issuer = issuer.unwrap_or_else(|| origin(url));
            let server = of_server(transport, &issuer, Pkce::Published).await?;
            Ok(Server {
                resource: published.resource.or(resource),
                scope,
                ..server
            })
        }
        (TokenSource::Issuer(_) | TokenSource::Resource, _) => {
            let server = of_server(transport, oauth.issuer_text().unwrap_or_default(), Pkce::Assumed).await?;
            Ok(Server { resource, ..server })
        }
    }
}

/// Fetches the metadata of a protected resource (RFC 9728).
async fn of_resource(transport: &dyn Transport, url: &HttpUrl) -> Result<Resource, OAuthError> {
    let challenges = challenges(transport, url).await;
    let of_challenge = |name| {
        challenges
            .iter()
            .find_map(|challenge| challenge_parameter(challenge, name).map(str::to_owned))
    };
    let (named, challenged) = (of_challenge("resource_metadata"), of_challenge("scope"));
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
        return Ok(Resource {
            published,
            challenged,
        });
    }
    Ok(Resource {
        published: PublishedResource::default(),
        challenged,
    })
}

/// The challenges of a resource to a request without a token. An MCP server takes POST, and since its revision 2026-07-28 nothing else.
async fn challenges(transport: &dyn Transport, url: &HttpUrl) -> Vec<String> {
    let what = "the protected resource";
    let mut answer = post_to_mcp(transport, what, url).await.ok();
    if answer
        .as_ref()
        .is_some_and(|answer| is_for_others(answer.status()))
    {
        // One that is not protected may answer without an end: then there is nothing to learn from it.
        answer = get(transport, what, url, "application/json, text/event-stream")
            .await
            .ok();
    }
    let refused = answer.filter(|answer| answer.status() == StatusCode::UNAUTHORIZED);
    let refused = refused.iter();
    let values = refused.flat_map(|answer| answer.headers().get_all(WWW_AUTHENTICATE));
    values
        .filter_map(|value| value.to_str().ok())
        .map(str::to_owned)
        .collect()
}

/// True if a request of MCP has come to something that does not know it.
fn is_for_others(status: StatusCode) -> bool {
    status.is_client_error() && !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
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

/// Rule for a server whose metadata do not say whether it supports PKCE.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pkce {
    /// It is refused, as MCP demands for a server that a resource names.
    Published,
    /// It is accepted: the operator or the tenant has named the server.
    Assumed,
}

/// Fetches the metadata of an authorization server (RFC 8414, `OpenID` Connect Discovery).
async fn of_server(transport: &dyn Transport, issuer: &str, pkce: Pkce) -> Result<Server, OAuthError> {
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
            return checked(json(SERVER, &response)?, issuer, pkce);
        }
        last = response.status();
    }
    Err(OAuthError::answer(
        SERVER,
        format!("{issuer} publishes none (status {})", last.as_u16()),
    ))
}

fn checked(published: PublishedServer, issuer: &str, pkce: Pkce) -> Result<Server, OAuthError> {
    let bad = |reason: String| OAuthError::answer(SERVER, reason);
    if published.issuer != issuer {
        return Err(bad(format!(
            "the issuer is {:?}, not {issuer:?}",
            crate::shown(&published.issuer)
        )));
    }
    let supports_pkce = match published.code_challenge_methods_supported {
        Some(methods) => methods.iter().any(|method| method == "S256"),
        None => pkce == Pkce::Assumed,
    };
    if !supports_pkce {
        return Err(bad(
            "code_challenge_methods_supported does not have S256: the server does not support PKCE"
                .to_owned(),
        ));
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
        takes_client_documents: published.client_id_metadata_document_supported,
        resource: None,
        scope: None,
    })
}

/// True if a text of a server can be a scope parameter.
fn is_scope(text: &str) -> bool {
    (1..=SCOPE_BYTES).contains(&text.len())
        && text
            .bytes()
            .all(|byte| matches!(byte, b' ' | b'!' | b'#'..=b'[' | b']'..=b'~'))
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

#[cfg(test)]
mod tests {
    use super::*;

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
