//! `/v1/tokens`: access tokens that are made, listed and revoked while the gateway runs.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use himalia_engine::{AccessToken, EngineError, MAX_DESCRIPTION_CHARS, MAX_PRINCIPAL_CHARS, NewToken, Scope};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::answers::Empty;
use super::input::Members;
use super::session_json::{Seconds, seconds};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::openapi::{Answer, Operation};

/// The requested token.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewToken")]
pub(crate) struct Requested {
    /// Name of the caller that its holder is, as executions and the audit log show it.
    #[schemars(extend("pattern" = "^[A-Za-z0-9._-]+$", "maxLength" = MAX_PRINCIPAL_CHARS))]
    caller: String,
    /// Within the scope of the token that creates it.
    scope: Scope,
    /// A tenant of the configuration. Default: that of the token that creates it. Only the operator may name another one.
    tenant: Option<String>,
    /// What it is for.
    #[schemars(extend("maxLength" = MAX_DESCRIPTION_CHARS))]
    description: Option<String>,
    /// Seconds until it expires. Default: it expires together with the token that creates it, or never.
    expires_in_s: Option<Seconds>,
}

/// An access token, without its secret.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AccessToken")]
pub(crate) struct Token {
    #[schemars(extend("format" = "uuid"))]
    id: String,
    /// Its tenant, or `operator`.
    owner: String,
    /// Name of the caller that its holder is.
    caller: String,
    scope: Scope,
    description: String,
    /// The caller that created it.
    created_by: String,
    #[schemars(extend("format" = "date-time"))]
    created: String,
    /// Null: it does not expire.
    #[schemars(extend("format" = "date-time"))]
    expires: Option<String>,
}

impl From<AccessToken> for Token {
    fn from(token: AccessToken) -> Self {
        Self {
            id: token.id.to_string(),
            owner: token.owner,
            caller: token.caller,
            scope: token.scope,
            description: token.description,
            created_by: token.created_by,
            created: timestamp(token.created),
            expires: token.expires.map(timestamp),
        }
    }
}

/// A new access token.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CreatedToken")]
pub(crate) struct Made {
    /// What clients send. It is shown once and stored as a hash.
    token: String,
    #[serde(flatten)]
    shown: Token,
}

/// 201 that no cache keeps.
#[derive(Debug)]
pub(crate) struct ShownOnce(Made);

impl IntoResponse for ShownOnce {
    fn into_response(self) -> Response {
        let headers = [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
        (StatusCode::CREATED, headers, Json(self.0)).into_response()
    }
}

impl Answer for ShownOnce {
    fn describe(operation: &mut Operation<'_>) {
        let schema = operation.schemas.written::<Made>();
        operation.answer(201, "Created", "application/json", &schema);
    }
}

/// A list; more members may be added later.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AccessTokens")]
pub(crate) struct Tokens {
    tokens: Vec<Token>,
}

/// `POST /v1/tokens`.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    Members(requested): Members<Requested>,
) -> Result<ShownOnce, ApiError> {
    let new = NewToken {
        tenant: requested.tenant,
        caller: requested.caller,
        scope: requested.scope,
        description: requested.description.unwrap_or_default(),
        lifetime: requested.expires_in_s.map(seconds),
    };
    let (made, token) = app.engine().create_token(&principal, new).await?;
    Ok(ShownOnce(Made {
        token,
        shown: made.into(),
    }))
}

/// `GET /v1/tokens`: those of the caller's tenant, for the operator all, oldest first.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
) -> Result<Json<Tokens>, ApiError> {
    let tokens = app.engine().tokens(&principal)?;
    let tokens = tokens.into_iter().map(Token::from).collect();
    Ok(Json(Tokens { tokens }))
}

/// `DELETE /v1/tokens/{token_id}`: 204 once it is refused; what it has open ends.
pub(crate) async fn revoke(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<Empty<204>, ApiError> {
    // A text that is no id is that of no token, once the caller may know.
    let parsed = Uuid::try_parse(&id).unwrap_or(Uuid::nil());
    let done = app.engine().revoke_token(&principal, parsed).await;
    done.map_err(|error| match error {
        EngineError::NotFound { what, .. } => EngineError::NotFound { what, id },
        other => other,
    })?;
    Ok(Empty)
}
