//! Access tokens that were made while the gateway ran.

use uuid::Uuid;

/// One row of `access_tokens`. The token itself is nowhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TokenRecord {
    /// By which it is revoked.
    pub id: Uuid,
    /// SHA-256 of its text.
    pub hash: [u8; 32],
    /// The owner of what its holder makes: a tenant, or the operator.
    pub owner: String,
    /// The caller that its holder is.
    pub caller: String,
    /// What it is good for, as callers say it.
    pub scope: String,
    /// What it is for.
    pub description: String,
    /// The principal that made it.
    pub created_by: String,
    /// When it was made, in microseconds since the Unix epoch.
    pub created_micros: i64,
    /// When it expires; `None`: never.
    pub expires_micros: Option<i64>,
}
