//! The rows of Jupyter sessions.

use rusqlite::{OptionalExtension as _, Row, Transaction, named_params};
use uuid::Uuid;

use super::SqliteStore;
use super::failure::{Failure, conflict};
use crate::{JupyterSessionRecord, StoreError};

const INSERT: &str = "
INSERT INTO jupyter_sessions (id, owner, path, name, type, kernel_id, created_micros)
VALUES (:id, :owner, :path, :name, :type, :kernel_id, :created_micros)";

const UPDATE: &str = "
UPDATE jupyter_sessions SET owner = :owner, path = :path, name = :name, type = :type,
    kernel_id = :kernel_id, created_micros = :created_micros
WHERE id = :id";

impl SqliteStore {
    pub(super) async fn do_insert_jupyter_session(
        &self,
        session: JupyterSessionRecord,
    ) -> Result<(), StoreError> {
        self.write(move |transaction| {
            put(transaction, INSERT, &session)
                .map(drop)
                .map_err(|failure| conflict(failure, "session", session.id))
        })
        .await
    }

    pub(super) async fn do_update_jupyter_session(
        &self,
        session: JupyterSessionRecord,
    ) -> Result<bool, StoreError> {
        self.write(move |transaction| Ok(put(transaction, UPDATE, &session)? == 1))
            .await
    }

    pub(super) async fn do_delete_jupyter_sessions(&self, ids: Vec<Uuid>) -> Result<usize, StoreError> {
        self.write(move |transaction| {
            let mut delete = transaction.prepare_cached("DELETE FROM jupyter_sessions WHERE id = ?1")?;
            let mut count = 0;
            for id in ids {
                count += delete.execute([id.to_string()])?;
            }
            Ok(count)
        })
        .await
    }

    pub(super) async fn do_jupyter_session(
        &self,
        id: Uuid,
    ) -> Result<Option<JupyterSessionRecord>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT * FROM jupyter_sessions WHERE id = ?1")?
                .query_row([id.to_string()], |row| Ok(read(row)))
                .optional()?
                .transpose()
        })
        .await
    }

    pub(super) async fn do_jupyter_sessions(&self) -> Result<Vec<JupyterSessionRecord>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT * FROM jupyter_sessions ORDER BY created_micros, id")?
                .query_map([], |row| Ok(read(row)))?
                .map(|row| row?)
                .collect()
        })
        .await
    }
}

fn put(transaction: &Transaction<'_>, sql: &str, session: &JupyterSessionRecord) -> Result<usize, Failure> {
    Ok(transaction.prepare_cached(sql)?.execute(named_params! {
        ":id": session.id.to_string(),
        ":owner": session.owner,
        ":path": session.path,
        ":name": session.name,
        ":type": session.kind,
        ":kernel_id": session.kernel_id.to_string(),
        ":created_micros": session.created_micros,
    })?)
}

fn read(row: &Row<'_>) -> Result<JupyterSessionRecord, Failure> {
    let uuid = |column: &'static str| -> Result<Uuid, Failure> {
        let text: String = row.get(column)?;
        let parsed = Uuid::try_parse(&text).map_err(|error| StoreError::BadRow {
            table: "jupyter_sessions",
            column,
            reason: error.to_string(),
        });
        Ok(parsed?)
    };
    Ok(JupyterSessionRecord {
        id: uuid("id")?,
        owner: row.get("owner")?,
        path: row.get("path")?,
        name: row.get("name")?,
        kind: row.get("type")?,
        kernel_id: uuid("kernel_id")?,
        created_micros: row.get("created_micros")?,
    })
}
