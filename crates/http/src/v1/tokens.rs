//! `/v1/tokens`: access tokens that are made, listed and revoked while the gateway runs.

use axum::Json;
use axum::extract::{Path, State};
use himalia_engine::{AccessToken, MAX_DESCRIPTION_CHARS, MAX_PRINCIPAL_CHARS, NewToken, Scope};
use himalia_runs::MAX_RUNS_IN_PROGRESS;
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{JsonWithStatus, ShownOnce};
use super::input::{Cursor, Limit, Members, PAGE_MOST, Parameters, Seconds, by_id, limit, page, seconds};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// The requested token.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewToken")]
pub(crate) struct CreateTokenRequest {
    /// Name of the caller that its holder is, as executions and the audit log show it.
    #[schemars(extend("pattern" = "^[A-Za-z0-9._-]+$", "maxLength" = MAX_PRINCIPAL_CHARS))]
    caller: String,
    /// Within the scope of the token that creates it.
    scope: Scope,
    /// A tenant of the configuration. Default: the tenant of the creating token. Only the operator may name another tenant.
    tenant: Option<String>,
    /// The purpose of the token.
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
    /// The tenant of its owner, or `operator`.
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
pub(crate) struct CreatedToken {
    /// The text that clients send. It is shown once and stored as a hash.
    token: String,
    #[serde(flatten)]
    shown: Token,
}

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TokenPage {
    tokens: Vec<Token>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// A query for access tokens.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListTokensQuery {
    /// Only tokens of this caller.
    caller: Option<String>,
    /// The `next` of the page before.
    cursor: Option<Cursor<LIST>>,
    /// Tokens of a page; default 1,000.
    limit: Option<Limit>,
}

/// A revoked token.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RevokedToken {
    /// The number of workflow runs that were cancelled because the token had started them.
    stopped: usize,
    /// The ids of these runs.
    #[schemars(extend("maxItems" = MAX_RUNS_IN_PROGRESS))]
    stopped_runs: Vec<String>,
}

/// The letter of its cursors.
const LIST: char = 't';

/// `POST /v1/tokens`.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    Members(requested): Members<CreateTokenRequest>,
) -> Result<ShownOnce<JsonWithStatus<201, CreatedToken>>, ApiError> {
    let new = NewToken {
        tenant: requested.tenant,
        caller: requested.caller,
        scope: requested.scope,
        description: requested.description.unwrap_or_default(),
        lifetime: requested.expires_in_s.map(seconds),
    };
    let (made, token) = app.engine().create_token(&principal, new).await?;
    Ok(ShownOnce(JsonWithStatus(CreatedToken {
        token,
        shown: made.into(),
    })))
}

/// `GET /v1/tokens`: those of the caller's tenant, for the operator all, oldest first.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<ListTokensQuery>,
) -> Result<Json<TokenPage>, ApiError> {
    let tokens = app.engine().tokens(&principal)?.into_iter().map(Token::from);
    let is_wanted = |token: &Token| {
        wanted
            .caller
            .as_ref()
            .is_none_or(|caller| token.caller == *caller)
    };
    let key = |token: &Token| format!("{} {}", token.created, token.id);
    let mut tokens: Vec<Token> = tokens.filter(is_wanted).collect();
    tokens.sort_by_cached_key(key);
    let (tokens, next) = page(
        tokens,
        wanted.cursor.as_ref(),
        limit(wanted.limit, PAGE_MOST),
        key,
    );
    Ok(Json(TokenPage { tokens, next }))
}

/// `DELETE /v1/tokens/{token_id}`: 200 once it is refused; what it has open ends, and the workflow runs that it has started.
pub(crate) async fn revoke(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<Json<RevokedToken>, ApiError> {
    let revoked = by_id(id, async |id| app.engine().revoke_token(&principal, id).await).await?;
    Ok(Json(RevokedToken {
        stopped: revoked.workflow_runs.len(),
        stopped_runs: revoked.workflow_runs,
    }))
}
