//! The rows of access tokens.

use rusqlite::{Row, named_params};
use uuid::Uuid;

use super::SqliteStore;
use super::failure::{Failure, conflict};
use crate::{StoreError, TokenRecord};

const INSERT: &str = "
INSERT INTO access_tokens (id, hash, owner, caller, scope, description, created_by, created_micros, expires_micros)
VALUES (:id, :hash, :owner, :caller, :scope, :description, :created_by, :created_micros, :expires_micros)";

impl SqliteStore {
    pub(super) async fn do_insert_token(&self, token: TokenRecord) -> Result<(), StoreError> {
        self.write(move |transaction| {
            let done = transaction.prepare_cached(INSERT)?.execute(named_params! {
                ":id": token.id.to_string(),
                ":hash": token.hash,
                ":owner": token.owner,
                ":caller": token.caller,
                ":scope": token.scope,
                ":description": token.description,
                ":created_by": token.created_by,
                ":created_micros": token.created_micros,
                ":expires_micros": token.expires_micros,
            });
            done.map(drop)
                .map_err(|error| conflict(error.into(), "token", token.id))
        })
        .await
    }

    pub(super) async fn do_delete_token(&self, id: Uuid) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            let mut delete = transaction.prepare_cached("DELETE FROM access_tokens WHERE id = ?1")?;
            Ok(delete.execute([id.to_string()])? == 1)
        })
        .await
    }

    pub(super) async fn do_delete_expired_tokens(&self, micros: i64) -> Result<usize, StoreError> {
        self.write(move |transaction| {
            let mut delete =
                transaction.prepare_cached("DELETE FROM access_tokens WHERE expires_micros <= ?1")?;
            Ok(delete.execute([micros])?)
        })
        .await
    }

    pub(super) async fn do_tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT * FROM access_tokens ORDER BY created_micros, id")?
                .query_map([], |row| Ok(read(row)))?
                .map(|row| row?)
                .collect()
        })
        .await
    }
}

fn read(row: &Row<'_>) -> Result<TokenRecord, Failure> {
    let id: String = row.get("id")?;
    let id = Uuid::try_parse(&id).map_err(|error| StoreError::BadRow {
        table: "access_tokens",
        column: "id",
        reason: error.to_string(),
    })?;
    Ok(TokenRecord {
        id,
        hash: row.get("hash")?,
        owner: row.get("owner")?,
        caller: row.get("caller")?,
        scope: row.get("scope")?,
        description: row.get("description")?,
        created_by: row.get("created_by")?,
        created_micros: row.get("created_micros")?,
        expires_micros: row.get("expires_micros")?,
    })
}
