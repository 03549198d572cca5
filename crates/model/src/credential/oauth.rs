//! OAuth settings of a credential: grant, authorization server and client.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UrlScheme;
use crate::HttpUrl;
use crate::network::Host;

/// Most bytes of a URL, of a client's id, and of scopes.
const TEXT_BYTES: usize = 1024;

/// Grant that the gateway exchanges for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OAuthGrant {
    /// Client id and client secret.
    ClientCredentials,
    /// A refresh token that was set with the credential.
    RefreshToken,
    /// The consent of a person, who grants it once.
    AuthorizationCode,
}

impl OAuthGrant {
    /// As in a definition, and as the authorization server calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientCredentials => "client_credentials",
            Self::RefreshToken => "refresh_token",
            Self::AuthorizationCode => "authorization_code",
        }
    }
}

/// Endpoints that return tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// The addresses, as they are.
    Endpoints {
        /// Authorization page, where a person consents.
        authorization: Option<HttpUrl>,
        /// Token endpoint.
        token: HttpUrl,
    },
    /// Issuer. The endpoints are read from its metadata.
    Issuer(HttpUrl),
    /// The protected resource names its authorization servers. It chooses where a person consents, and no secret that was set with the
    /// credential goes there.
    Resource,
}

/// OAuth part of a credential's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuth {
    grant: OAuthGrant,
    source: TokenSource,
    /// With its text as it was written: it identifies the resource.
    resource: Option<(HttpUrl, String)>,
    issuer_text: Option<String>,
    client_id: Option<String>,
    scope: Option<String>,
}

impl OAuth {
    /// Grant that the gateway exchanges for tokens.
    pub fn grant(&self) -> OAuthGrant {
        self.grant
    }

    /// Endpoints that return tokens.
    pub fn source(&self) -> &TokenSource {
        &self.source
    }

    /// Resource for which the tokens are valid (RFC 8707).
    pub fn resource(&self) -> Option<&HttpUrl> {
        self.resource.as_ref().map(|(url, _)| url)
    }

    /// The same as it was written.
    pub fn resource_text(&self) -> Option<&str> {
        self.resource.as_ref().map(|(_, text)| text.as_str())
    }

    /// The authorization server as it was written, which is how it names itself.
    pub fn issuer_text(&self) -> Option<&str> {
        self.issuer_text.as_deref()
    }

    /// The id of the gateway with the authorization server; `None`: the gateway registers itself.
    pub fn client_id(&self) -> Option<&str> {
        self.client_id.as_deref()
    }

    /// The scopes that are asked for, with spaces between; `None`: those that the server gives by itself.
    pub fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }
}

/// The members of kind `oauth2`, as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OAuthFields {
    /// For `oauth2`: `client_credentials`, `authorization_code` or `refresh_token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
    /// For `oauth2`: issuer of the tokens. The endpoints are read from its metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// For `oauth2`: URL of the resource, for example an MCP server. Without `issuer`, the metadata of the resource names the authorization
    /// server. This works only for `authorization_code` without `client_secret`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// For `oauth2`: authorization page, if the authorization server has no metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_url: Option<String>,
    /// For `oauth2`: token endpoint, if the authorization server has no metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
    /// For `oauth2`: client id of this gateway. If it is missing, `authorization_code` registers the gateway as a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// For `oauth2`: scopes, separated by spaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

impl TryFrom<&OAuthFields> for OAuth {
    type Error = String;

