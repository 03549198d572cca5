//! `/v1/credentials`: secrets that the gateway adds to requests of sessions. Their values are written, and never read.

use axum::Json;
use axum::extract::{Path, State};
use himalia_engine::{
    CredentialFields, CredentialInfo, GivenSecrets, GrantAnswer, MAX_CREDENTIAL_HOSTS, NewCredential,
    OAuthFields, SecretText, TokenInfo, from_micros,
};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::Empty;
use super::input::{Cursor, Limit, Members, PAGE_MOST, Parameters, limit, page};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// The requested credential. Which members are needed follows from `kind`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewCredential")]
pub(crate) struct SetCredentialRequest {
    /// `header`, `query`, `bearer`, `basic`, `aws_sigv4` or `oauth2`.
    kind: String,
    /// The only hosts that it is sent to: `api.example.org`, `*.example.org` for the names below it, `api.example.org:8443`, or
    /// `http://api.example.org` for plain text.
    #[schemars(extend("maxItems" = MAX_CREDENTIAL_HOSTS))]
    hosts: Vec<String>,
    /// The secret: token, value of the header or the parameter, password or secret key. Of `oauth2` with grant `refresh_token`: the refresh
    /// token; the other grants have none.
    #[schemars(with = "Option<String>", extend("writeOnly" = true))]
    value: Option<SecretText>,
    /// For `aws_sigv4`: the token of a session.
    #[schemars(with = "Option<String>", extend("writeOnly" = true))]
    session_token: Option<SecretText>,
    /// The host behind `http://NAME.credential.internal/`, one of `hosts`. Default: the first one without a wildcard.
    base_url: Option<String>,
    /// For `header`: the name of the header.
    header: Option<String>,
    /// For `header`: the text before the value.
    prefix: Option<String>,
    /// For `query`: the name of the parameter.
    parameter: Option<String>,
    /// For `basic`: the user.
    user: Option<String>,
    /// For `aws_sigv4`: the id of the key.
    access_key: Option<String>,
    /// For `aws_sigv4`. Default: the region in the signature of the request.
    region: Option<String>,
    /// For `aws_sigv4`. Default: the region in the signature of the request.
    service: Option<String>,
    /// For `oauth2`: the way to get tokens: `client_credentials`, `authorization_code` (a person grants it) or `refresh_token`.
    grant: Option<String>,
    /// For `oauth2`: the authorization server, whose addresses are read from its metadata.
    issuer: Option<String>,
    /// For `oauth2`: the URL of the resource that the tokens are for, such as an MCP server. Without `issuer`, it names the authorization
    /// server.
    resource: Option<String>,
    /// For `oauth2`: the page where a person consents, if the authorization server publishes no metadata.
    authorization_url: Option<String>,
    /// For `oauth2`: the token endpoint, if the authorization server publishes no metadata.
    token_url: Option<String>,
    /// For `oauth2`: the id of this gateway with the authorization server. Without one, `authorization_code` registers the gateway there.
    client_id: Option<String>,
    /// For `oauth2`: the secret of the client.
    #[schemars(with = "Option<String>", extend("writeOnly" = true))]
    client_secret: Option<SecretText>,
    /// For `oauth2`: the requested scopes, separated by spaces.
    scope: Option<String>,
    /// A tenant of the configuration. Default: the tenant of the caller. Only the operator may name another tenant.
    tenant: Option<String>,
}

/// A credential, without its secret.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Credential")]
pub(crate) struct Credential {
    name: String,
    /// The tenant of its owner, or `operator`.
    owner: String,
    #[serde(flatten)]
    definition: CredentialFields,
    /// The caller that set it last; null: it is in the configuration.
    set_by: Option<String>,
    /// When it was set last; null: it is in the configuration.
    #[schemars(extend("format" = "date-time"))]
    set: Option<String>,
    /// For `oauth2`: the state of its tokens.
    tokens: Option<CredentialTokens>,
}

/// The state of the tokens of a credential. No token is shown.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CredentialTokens {
    /// `ready`, `grant_needed` or `ended`.
    state: &'static str,
    /// The reason why it is not `ready`, and the remedy.
    problem: Option<String>,
    /// The caller that granted it last.
    granted_by: Option<String>,
    /// When that was.
    #[schemars(extend("format" = "date-time"))]
    granted: Option<String>,
    /// Expiry of the access token. The gateway fetches the next token before that time.
    #[schemars(extend("format" = "date-time"))]
    expires: Option<String>,
    /// The scopes that the authorization server gave, if it said so.
    scope: Option<String>,
}

impl From<TokenInfo> for CredentialTokens {
    fn from(info: TokenInfo) -> Self {
        Self {
            state: info.state.as_str(),
            problem: info.problem,
            granted_by: info.granted_by,
            granted: date(info.granted_micros),
            expires: date(info.expires_micros),
            scope: info.scope,
        }
    }
}

fn date(micros: Option<i64>) -> Option<String> {
    let micros = micros.and_then(|micros| u64::try_from(micros).ok())?;
    Some(timestamp(from_micros(micros)))
}

impl From<CredentialInfo> for Credential {
    fn from(info: CredentialInfo) -> Self {
        Self {
            name: info.name,
            owner: info.owner,
            definition: info.definition.into(),
            set_by: info.set_by,
            set: date(info.set_micros),
            tokens: info.tokens.map(CredentialTokens::from),
        }
    }
}

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CredentialPage {
    credentials: Vec<Credential>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// A query for credentials.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListCredentialsQuery {
    /// Only objects of this tenant, or `operator`.
    tenant: Option<String>,
    /// The `next` of the page before.
    cursor: Option<Cursor<LIST>>,
    /// Credentials of a page; default 1,000.
    limit: Option<Limit>,
}

