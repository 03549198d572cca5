//! The rows of credentials, which all replicas share.

use tokio_postgres::Row;

use super::PostgresStore;
use super::connection::Param;
use super::failure::Failure;
use crate::{CredentialRecord, PutCredential, StoreError};

const PUT: &str = "
INSERT INTO himalia.credentials AS held (owner, name, definition, key_id, sealed, set_by, set_micros)
SELECT $3, $4, $5, $6, $7, $8, $9
WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
ON CONFLICT (owner, name) DO UPDATE SET definition = excluded.definition, key_id = excluded.key_id,
    sealed = excluded.sealed, set_by = excluded.set_by, set_micros = excluded.set_micros";

const PUT_ABSENT: &str = "
INSERT INTO himalia.credentials (owner, name, definition, key_id, sealed, set_by, set_micros)
SELECT $3, $4, $5, $6, $7, $8, $9
WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
ON CONFLICT (owner, name) DO NOTHING";

const PUT_HOLDING: &str = "
UPDATE himalia.credentials SET definition = $5, key_id = $6, sealed = $7, set_by = $8, set_micros = $9
WHERE owner = $3 AND name = $4 AND sealed = $10
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const DELETE: &str = "
DELETE FROM himalia.credentials
WHERE owner = $3 AND name = $4 AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const FIND: &str = "SELECT * FROM himalia.credentials WHERE owner = ANY ($1) AND name = ANY ($2)";

const ALL: &str = "SELECT * FROM himalia.credentials ORDER BY owner, name";

impl PostgresStore {
    pub(super) async fn do_put_credential(
        &self,
        record: CredentialRecord,
        when: PutCredential,
    ) -> Result<bool, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &me.name;
                let sealed: &[u8] = &record.sealed;
                let mut params: Vec<Param<'_>> = vec![
                    &name,
                    &me.epoch,
                    &record.owner,
                    &record.name,
                    &record.definition,
                    &record.key_id,
                    &sealed,
                    &record.set_by,
                    &record.set_micros,
                ];
                let held: &[u8] = match &when {
                    PutCredential::Holding(held) => held,
                    PutCredential::Always | PutCredential::Absent => &[],
                };
                let statement = match &when {
                    PutCredential::Always => PUT,
                    PutCredential::Absent => PUT_ABSENT,
                    PutCredential::Holding(_) => {
                        params.push(&held);
                        PUT_HOLDING
                    }
                };
                let written = link.execute(statement, &params).await? == 1;
                if !written && when == PutCredential::Always {
                    return Err(StoreError::LeaseLost.into());
                }
                Ok(written)
            })
            .await
    }

    pub(super) async fn do_delete_credential(&self, owner: String, name: String) -> Result<bool, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                Ok(link
                    .execute(DELETE, &[&replica, &me.epoch, &owner, &name])
                    .await?
                    == 1)
            })
            .await
    }

    pub(super) async fn do_find_credentials(
        &self,
        owners: Vec<String>,
        names: Vec<String>,
    ) -> Result<Vec<CredentialRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                link.query(FIND, &[&owners, &names])
                    .await?
                    .iter()
                    .map(read)
                    .collect()
            })
            .await
    }

    pub(super) async fn do_credentials(&self) -> Result<Vec<CredentialRecord>, StoreError> {
        self.any_worker()?
            .run(|link| async move { link.query(ALL, &[]).await?.iter().map(read).collect() })
            .await
    }
}

fn read(row: &Row) -> Result<CredentialRecord, Failure> {
    Ok(CredentialRecord {
        owner: row.try_get("owner")?,
        name: row.try_get("name")?,
        definition: row.try_get("definition")?,
        key_id: row.try_get("key_id")?,
        sealed: row.try_get("sealed")?,
        set_by: row.try_get("set_by")?,
        set_micros: row.try_get("set_micros")?,
    })
}
