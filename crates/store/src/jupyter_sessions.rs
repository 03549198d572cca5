//! Sessions of the Jupyter REST API: a path, usually of a notebook, and the kernel it uses.

use rusqlite::{OptionalExtension as _, Row, Transaction, named_params};
use uuid::Uuid;

use crate::{Store, StoreError};

/// One row of `jupyter_sessions`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JupyterSessionRecord {
    /// The session id of the REST API.
    pub id: Uuid,
    /// The principal that owns it.
    pub owner: String,
    /// Path of the document, as the client named it. It is a label: nothing is opened by it.
    pub path: String,
    /// Name of the document.
    pub name: String,
    /// `notebook`, `console`, `file` or whatever else the client says.
    pub kind: String,
    /// Its kernel. The kernel may be gone: that is for the reader to find out.
    pub kernel_id: Uuid,
    /// When it was made, in microseconds since the Unix epoch.
    pub created_micros: i64,
}

const INSERT: &str = "
INSERT INTO jupyter_sessions (id, owner, path, name, type, kernel_id, created_micros)
VALUES (:id, :owner, :path, :name, :type, :kernel_id, :created_micros)";

const UPDATE: &str = "
UPDATE jupyter_sessions SET owner = :owner, path = :path, name = :name, type = :type,
    kernel_id = :kernel_id, created_micros = :created_micros
WHERE id = :id";

impl Store {
    /// Adds a session. [`StoreError::Conflict`] when its id is taken.
    pub async fn insert_jupyter_session(&self, session: JupyterSessionRecord) -> Result<(), StoreError> {
        self.write(move |transaction| {
            put(transaction, INSERT, &session)
                .map(drop)
                .map_err(|error| StoreError::conflict(error, "session", session.id))
        })
        .await
    }

    /// Replaces the row of `session.id`; `false` when there is none.
    pub async fn update_jupyter_session(&self, session: JupyterSessionRecord) -> Result<bool, StoreError> {
        self.write(move |transaction| Ok(put(transaction, UPDATE, &session)? == 1))
            .await
    }

    /// Forgets sessions by id, in one transaction; gives back how many there were.
    pub async fn delete_jupyter_sessions(&self, ids: Vec<Uuid>) -> Result<usize, StoreError> {
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

    /// One session.
    pub async fn jupyter_session(&self, id: Uuid) -> Result<Option<JupyterSessionRecord>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT * FROM jupyter_sessions WHERE id = ?1")?
                .query_row([id.to_string()], |row| Ok(read(row)))
                .optional()?
                .transpose()
        })
        .await
    }

    /// Every session, oldest first.
    pub async fn jupyter_sessions(&self) -> Result<Vec<JupyterSessionRecord>, StoreError> {
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

fn put(
    transaction: &Transaction<'_>,
    sql: &str,
    session: &JupyterSessionRecord,
) -> Result<usize, rusqlite::Error> {
    transaction.prepare_cached(sql)?.execute(named_params! {
        ":id": session.id.to_string(),
        ":owner": session.owner,
        ":path": session.path,
        ":name": session.name,
        ":type": session.kind,
        ":kernel_id": session.kernel_id.to_string(),
        ":created_micros": session.created_micros,
    })
}

fn read(row: &Row<'_>) -> Result<JupyterSessionRecord, StoreError> {
    let uuid = |column: &'static str| -> Result<Uuid, StoreError> {
        let text: String = row.get(column)?;
        Uuid::try_parse(&text).map_err(|error| StoreError::BadRow {
            table: "jupyter_sessions",
            column,
            reason: error.to_string(),
        })
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
