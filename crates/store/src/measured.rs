//! A store whose calls are timed.

use std::sync::Arc;
use std::time::Instant;

use himalia_metrics::StoreTimes;

use crate::{ReadyReplica, ReplicaLease, ReplicaRecord, Space, Store, StoreError, StoreFuture};

/// Times each call of another store, the wait in its queue included. Calls whose caller stopped waiting are not counted.
///
/// The parts of the store are implemented where they are declared (`part!`).
#[derive(Debug)]
pub struct MeasuredStore {
    store: Arc<dyn Store>,
    times: StoreTimes,
}

impl MeasuredStore {
    /// The calls of `store` count in `times`.
    pub fn new(store: Arc<dyn Store>, times: StoreTimes) -> Self {
        Self { store, times }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(crate) fn timed<'a, T: Send + 'a>(
        &'a self,
        operation: &'static str,
        call: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let begun = Instant::now();
            let result = call.await;
            let failed = result.as_ref().is_err_and(is_failure);
            self.times.called(operation, begun.elapsed(), failed);
            result
        })
    }
}

/// Returns true if the store is at fault. A key that is taken, or a kernel of another replica, is an answer.
fn is_failure(error: &StoreError) -> bool {
    !matches!(error, StoreError::Conflict { .. } | StoreError::Fenced { .. })
}

/// The methods of [`Store`] itself that return a future.
macro_rules! timed {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self $(, $argument: $kind)*) -> StoreFuture<'_, $result> {
            self.timed(stringify!($name), self.store.$name($($argument),*))
        })*
    };
}

impl Store for MeasuredStore {
    fn epoch(&self) -> u64 {
        self.store.epoch()
    }

    fn replica(&self) -> &str {
        self.store.replica()
    }

    fn lease(&self) -> &ReplicaLease {
        self.store.lease()
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn set_ready(&self, template: &str, ready: u32) {
        self.store.set_ready(template, ready);
    }

    timed! {
        fn close() -> ();
        fn check() -> ();
        fn set_address(address: String) -> ();
        fn replicas() -> Vec<ReplicaRecord>;
        fn ready_elsewhere(template: String, most: u32) -> Vec<ReadyReplica>;
        fn shared_time() -> Option<i64>;
        fn space() -> Space;
        fn compact(pages: u32) -> Space;
    }
}

#[cfg(test)]
mod tests {
    use himalia_metrics::Metrics;
    use uuid::Uuid;

    use super::*;
    use crate::tests::kernel;
    use crate::{SessionStore as _, SqliteStore};

    #[tokio::test]
    async fn calls_and_failures_count_and_answers_do_not_fail() {
        let dir = tempfile::tempdir().unwrap();
        let metrics = Metrics::new();
        let store = SqliteStore::open(&dir.path().join("x.db"), "a").unwrap();
        let store = MeasuredStore::new(Arc::new(store), metrics.store().clone());
        assert_eq!((store.epoch(), store.replica()), (1, "a"));
        store.insert_kernel(kernel(1)).await.unwrap();
        store.insert_kernel(kernel(1)).await.unwrap_err();
        store.check().await.unwrap();
        store.close().await.unwrap();
        store.kernel(Uuid::from_u128(1)).await.unwrap_err();
        let count = |operation: &str| {
            let calls = metrics.value(&format!(
                "himalia_store_seconds_count{{operation=\"{operation}\"}}"
            ));
            let failures = metrics.value(&format!(
                "himalia_store_failures_total{{operation=\"{operation}\"}}"
            ));
            (calls, failures)
        };
        assert_eq!(
            count("insert_kernel"),
            (Some(2.0), None),
            "a conflict is an answer"
        );
        assert_eq!(count("check"), (Some(1.0), None));
        assert_eq!(
            count("kernel"),
            (Some(1.0), Some(1.0)),
            "a closed store is a failure"
        );
    }
}
