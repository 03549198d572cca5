//! Kernels that are ready in the pools of replicas.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::PostgresStore;
use crate::{ReadyReplica, StoreError};

/// `$3`: at most as many. Among those with as many, the order is by chance, so that replicas that search at once do not all ask one.
const READY: &str = "
SELECT name, address, (ready ->> $1)::bigint AS count FROM himalia.replicas
WHERE lease_until > clock_timestamp() AND name <> $2 AND address IS NOT NULL AND (ready ->> $1)::bigint > 0
ORDER BY count DESC, random() LIMIT $3";

/// The number of kernels that are ready here, by template: one entry for each template that has a pool. Clones name the same.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadyCounts(Arc<Mutex<BTreeMap<String, u32>>>);

impl ReadyCounts {
    pub(super) fn set(&self, template: &str, ready: u32) {
        let mut counts = self.0.lock();
        match counts.get_mut(template) {
            Some(count) => *count = ready,
            None => drop(counts.insert(template.to_owned(), ready)),
        }
    }

    /// As the row of a replica has them: a JSON object.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(&*self.0.lock()).unwrap_or_else(|_| "{}".to_owned())
    }
}

impl PostgresStore {
    pub(crate) async fn do_ready_elsewhere(
        &self,
        template: String,
        most: u32,
    ) -> Result<Vec<ReadyReplica>, StoreError> {
        let (me, most) = (self.me(), i64::from(most));
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &me.name;
                let rows = link.query(READY, &[&template, &name, &most]).await?;
                let ready = |row: &tokio_postgres::Row| {
                    let count: i64 = row.try_get("count")?;
                    Ok(ReadyReplica {
                        name: row.try_get("name")?,
                        address: row.try_get("address")?,
                        ready: u32::try_from(count).unwrap_or(u32::MAX),
                    })
                };
                rows.iter().map(ready).collect()
            })
            .await
    }
}
