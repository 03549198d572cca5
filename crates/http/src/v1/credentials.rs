//! `/v1/credentials`: secrets that the gateway adds to requests of sessions. Their values are written, and never read.

use axum::Json;
use axum::extract::{Path, State};
use himalia_engine::{
    CredentialFields, CredentialInfo, MAX_CREDENTIAL_HOSTS, NewCredential, SecretText, from_micros,
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
    /// `header`, `query`, `bearer`, `basic` or `aws_sigv4`.
    kind: String,
    /// The only hosts that it is sent to: `api.example.org`, `*.example.org` for the names below it, `api.example.org:8443`, or
    /// `http://api.example.org` for plain text.
    #[schemars(extend("maxItems" = MAX_CREDENTIAL_HOSTS))]
    hosts: Vec<String>,
    /// The secret: token, value of the header or the parameter, password or secret key.
    #[schemars(with = "String", extend("writeOnly" = true))]
    value: SecretText,
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
}

impl From<CredentialInfo> for Credential {
    fn from(info: CredentialInfo) -> Self {
        let micros = info.set_micros.and_then(|micros| u64::try_from(micros).ok());
        Self {
            name: info.name,
            owner: info.owner,
            definition: info.definition.into(),
            set_by: info.set_by,
            set: micros.map(|micros| timestamp(from_micros(micros))),
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
        },
        value: requested.value,
        session_token: requested.session_token,
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
