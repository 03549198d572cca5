//! Access tokens that were made while the gateway ran.

use uuid::Uuid;

use crate::StoreError;
use crate::failure::{Failure, conflict};
use crate::part::part;
use crate::sql::{Record as _, Sql, changed, record};

/// One row of `access_tokens`. The token itself is not stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TokenRecord {
    /// The id by which it is revoked.
    pub id: Uuid,
    /// SHA-256 of the text of the token.
    pub hash: [u8; 32],
    /// The owner of the things that the holder makes: a tenant, or the operator.
    pub owner: String,
    /// The caller that the holder is.
    pub caller: String,
    /// The rights of the holder, in the spelling of the API.
    pub scope: String,
    /// The purpose, for people.
    pub description: String,
    /// The principal that made it.
    pub created_by: String,
    /// The time when it was made, in microseconds since the Unix epoch.
    pub created_micros: i64,
    /// The time when it expires; `None`: never.
    pub expires_micros: Option<i64>,
}

record!(TokenRecord in "access_tokens" {
    id, hash, owner, caller, scope, description, created_by, created_micros, expires_micros
});

part! {
    /// Access tokens.
    TokenStore {
        /// Adds an access token. [`StoreError::Conflict`](crate::StoreError::Conflict) when its id or its hash is taken.
        write [token.id] fn insert_token(token: TokenRecord) -> ();

        /// Forgets an access token; `false` when there was none.
        write [id] fn delete_token(id: Uuid) -> bool = changed("DELETE FROM himalia.access_tokens WHERE id = $1 AND {member}", id);

        /// Forgets the access tokens that expired at `micros` or before; gives back how many.
        write fn delete_expired_tokens(micros: i64) -> usize =
            count("DELETE FROM himalia.access_tokens WHERE expires_micros <= $1 AND {member}", micros);

        /// Every access token, oldest first.
        read fn tokens() -> Vec<TokenRecord> = list("SELECT * FROM himalia.access_tokens ORDER BY created_micros, id");
    }
}

const INSERT: &str = "
INSERT INTO himalia.access_tokens (id, hash, owner, caller, scope, description, created_by, created_micros, expires_micros)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 WHERE {member}";

async fn insert_token(sql: &impl Sql, token: TokenRecord) -> Result<(), Failure> {
    let inserted = changed(sql, INSERT, &token.values()).await;
    if inserted.map_err(|failure| conflict(failure, "token", token.id))? {
        return Ok(());
    }
    Err(StoreError::LeaseLost.into())
}
