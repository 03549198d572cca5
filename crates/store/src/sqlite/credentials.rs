//! The rows of credentials.

use rusqlite::{Row, named_params};

use super::SqliteStore;
use crate::{CredentialRecord, PutCredential, StoreError};

const PUT: &str = "
INSERT INTO credentials (owner, name, definition, key_id, sealed, set_by, set_micros)
VALUES (:owner, :name, :definition, :key_id, :sealed, :set_by, :set_micros)
ON CONFLICT (owner, name) DO UPDATE SET definition = excluded.definition, key_id = excluded.key_id,
    sealed = excluded.sealed, set_by = excluded.set_by, set_micros = excluded.set_micros";

const HELD: &str = "SELECT sealed FROM credentials WHERE owner = ?1 AND name = ?2";

impl SqliteStore {
    pub(super) async fn do_put_credential(
        &self,
        record: CredentialRecord,
        when: PutCredential,
    ) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            let mut select = transaction.prepare_cached(HELD)?;
            let mut rows = select.query([&record.owner, &record.name])?;
            let held: Option<Vec<u8>> = rows.next()?.map(|row| row.get(0)).transpose()?;
            let wanted = match when {
                PutCredential::Always => true,
                PutCredential::Absent => held.is_none(),
                PutCredential::Holding(sealed) => held == Some(sealed),
            };
            if wanted {
                transaction.prepare_cached(PUT)?.execute(named_params! {
                    ":owner": record.owner,
                    ":name": record.name,
                    ":definition": record.definition,
                    ":key_id": record.key_id,
                    ":sealed": record.sealed,
                    ":set_by": record.set_by,
                    ":set_micros": record.set_micros,
                })?;
            }
            Ok(wanted)
        })
        .await
    }

    pub(super) async fn do_delete_credential(&self, owner: String, name: String) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            let mut delete =
                transaction.prepare_cached("DELETE FROM credentials WHERE owner = ?1 AND name = ?2")?;
            Ok(delete.execute([&owner, &name])? == 1)
        })
        .await
    }

    pub(super) async fn do_find_credentials(
        &self,
        owners: Vec<String>,
        names: Vec<String>,
    ) -> Result<Vec<CredentialRecord>, StoreError> {
        self.read(move |connection| {
            let mut select =
                connection.prepare_cached("SELECT * FROM credentials WHERE owner = ?1 AND name = ?2")?;
            let mut found = Vec::new();
            for owner in &owners {
                for name in &names {
                    let mut rows = select.query([owner, name])?;
                    if let Some(row) = rows.next()? {
                        found.push(read(row)?);
                    }
                }
            }
            Ok(found)
        })
        .await
    }

    pub(super) async fn do_credentials(&self) -> Result<Vec<CredentialRecord>, StoreError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached("SELECT * FROM credentials ORDER BY owner, name")?;
            let rows = select.query_map([], read)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }
}

fn read(row: &Row<'_>) -> Result<CredentialRecord, rusqlite::Error> {
    Ok(CredentialRecord {
        owner: row.get("owner")?,
        name: row.get("name")?,
        definition: row.get("definition")?,
        key_id: row.get("key_id")?,
        sealed: row.get("sealed")?,
        set_by: row.get("set_by")?,
        set_micros: row.get("set_micros")?,
    })
}
