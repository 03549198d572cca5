//! The rows of kernels. In each write `$1` is the name of the replica and `$2` the epoch of its process.

use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::claims::{Claim, Claims};
use super::connection::{Link, Param};
use super::failure::{Failure, conflict};
use super::{Lists, Me, PostgresStore, rows};
use crate::{KernelLife, KernelRecord, Owner, RuntimePaths, Scope, StoreError};

const INSERT: &str = "
INSERT INTO himalia.kernels (id, owner, name, created_micros, session, session_dir, sandbox_id, sandbox_key_hash, socket,
    incarnation, life, dead_cause, replica, fence)
SELECT $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $1, 1
WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

/// A change of the kernel `$3` under the fencing epoch `$4`.
macro_rules! fenced {
    ($change:literal) => {
        concat!(
            $change,
            " WHERE id = $3 AND fence = $4 AND replica = $1
              AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)"
        )
    };
}

const UPDATE: &str = fenced!(
    "UPDATE himalia.kernels SET owner = $5, name = $6, created_micros = $7, session = $8, session_dir = $9,
         sandbox_id = $10, sandbox_key_hash = $11, socket = $12, incarnation = $13, life = $14, dead_cause = $15"
);
const SET_LIFE: &str = fenced!("UPDATE himalia.kernels SET life = $5, incarnation = $6, dead_cause = $7");
const MOVE: &str = fenced!(
    "UPDATE himalia.kernels SET sandbox_id = $5, sandbox_key_hash = $6, socket = $7, incarnation = $8,
         life = 'starting', dead_cause = NULL, session = session || $9"
);
const AMEND: &str = fenced!("UPDATE himalia.kernels SET session = session || $5");
const DELETE: &str = fenced!("DELETE FROM himalia.kernels");

/// Those of an earlier process of this replica.
const TAKE_OWN: &str = "
UPDATE himalia.kernels SET fence = fence + 1
WHERE replica = $1 AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
RETURNING *";

const OWNER: &str = "SELECT replica, fence FROM himalia.kernels WHERE id = $1";
const ONE: &str = "SELECT * FROM himalia.kernels WHERE id = $1";
const LISTS: Lists = Lists {
    own: "SELECT * FROM himalia.kernels WHERE replica = $1 ORDER BY created_micros, id",
    all: "SELECT * FROM himalia.kernels ORDER BY created_micros, id",
};

impl PostgresStore {
    pub(super) async fn do_insert_kernel(&self, kernel: KernelRecord) -> Result<(), StoreError> {
        self.check_lease()?;
        let (me, claims, id) = (self.me(), Arc::clone(&self.claims), kernel.id);
        self.worker_of(id)?
            .run(move |link| async move {
                let name: &str = &me.name;
                let mut params: Vec<Param<'_>> = vec![&name, &me.epoch, &kernel.id];
                let columns = Columns::of(&kernel);
                params.extend(columns.params(&kernel));
                let inserted = link.execute(INSERT, &params).await;
                if inserted.map_err(|failure| conflict(failure, "kernel", id))? == 0 {
                    return Err(StoreError::LeaseLost.into());
                }
                claims.set(id, 1);
                Ok(())
            })
            .await
    }

