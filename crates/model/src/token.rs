//! Access tokens that are made while the gateway runs.

use std::time::Duration;

use time::OffsetDateTime;
use uuid::Uuid;

use crate::Scope;

/// What a caller asks for.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// The tenant that it is for; `None`: that of its maker.
    pub tenant: Option<String>,
    /// Whose it is: the name of a caller of that tenant, which executions and the log show.
    pub caller: String,
    /// What it is good for.
    pub scope: Scope,
    /// What it is for, in one line for people.
    pub description: String,
    /// How long it lasts; `None`: until it is revoked, or as long as the token of its maker.
    pub lifetime: Option<Duration>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessToken {
    /// By which it is revoked.
    pub id: Uuid,
    /// Its tenant, or `operator`.
    pub owner: String,
    /// The caller that its holder is.
    pub caller: String,
    /// What it is good for.
    pub scope: Scope,
    /// What it is for.
    pub description: String,
    /// Who made it, as `tenant/caller`.
    pub created_by: String,
    /// When it was made.
    pub created: OffsetDateTime,
    /// When it expires; `None`: never.
    pub expires: Option<OffsetDateTime>,
}