/// The letter of its cursors.
const LIST: char = 'c';

/// The owner of a credential that is deleted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CredentialOwnerQuery {
    /// A tenant of the configuration. Default: the tenant of the caller. Only the operator may name another tenant.
    tenant: Option<String>,
}

/// `PUT /v1/credentials/{credential}`: the next request of any session uses it.
pub(crate) async fn set(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Members(requested): Members<SetCredentialRequest>,
) -> Result<Json<Credential>, ApiError> {
    let new = NewCredential {
        tenant: requested.tenant,
        definition: CredentialFields {
            kind: requested.kind,
            hosts: requested.hosts,
            base_url: requested.base_url,
            header: requested.header,
            prefix: requested.prefix,
            parameter: requested.parameter,
            user: requested.user,
            access_key: requested.access_key,
            region: requested.region,
            service: requested.service,
            oauth: OAuthFields {
                grant: requested.grant,
                issuer: requested.issuer,
                resource: requested.resource,
                authorization_url: requested.authorization_url,
                token_url: requested.token_url,
                client_id: requested.client_id,
                scope: requested.scope,
            },
        },
        secrets: GivenSecrets {
            value: requested.value,
            session_token: requested.session_token,
            client_secret: requested.client_secret,
        },
    };
    let info = app.engine().set_credential(&principal, &name, new).await?;
    Ok(Json(info.into()))
}

/// `GET /v1/credentials`: those of the caller's tenant, for the operator all; by owner and name.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<ListCredentialsQuery>,
) -> Result<Json<CredentialPage>, ApiError> {
    let all = app
        .engine()
        .credentials(&principal, wanted.tenant.as_deref())
        .await?;
    let key = |one: &Credential| format!("{} {}", one.owner, one.name);
    let mut all: Vec<Credential> = all.into_iter().map(Credential::from).collect();
    all.sort_by_cached_key(key);
    let (credentials, next) = page(all, wanted.cursor.as_ref(), limit(wanted.limit, PAGE_MOST), key);
    Ok(Json(CredentialPage { credentials, next }))
}

/// `DELETE /v1/credentials/{credential}`: 204; the next request with it is refused.
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Parameters(owned): Parameters<CredentialOwnerQuery>,
) -> Result<Empty<204>, ApiError> {
    app.engine()
        .delete_credential(&principal, &name, owned.tenant.as_deref())
        .await?;
    Ok(Empty)
}

/// The page where a person grants access, and the address that the browser returns to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewGrant")]
pub(crate) struct BeginGrantRequest {
    /// `https://…/viewer/grant` of this gateway, or an address of the person's own machine, such as `http://127.0.0.1:41000/`. It has no query.
    redirect_uri: String,
    /// A tenant of the configuration. Default: the tenant of the caller. Only the operator may name another tenant.
    tenant: Option<String>,
}

/// A grant that has begun.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Grant")]
pub(crate) struct BegunGrant {
    /// The page of the authorization server where the person consents.
    url: String,
    /// Time until which the grant can be finished.
    #[schemars(extend("format" = "date-time"))]
    expires: Option<String>,
}

/// The answer of the authorization server, from the browser.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GrantAnswer")]
pub(crate) struct FinishGrantRequest {
    /// As it came.
    state: String,
    /// The authorization code, which is valid once.
    #[schemars(extend("writeOnly" = true))]
    code: Option<String>,
    /// Error of the authorization server, in place of `code`.
    error: Option<String>,
    /// The server's words about the error.
    error_description: Option<String>,
    /// The authorization server.
    iss: Option<String>,
}

/// `POST /v1/credentials/{credential}/grant`: the person opens `url`, and comes back to `redirect_uri` with an answer.
pub(crate) async fn begin_grant(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Members(requested): Members<BeginGrantRequest>,
) -> Result<Json<BegunGrant>, ApiError> {
    let tenant = requested.tenant.as_deref();
    let engine = app.engine();
    let started = engine
        .begin_grant(&principal, &name, tenant, &requested.redirect_uri)
        .await?;
    Ok(Json(BegunGrant {
        url: started.url,
        expires: date(Some(started.expires_micros)),
    }))
}

/// `POST /v1/grants`: finishes a grant that the caller began, with the answer of the authorization server.
pub(crate) async fn finish_grant(
    State(app): State<App>,
    Caller(principal): Caller,
    Members(answered): Members<FinishGrantRequest>,
) -> Result<Json<Credential>, ApiError> {
    let answer = GrantAnswer {
        state: answered.state,
        code: answered.code,
        error: answered.error,
        error_description: answered.error_description,
        issuer: answered.iss,
    };
    let info = app.engine().finish_grant(&principal, answer).await?;
    Ok(Json(info.into()))
}

/// `DELETE /v1/credentials/{credential}/grant`: 204; the tokens are forgotten, and revoked at the authorization server if it can.
pub(crate) async fn end_grant(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Parameters(owned): Parameters<CredentialOwnerQuery>,
) -> Result<Empty<204>, ApiError> {
    app.engine()
        .end_grant(&principal, &name, owned.tenant.as_deref())
        .await?;
    Ok(Empty)
}
