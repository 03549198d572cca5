//! The rows of Jupyter sessions. In each write `$1` is the name of the replica and `$2` the epoch of its process.

use uuid::Uuid;

use super::connection::Param;
use super::failure::conflict;
use super::{Lists, PostgresStore, rows};
use crate::{JupyterSessionRecord, Scope, StoreError};

const INSERT: &str = "
INSERT INTO himalia.jupyter_sessions (id, owner, path, name, type, kernel_id, created_micros, replica)
SELECT $3, $4, $5, $6, $7, $8, $9, $1
WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const UPDATE: &str = "
UPDATE himalia.jupyter_sessions SET owner = $4, path = $5, name = $6, type = $7, kernel_id = $8, created_micros = $9
WHERE id = $3 AND replica = $1 AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const DELETE: &str = "
DELETE FROM himalia.jupyter_sessions
WHERE id = ANY($3) AND replica = $1 AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const ONE: &str = "SELECT * FROM himalia.jupyter_sessions WHERE id = $1 AND replica = $2";
const LISTS: Lists = Lists {
    own: "SELECT * FROM himalia.jupyter_sessions WHERE replica = $1 ORDER BY created_micros, id",
    all: "SELECT * FROM himalia.jupyter_sessions ORDER BY created_micros, id",
};

impl PostgresStore {
    pub(super) async fn do_insert_jupyter_session(
        &self,
        session: JupyterSessionRecord,
    ) -> Result<(), StoreError> {
        match self.put(INSERT, session).await? {
            0 => Err(StoreError::LeaseLost),
            _ => Ok(()),
        }
    }

    pub(super) async fn do_update_jupyter_session(
        &self,
        session: JupyterSessionRecord,
    ) -> Result<bool, StoreError> {
        Ok(self.put(UPDATE, session).await? == 1)
    }

    async fn put(&self, sql: &'static str, session: JupyterSessionRecord) -> Result<u64, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.worker_of(session.id)?
            .run(move |link| async move {
                let name: &str = &me.name;
                let params: [Param<'_>; 9] = [
                    &name,
                    &me.epoch,
                    &session.id,
                    &session.owner,
                    &session.path,
                    &session.name,
                    &session.kind,
                    &session.kernel_id,
                    &session.created_micros,
                ];
                let done = link.execute(sql, &params);
                done.await
                    .map_err(|failure| conflict(failure, "session", session.id))
            })
            .await
    }

    pub(super) async fn do_delete_jupyter_sessions(&self, ids: Vec<Uuid>) -> Result<usize, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &me.name;
                let count = link.execute(DELETE, &[&name, &me.epoch, &ids]).await?;
                Ok(usize::try_from(count).unwrap_or(usize::MAX))
            })
            .await
    }

    pub(super) async fn do_jupyter_session(
        &self,
        id: Uuid,
    ) -> Result<Option<JupyterSessionRecord>, StoreError> {
        let me = self.me();
        self.worker_of(id)?
            .run(move |link| async move {
                let name: &str = &me.name;
                let row = link.query_opt(ONE, &[&id, &name]).await?;
                row.as_ref().map(rows::jupyter_session).transpose()
            })
            .await
    }

    pub(super) async fn do_jupyter_sessions(
        &self,
        scope: Scope,
    ) -> Result<Vec<JupyterSessionRecord>, StoreError> {
        self.do_list(scope, LISTS, rows::jupyter_session).await
    }
}