    /// # Errors
    /// What is wrong, beginning with the name of the member.
    fn try_from(fields: &OAuthFields) -> Result<Self, String> {
        let grant = match fields.grant.as_deref() {
            Some("client_credentials") => OAuthGrant::ClientCredentials,
            Some("authorization_code") => OAuthGrant::AuthorizationCode,
            Some("refresh_token") => OAuthGrant::RefreshToken,
            Some(other) => {
                return Err(format!(
                    "grant: {other:?} must be one of client_credentials, authorization_code, refresh_token"
                ));
            }
            None => return Err("grant: is needed".to_owned()),
        };
        let authorization = server("authorization_url", fields.authorization_url.as_deref())?;
        let token = server("token_url", fields.token_url.as_deref())?;
        let issuer = server("issuer", fields.issuer.as_deref())?;
        let resource = match &fields.resource {
            Some(text) => Some((url("resource", text)?, text.clone())),
            None => None,
        };
        let is_code = grant == OAuthGrant::AuthorizationCode;
        if authorization.is_some() && !is_code {
            return Err("authorization_url: is for grant authorization_code alone".to_owned());
        }
        let issuer_text = fields.issuer.clone();
        let source = match (token, issuer) {
            (Some(_), Some(_)) => return Err("issuer: cannot be combined with token_url".to_owned()),
            (Some(_), None) if is_code && authorization.is_none() => {
                return Err("authorization_url: is needed beside token_url".to_owned());
            }
            (Some(token), None) => TokenSource::Endpoints { authorization, token },
            (None, _) if authorization.is_some() => {
                return Err("token_url: is needed beside authorization_url".to_owned());
            }
            (None, Some(issuer)) => TokenSource::Issuer(issuer),
            (None, None) if resource.is_some() && !is_code => {
                return Err(format!(
                    "issuer: is needed, or token_url: with grant {} a secret is sent to the authorization server, which resource must not choose",
                    grant.as_str()
                ));
            }
            (None, None) if resource.is_some() => TokenSource::Resource,
            (None, None) if is_code => return Err("issuer: is needed, or resource, or token_url".to_owned()),
            (None, None) => return Err("issuer: is needed, or token_url".to_owned()),
        };
        let client_id = fields.client_id.as_deref().map(|id| printable("client_id", id));
        let client_id = client_id.transpose()?;
        let registers = is_code && !matches!(source, TokenSource::Endpoints { .. });
        if client_id.is_none() && !registers {
            return Err("client_id: is needed".to_owned());
        }
        let scope = fields.scope.as_deref().map(|scope| printable("scope", scope));
        Ok(Self {
            grant,
            source,
            resource,
            issuer_text,
            client_id,
            scope: scope.transpose()?,
        })
    }
}

impl From<OAuth> for OAuthFields {
    fn from(oauth: OAuth) -> Self {
        let text = |url: HttpUrl| url.as_str().to_owned();
        let (authorization_url, token_url) = match oauth.source {
            TokenSource::Endpoints { authorization, token } => (authorization.map(text), Some(text(token))),
            TokenSource::Issuer(_) | TokenSource::Resource => (None, None),
        };
        Self {
            grant: Some(oauth.grant.as_str().to_owned()),
            issuer: oauth.issuer_text,
            resource: oauth.resource.map(|(_, text)| text),
            authorization_url,
            token_url,
            client_id: oauth.client_id,
            scope: oauth.scope,
        }
    }
}

/// Returns true for HTTPS and for addresses of this machine.
pub fn is_confidential(url: &HttpUrl) -> bool {
    let local = match url.host() {
        Host::Address(address) => address.is_loopback(),
        Host::Name(name) => name == "localhost",
    };
    url.scheme() == UrlScheme::Https || local
}

fn url(member: &str, text: &str) -> Result<HttpUrl, String> {
    if text.len() > TEXT_BYTES {
        return Err(format!("{member}: has more than {TEXT_BYTES} bytes"));
    }
    HttpUrl::parse(text).map_err(|reason| format!("{member}: {reason}"))
}

/// An address that secrets are sent to.
fn server(member: &str, text: Option<&str>) -> Result<Option<HttpUrl>, String> {
    let Some(text) = text else { return Ok(None) };
    let url = url(member, text)?;
    if !is_confidential(&url) {
        return Err(format!(
            "{member}: {text:?} is not https://; http:// is for addresses of this machine"
        ));
    }
    Ok(Some(url))
}

fn printable(member: &str, text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > TEXT_BYTES || !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err(format!(
            "{member}: has not 1 to {TEXT_BYTES} printable ASCII characters"
        ));
    }
    Ok(text.to_owned())
}