    pub(super) async fn do_take_own(&self) -> Result<Vec<KernelRecord>, StoreError> {
        self.check_lease()?;
        let (me, claims) = (self.me(), Arc::clone(&self.claims));
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &me.name;
                let mut taken = Vec::new();
                for row in link.query(TAKE_OWN, &[&name, &me.epoch]).await? {
                    let kernel = rows::kernel(&row)?;
                    claims.set(kernel.id, rows::fence(row.try_get("fence")?)?);
                    taken.push(kernel);
                }
                taken.sort_by_key(|kernel| (kernel.created_micros, kernel.id));
                Ok(taken)
            })
            .await
    }

    pub(super) async fn do_owner(&self, id: Uuid) -> Result<Option<Owner>, StoreError> {
        self.worker_of(id)?
            .run(move |link| async move {
                let Some(row) = link.query_opt(OWNER, &[&id]).await? else {
                    return Ok(None);
                };
                Ok(Some(Owner {
                    replica: row.try_get(0)?,
                    epoch: rows::fence(row.try_get(1)?)?,
                }))
            })
            .await
    }

    /// Changes a row of a kernel that this replica has; `false` when there is none. `run` has the statement and what it names from
    /// `$5` on.
    async fn change<F, R>(&self, id: Uuid, run: F) -> Result<bool, StoreError>
    where
        F: FnOnce(Change) -> R + Send + 'static,
        R: Future<Output = Result<u64, Failure>> + Send,
    {
        self.check_lease()?;
        let (me, claim) = (self.me(), Claim::new(&self.claims, id));
        self.worker_of(id)?
            .run(move |link| async move {
                let change = Change {
                    link: Arc::clone(&link),
                    me: me.clone(),
                    claim,
                };
                if run(change).await? == 1 {
                    return Ok(true);
                }
                claim.explain(&link, &me).await?;
                Ok(false)
            })
            .await
    }

    pub(super) async fn do_update_kernel(&self, kernel: KernelRecord) -> Result<bool, StoreError> {
        self.change(kernel.id, |change| async move {
            let columns = Columns::of(&kernel);
            change.run(UPDATE, &columns.params(&kernel)).await
        })
        .await
    }

    pub(super) async fn do_move_kernel(
        &self,
        id: Uuid,
        paths: RuntimePaths,
        incarnation: u32,
        changes: Map<String, Value>,
    ) -> Result<bool, StoreError> {
        self.change(id, move |change| async move {
            let hash: &[u8] = &paths.sandbox_key_hash;
            let params: [Param<'_>; 5] = [
                &paths.sandbox_id,
                &hash,
                &paths.socket,
                &i64::from(incarnation),
                &Value::Object(changes),
            ];
            change.run(MOVE, &params).await
        })
        .await
    }

    pub(super) async fn do_set_kernel_life(
        &self,
        id: Uuid,
        life: KernelLife,
        incarnation: u32,
        dead_cause: Option<String>,
    ) -> Result<bool, StoreError> {
        self.change(id, move |change| async move {
            let params: [Param<'_>; 3] = [&life.as_str(), &i64::from(incarnation), &dead_cause];
            change.run(SET_LIFE, &params).await
        })
        .await
    }

    pub(super) async fn do_amend_session(
        &self,
        id: Uuid,
        changes: Map<String, Value>,
    ) -> Result<bool, StoreError> {
        self.change(id, move |change| async move {
            change.run(AMEND, &[&Value::Object(changes)]).await
        })
        .await
    }

    pub(super) async fn do_delete_kernel(&self, id: Uuid) -> Result<bool, StoreError> {
        let claims: Arc<Claims> = Arc::clone(&self.claims);
        self.change(id, move |change| async move {
            let deleted = change.run(DELETE, &[]).await?;
            if deleted == 1 {
                claims.remove(id);
            }
            Ok(deleted)
        })
        .await
    }

    pub(super) async fn do_kernel(&self, id: Uuid) -> Result<Option<KernelRecord>, StoreError> {
        self.worker_of(id)?
            .run(move |link| async move {
                let row = link.query_opt(ONE, &[&id]).await?;
                row.as_ref().map(rows::kernel).transpose()
            })
            .await
    }

    pub(super) async fn do_kernels(&self, scope: Scope) -> Result<Vec<KernelRecord>, StoreError> {
        self.do_list(scope, LISTS, rows::kernel).await
    }
}

/// A change of one kernel, on its connection.
struct Change {
    link: Arc<Link>,
    me: Me,
    claim: Claim,
}

impl Change {
    /// Rows that were changed. `more` is `$5` and what follows.
    async fn run(&self, sql: &'static str, more: &[Param<'_>]) -> Result<u64, Failure> {
        let name: &str = &self.me.name;
        let fence = self.claim.fence();
        let mut params: Vec<Param<'_>> = vec![&name, &self.me.epoch, &self.claim.id, &fence];
        params.extend(more);
        self.link.execute(sql, &params).await
    }
}

/// The columns of a kernel that have another type than its record.
struct Columns<'a> {
    hash: &'a [u8],
    incarnation: i64,
    life: &'static str,
}

impl<'a> Columns<'a> {
    fn of(kernel: &'a KernelRecord) -> Self {
        Self {
            hash: &kernel.paths.sandbox_key_hash,
            incarnation: i64::from(kernel.incarnation),
            life: kernel.life.as_str(),
        }
    }

    /// All columns but the id, the replica and the fencing epoch.
    fn params(&'a self, kernel: &'a KernelRecord) -> [Param<'a>; 11] {
        [
            &kernel.owner,
            &kernel.name,
            &kernel.created_micros,
            &kernel.session,
            &kernel.paths.session_dir,
            &kernel.paths.sandbox_id,
            &self.hash,
            &kernel.paths.socket,
            &self.incarnation,
            &self.life,
            &kernel.dead_cause,
        ]
    }
}
