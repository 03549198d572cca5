//! Access tokens that are made while the gateway runs.

use std::time::Duration;

use time::OffsetDateTime;
use uuid::Uuid;

use crate::Scope;

/// Request for a new access token.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// The tenant that it is for; `None`: that of its maker.
    pub tenant: Option<String>,
    /// Name of the caller within the tenant, shown at executions and in the log.
    pub caller: String,
    /// Permission of the token.
    pub scope: Scope,
    /// Purpose, one line for people.
    pub description: String,
    /// Lifetime; `None`: until it is revoked, or the lifetime of its creator's token.
    pub lifetime: Option<Duration>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessToken {
    /// By which it is revoked.
    pub id: Uuid,
    /// Tenant, or `operator`.
    pub owner: String,
    /// The caller that its holder is.
    pub caller: String,
    /// Permission of the token.
    pub scope: Scope,
    /// Purpose, one line for people.
    pub description: String,
    /// Creator, as `tenant/caller`.
    pub created_by: String,
    /// When it was made.
    pub created: OffsetDateTime,
    /// When it expires; `None`: never.
    pub expires: Option<OffsetDateTime>,
}
