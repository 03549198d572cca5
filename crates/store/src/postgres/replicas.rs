//! The replicas that live, and the things that each replica has.

use tokio_postgres::Row;

use super::{PostgresStore, rows};
use crate::failure::Failure;
use crate::{Location, Lookup, ReplicaRecord, Space, StoreError};

const CHECK: &str = "UPDATE himalia.replicas SET epoch = epoch WHERE name = $1 AND epoch = $2";

const SET_ADDRESS: &str = "UPDATE himalia.replicas SET address = $3 WHERE name = $1 AND epoch = $2";

const SPACE: &str = "
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = 'himalia' AND c.relkind = 'r'";

const TIME: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros";

const LIVE: &str = "
SELECT name, address, epoch, true AS live FROM himalia.replicas
WHERE lease_until > clock_timestamp() ORDER BY name";

/// A thing and its replica, of which there is always a row.
macro_rules! located {
    ($table:literal, $which:literal) => {
        concat!(
            "SELECT t.id, t.owner, r.name, r.address, r.epoch, r.lease_until > clock_timestamp() AS live
             FROM himalia.",
            $table,
            " AS t JOIN himalia.replicas AS r ON r.name = t.replica WHERE ",
            $which
        )
    };
}

const BY_ID: &str = located!("kernels", "t.id = $1");
const BY_NAME: &str = located!("kernels", "t.owner = $1 AND t.name = $2");
const ENDED: &str = located!(
    "ended_sessions",
    "t.id = $1 AND t.removed_micros IS NULL ORDER BY t.ended_micros DESC LIMIT 1"
);
const ENDED_NAME: &str = located!(
    "ended_sessions",
    "t.owner = $1 AND t.name = $2 AND t.removed_micros IS NULL ORDER BY t.ended_micros DESC LIMIT 1"
);
const JUPYTER: &str = located!("jupyter_sessions", "t.id = $1");
const JUPYTER_PATH: &str = located!(
    "jupyter_sessions",
    "t.owner = $1 AND t.path = $2 ORDER BY t.created_micros, t.id LIMIT 1"
);

impl PostgresStore {
    pub(crate) async fn do_set_address(&self, address: String) -> Result<(), StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &me.name;
                match link.execute(SET_ADDRESS, &[&name, &me.epoch, &address]).await? {
                    0 => Err(StoreError::LeaseLost.into()),
                    _ => Ok(()),
                }
            })
            .await
    }

    /// Writes the row of this replica as it is.
    pub(crate) async fn do_check(&self) -> Result<(), StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &me.name;
                match link.execute(CHECK, &[&name, &me.epoch]).await? {
                    0 => Err(StoreError::LeaseLost.into()),
                    _ => Ok(()),
                }
            })
            .await
    }

    pub(crate) async fn do_space(&self) -> Result<Space, StoreError> {
        self.any_worker()?
            .run(|link| async move {
                let row = link.query_opt(SPACE, &[]).await?;
                let bytes: i64 = row.map_or(Ok(0), |row| row.try_get(0))?;
                Ok(Space {
                    total_bytes: u64::try_from(bytes).unwrap_or(0),
                    free_bytes: 0,
                })
            })
            .await
    }

    pub(crate) async fn do_shared_time(&self) -> Result<Option<i64>, StoreError> {
        self.any_worker()?
            .run(|link| async move {
                let row = link.query_opt(TIME, &[]).await?;
                Ok(row.map(|row| row.try_get("micros")).transpose()?)
            })
            .await
    }

    pub(crate) async fn do_replicas(&self) -> Result<Vec<ReplicaRecord>, StoreError> {
        self.any_worker()?
            .run(|link| async move { link.query(LIVE, &[]).await?.iter().map(replica).collect() })
            .await
    }

    pub(crate) async fn do_locate(&self, what: Lookup) -> Result<Option<Location>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let row = match &what {
                    Lookup::Kernel(id) => link.query_opt(BY_ID, &[id]).await?,
                    Lookup::Name { owner, name } => link.query_opt(BY_NAME, &[owner, name]).await?,
                    Lookup::Ended(id) => link.query_opt(ENDED, &[id]).await?,
                    Lookup::EndedName { owner, name } => link.query_opt(ENDED_NAME, &[owner, name]).await?,
                    Lookup::JupyterSession(id) => link.query_opt(JUPYTER, &[id]).await?,
                    Lookup::JupyterPath { owner, path } => {
                        link.query_opt(JUPYTER_PATH, &[owner, path]).await?
                    }
                };
                let Some(row) = row else { return Ok(None) };
                Ok(Some(Location {
                    id: row.try_get("id")?,
                    owner: row.try_get("owner")?,
                    replica: replica(&row)?,
                }))
            })
            .await
    }
}

fn replica(row: &Row) -> Result<ReplicaRecord, Failure> {
    Ok(ReplicaRecord {
        name: row.try_get("name")?,
        address: row.try_get("address")?,
        epoch: rows::replica_epoch(row.try_get("epoch")?)?,
        live: row.try_get("live")?,
    })
}
