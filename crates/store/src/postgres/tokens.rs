//! The rows of access tokens, which all replicas share.

use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::connection::Param;
use super::failure::{Failure, conflict};
use crate::{StoreError, TokenRecord};

const INSERT: &str = "
INSERT INTO himalia.access_tokens (id, hash, owner, caller, scope, description, created_by, created_micros, expires_micros)
SELECT $3, $4, $5, $6, $7, $8, $9, $10, $11
WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const DELETE: &str = "
DELETE FROM himalia.access_tokens
WHERE id = $3 AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const DELETE_EXPIRED: &str = "
DELETE FROM himalia.access_tokens
WHERE expires_micros <= $3 AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const ALL: &str = "SELECT * FROM himalia.access_tokens ORDER BY created_micros, id";

impl PostgresStore {
    pub(super) async fn do_insert_token(&self, token: TokenRecord) -> Result<(), StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.worker_of(token.id)?
            .run(move |link| async move {
                let name: &str = &me.name;
                let hash: &[u8] = &token.hash;
                let params: [Param<'_>; 11] = [
                    &name,
                    &me.epoch,
                    &token.id,
                    &hash,
                    &token.owner,
                    &token.caller,
                    &token.scope,
                    &token.description,
                    &token.created_by,
                    &token.created_micros,
                    &token.expires_micros,
                ];
                let inserted = link.execute(INSERT, &params).await;
                if inserted.map_err(|failure| conflict(failure, "token", token.id))? == 0 {
                    return Err(StoreError::LeaseLost.into());
                }
                Ok(())
            })
            .await
    }

    pub(super) async fn do_delete_token(&self, id: Uuid) -> Result<bool, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.worker_of(id)?
            .run(move |link| async move {
                let name: &str = &me.name;
                Ok(link.execute(DELETE, &[&name, &me.epoch, &id]).await? == 1)
            })
            .await
    }

    pub(super) async fn do_delete_expired_tokens(&self, micros: i64) -> Result<usize, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &me.name;
                let count = link.execute(DELETE_EXPIRED, &[&name, &me.epoch, &micros]).await?;
                Ok(usize::try_from(count).unwrap_or(usize::MAX))
            })
            .await
    }

    pub(super) async fn do_tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        self.any_worker()?
            .run(|link| async move { link.query(ALL, &[]).await?.iter().map(read).collect() })
            .await
    }
}

fn read(row: &Row) -> Result<TokenRecord, Failure> {
    let hash: Vec<u8> = row.try_get("hash")?;
    Ok(TokenRecord {
        id: row.try_get("id")?,
        hash: hash.try_into().map_err(|_| StoreError::BadRow {
            table: "access_tokens",
            column: "hash",
            reason: "is not 32 bytes".to_owned(),
        })?,
        owner: row.try_get("owner")?,
        caller: row.try_get("caller")?,
        scope: row.try_get("scope")?,
        description: row.try_get("description")?,
        created_by: row.try_get("created_by")?,
        created_micros: row.try_get("created_micros")?,
        expires_micros: row.try_get("expires_micros")?,
    })
}
