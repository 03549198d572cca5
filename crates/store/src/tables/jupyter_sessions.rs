//! Sessions of the Jupyter REST API: a path, usually of a notebook, and the kernel it uses.

use uuid::Uuid;

use crate::failure::{Failure, conflict};
use crate::part::part;
use crate::sql::{Record as _, Sql, any, changed, record};
use crate::{Scope, StoreError};

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
    /// The kernel of the session. The kernel may be gone: that is for the reader to find out.
    pub kernel_id: Uuid,
    /// The time when it was made, in microseconds since the Unix epoch.
    pub created_micros: i64,
}

record!(JupyterSessionRecord in "jupyter_sessions" {
    id, owner, path, name, kind as "type", kernel_id, created_micros
});

part! {
    /// Jupyter sessions, each of one replica.
    JupyterSessionStore {
        /// Adds a Jupyter session. [`StoreError::Conflict`](crate::StoreError::Conflict) when its id is taken.
        write [session.id] fn insert_jupyter_session(session: JupyterSessionRecord) -> ();

        /// Replaces the row of `session.id`; `false` when this replica has none.
        write [session.id] fn update_jupyter_session(session: JupyterSessionRecord) -> bool;

        /// Forgets Jupyter sessions of this replica by id, all or none; gives back how many there were.
        write fn delete_jupyter_sessions(ids: Vec<Uuid>) -> usize = count(DELETE, ids);

        /// One Jupyter session of this replica.
        read [id] fn jupyter_session(id: Uuid) -> Option<JupyterSessionRecord> = one(ONE, id);

        /// Every Jupyter session, oldest first.
        read fn jupyter_sessions(scope: Scope) -> Vec<JupyterSessionRecord> = list(scope.of(LISTS));
    }
}

const INSERT: &str = "
INSERT INTO himalia.jupyter_sessions (id, owner, path, name, type, kernel_id, created_micros{postgres , replica})
SELECT $1, $2, $3, $4, $5, $6, $7{postgres , {replica}} WHERE {member}";

const UPDATE: &str = "
UPDATE himalia.jupyter_sessions SET owner = $2, path = $3, name = $4, type = $5, kernel_id = $6, created_micros = $7
WHERE id = $1{postgres  AND replica = {replica}} AND {member}";

const DELETE: &str = concat!(
    "DELETE FROM himalia.jupyter_sessions WHERE id ",
    any!("$1"),
    "{postgres  AND replica = {replica}} AND {member}"
);

const ONE: &str = "SELECT * FROM himalia.jupyter_sessions WHERE id = $1{postgres  AND replica = {replica}}";

const LISTS: [&str; 2] = [
    "SELECT * FROM himalia.jupyter_sessions{postgres  WHERE replica = {replica}} ORDER BY created_micros, id",
    "SELECT * FROM himalia.jupyter_sessions ORDER BY created_micros, id",
];

async fn insert_jupyter_session(sql: &impl Sql, session: JupyterSessionRecord) -> Result<(), Failure> {
    let inserted = changed(sql, INSERT, &session.values()).await;
    if inserted.map_err(|failure| conflict(failure, "session", session.id))? {
        return Ok(());
    }
    Err(StoreError::LeaseLost.into())
}

async fn update_jupyter_session(sql: &impl Sql, session: JupyterSessionRecord) -> Result<bool, Failure> {
    changed(sql, UPDATE, &session.values()).await
}
