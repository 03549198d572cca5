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
pub(crate) struct Requested {
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
    /// Of `aws_sigv4`: the token of a session.
    #[schemars(with = "Option<String>", extend("writeOnly" = true))]
    session_token: Option<SecretText>,
    /// The host behind `http://NAME.credential.internal/`, one of `hosts`. Default: the first one that is no pattern.
    base_url: Option<String>,
    /// Of `header`: its name.
    header: Option<String>,
    /// Of `header`: what precedes the value.
    prefix: Option<String>,
    /// Of `query`: the name of the parameter.
    parameter: Option<String>,
    /// Of `basic`: the user.
    user: Option<String>,
    /// Of `aws_sigv4`: the id of the key.
    access_key: Option<String>,
    /// Of `aws_sigv4`. Default: that of the request's own signature.
    region: Option<String>,
    /// Of `aws_sigv4`. Default: that of the request's own signature.
    service: Option<String>,
    /// Of `oauth2`: how tokens are got: `client_credentials`, `authorization_code` (a person grants it) or `refresh_token`.
    grant: Option<String>,
    /// Of `oauth2`: the authorization server, whose addresses are read from what it publishes.
    issuer: Option<String>,
    /// Of `oauth2`: the URL of what the tokens are for, such as an MCP server. Without `issuer`, it says which authorization server to use.
    resource: Option<String>,
    /// Of `oauth2`: the page where a person consents, if the authorization server publishes nothing.
    authorization_url: Option<String>,
    /// Of `oauth2`: where tokens are given, if the authorization server publishes nothing.
    token_url: Option<String>,
    /// Of `oauth2`: the id of this gateway with the authorization server. Without one, `authorization_code` registers the gateway there.
    client_id: Option<String>,
    /// Of `oauth2`: the secret of the client.
    #[schemars(with = "Option<String>", extend("writeOnly" = true))]
    client_secret: Option<SecretText>,
    /// Of `oauth2`: the scopes that are asked for, with spaces between.
    scope: Option<String>,
    /// A tenant of the configuration. Default: that of the caller. Only the operator may name another one.
    tenant: Option<String>,
}

/// A credential, without its secret.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Credential")]
pub(crate) struct Credential {
    name: String,
    /// Its tenant, or `operator`.
    owner: String,
    #[serde(flatten)]
    definition: CredentialFields,
    /// Who set it last; null: it is in the configuration.
    set_by: Option<String>,
    /// When it was set last; null: it is in the configuration.
    #[schemars(extend("format" = "date-time"))]
    set: Option<String>,
    /// Of `oauth2`: what is known of its tokens.
    tokens: Option<Tokens>,
}

/// State of the tokens of a credential. None of them is shown.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CredentialTokens")]
pub(crate) struct Tokens {
    /// `ready`, `grant_needed` or `ended`.
    state: &'static str,
    /// Why it is not `ready`, and what to do.
    problem: Option<String>,
    /// Who granted it last.
    granted_by: Option<String>,
    /// When that was.
    #[schemars(extend("format" = "date-time"))]
    granted: Option<String>,
    /// Until when the access token is good. Another one is got before.
    #[schemars(extend("format" = "date-time"))]
    expires: Option<String>,
    /// The scopes that the authorization server gave, if it said so.
    scope: Option<String>,
}

impl From<TokenInfo> for Tokens {
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
            tokens: info.tokens.map(Tokens::from),
        }
    }
}

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CredentialPage")]
pub(crate) struct Credentials {
    credentials: Vec<Credential>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// Which credentials are listed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Only those of this tenant, or `operator`.
    tenant: Option<String>,
    /// The `next` of the page before.
    cursor: Option<Cursor<LIST>>,
    /// Credentials of a page; default 1,000.
    limit: Option<Limit>,
}

/// Its cursors.
const LIST: char = 'c';

/// Whose credential is deleted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Owned {
    /// A tenant of the configuration. Default: that of the caller. Only the operator may name another one.
    tenant: Option<String>,
}

/// `PUT /v1/credentials/{credential}`: the next request of any session uses it.
pub(crate) async fn set(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Members(requested): Members<Requested>,
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
    Parameters(wanted): Parameters<Wanted>,
) -> Result<Json<Credentials>, ApiError> {
    let all = app
        .engine()
        .credentials(&principal, wanted.tenant.as_deref())
        .await?;
    let key = |one: &Credential| format!("{} {}", one.owner, one.name);
    let mut all: Vec<Credential> = all.into_iter().map(Credential::from).collect();
    all.sort_by_cached_key(key);
    let (credentials, next) = page(all, wanted.cursor.as_ref(), limit(wanted.limit, PAGE_MOST), key);
    Ok(Json(Credentials { credentials, next }))
}

/// `DELETE /v1/credentials/{credential}`: 204; the next request with it is refused.
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Parameters(owned): Parameters<Owned>,
) -> Result<Empty<204>, ApiError> {
    app.engine()
        .delete_credential(&principal, &name, owned.tenant.as_deref())
        .await?;
    Ok(Empty)
}

/// Where a person grants, and where the browser comes back to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewGrant")]
pub(crate) struct RequestedGrant {
    /// `https://…/viewer/grant` of this gateway, or an address of the person's own machine, such as `http://127.0.0.1:41000/`. It has no query.
    redirect_uri: String,
    /// A tenant of the configuration. Default: that of the caller. Only the operator may name another one.
    tenant: Option<String>,
}

/// A grant that has begun.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Grant")]
pub(crate) struct BegunGrant {
    /// The page of the authorization server where the person consents.
    url: String,
    /// Until when it can be finished.
    #[schemars(extend("format" = "date-time"))]
    expires: Option<String>,
}

/// What the authorization server has sent with the browser.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GrantAnswer")]
pub(crate) struct Answered {
    /// As it came.
    state: String,
    /// Good once, for tokens.
    #[schemars(extend("writeOnly" = true))]
    code: Option<String>,
    /// In place of a code.
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
    Members(requested): Members<RequestedGrant>,
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
    Members(answered): Members<Answered>,
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
    Parameters(owned): Parameters<Owned>,
) -> Result<Empty<204>, ApiError> {
    app.engine()
        .end_grant(&principal, &name, owned.tenant.as_deref())
        .await?;
    Ok(Empty)
}
