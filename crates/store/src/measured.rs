//! A store whose calls are timed.

use std::sync::Arc;
use std::time::Instant;

use himalia_metrics::StoreTimes;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    AccessStore, CallbackAdded, CallbackQuota, CatalogStore, CredentialRecord, DeadReplica, DeliveryRecord,
    DueDelivery, EndedRecord, FairBatch, JupyterSessionRecord, KernelLife, KernelRecord, Location, Lookup,
    NewCallback, OpenRun, Owner, PutCredential, ReadyReplica, ReplicaLease, ReplicaRecord, RuntimePaths,
    Scope, SessionStore, SkillBrief, SkillRecord, Space, StepAnswer, StepPromptFilter, StepPromptRecord,
    StepsWritten, Store, StoreError, StoreFuture, TakeOver, Taken, TokenRecord, ToolApprovalAdded,
    ToolApprovalRecord, TriggerAdded, TriggerRecord, TriggerRun, TriggerStore, UsageRecord, VersionAdded,
    VersionQuota, WorkflowBrief, WorkflowRecord, WorkflowRunAdded, WorkflowRunBrief, WorkflowRunEnd,
    WorkflowRunFilter, WorkflowRunQuota, WorkflowRunRecord, WorkflowRunStore, WorkflowStepRecord,
};

/// Times each call of another store, the wait in its queue included. Calls whose caller stopped waiting are not counted.
#[derive(Debug)]
pub struct Measured {
    store: Arc<dyn Store>,
    times: StoreTimes,
}

impl Measured {
    /// The calls of `store` count in `times`.
    pub fn new(store: Arc<dyn Store>, times: StoreTimes) -> Self {
        Self { store, times }
    }

    fn timed<'a, T: Send + 'a>(
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

/// Whether the store is at fault. A key that is taken, or a kernel of another replica, is an answer.
fn is_failure(error: &StoreError) -> bool {
    !matches!(error, StoreError::Conflict { .. } | StoreError::Fenced { .. })
}

/// The methods of a part of [`Store`] that return a future. The compiler refuses a list that lacks one.
macro_rules! timed {
    ($part:ident { $($own:tt)* } $(fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        impl $part for Measured {
            $($own)*

            $(fn $name(&self $(, $argument: $kind)*) -> StoreFuture<'_, $result> {
                self.timed(stringify!($name), self.store.$name($($argument),*))
            })*
        }
    };
}

timed! {
    Store {
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
    }
    fn close() -> ();
    fn check() -> ();
    fn set_address(address: String) -> ();
    fn replicas() -> Vec<ReplicaRecord>;
    fn ready_elsewhere(template: String, most: u32) -> Vec<ReadyReplica>;
    fn shared_time() -> Option<i64>;
    fn space() -> Space;
    fn compact(pages: u32) -> Space;
}

timed! {
    SessionStore {}
    fn insert_kernel(kernel: KernelRecord) -> ();
    fn take_kernels() -> Vec<KernelRecord>;
    fn dead_replicas() -> Vec<DeadReplica>;
    fn take_over(what: TakeOver) -> Taken;
    fn take_jupyter_sessions(kernels: Vec<Uuid>) -> usize;
    fn locate(what: Lookup) -> Option<Location>;
    fn owner(id: Uuid) -> Option<Owner>;
    fn update_kernel(kernel: KernelRecord) -> bool;
    fn move_kernel(id: Uuid, paths: RuntimePaths, incarnation: u32, changes: Map<String, Value>) -> bool;
    fn set_kernel_life(id: Uuid, life: KernelLife, incarnation: u32, dead_cause: Option<String>) -> bool;
    fn amend_session(id: Uuid, changes: Map<String, Value>) -> bool;
    fn delete_kernel(id: Uuid) -> bool;
    fn kernel(id: Uuid) -> Option<KernelRecord>;
    fn kernels(scope: Scope) -> Vec<KernelRecord>;
    fn end_kernel(ended: EndedRecord) -> ();
    fn set_removed(dirs: Vec<String>, at_micros: i64) -> usize;
    fn forget_ended(micros: i64) -> usize;
    fn ended_sessions(scope: Scope) -> Vec<EndedRecord>;
    fn insert_jupyter_session(session: JupyterSessionRecord) -> ();
    fn update_jupyter_session(session: JupyterSessionRecord) -> bool;
    fn delete_jupyter_sessions(ids: Vec<Uuid>) -> usize;
    fn jupyter_session(id: Uuid) -> Option<JupyterSessionRecord>;
    fn jupyter_sessions(scope: Scope) -> Vec<JupyterSessionRecord>;
    fn count_kernels(owner: String) -> usize;
}

timed! {
    AccessStore {}
    fn insert_token(token: TokenRecord) -> ();
    fn delete_token(id: Uuid) -> bool;
    fn delete_expired_tokens(micros: i64) -> usize;
    fn tokens() -> Vec<TokenRecord>;
    fn put_credential(record: CredentialRecord, when: PutCredential) -> bool;
    fn delete_credential(owner: String, name: String) -> bool;
    fn find_credentials(owners: Vec<String>, names: Vec<String>) -> Vec<CredentialRecord>;
    fn credentials() -> Vec<CredentialRecord>;
    fn add_tool_approval(record: ToolApprovalRecord, most: i64) -> ToolApprovalAdded;
    fn has_tool_approval(owner: String, caller: String, template: String, tool: String, definition: String) -> bool;
    fn tool_approvals(owner: Option<String>) -> Vec<ToolApprovalRecord>;
    fn delete_tool_approval(owner: Option<String>, id: Uuid) -> bool;
    fn add_usage(day: i64, used: Vec<UsageRecord>) -> ();
    fn usage(day: i64) -> Vec<UsageRecord>;
    fn forget_usage(day: i64) -> usize;
}

timed! {
    CatalogStore {}
    fn add_skill(record: SkillRecord, quota: VersionQuota) -> VersionAdded;
    fn skill(owner: String, name: String, version: String) -> Option<SkillRecord>;
    fn skills(owner: String, name: Option<String>) -> Vec<SkillBrief>;
    fn delete_skill(owner: String, name: String, version: Option<String>) -> usize;
    fn add_workflow(record: WorkflowRecord, quota: VersionQuota) -> VersionAdded;
    fn workflow(owner: String, name: String, version: String) -> Option<WorkflowRecord>;
    fn workflows(owner: String, name: Option<String>) -> Vec<WorkflowBrief>;
    fn owner_bytes(owner: String) -> i64;
    fn workflow_definition(owner: String, digest: String) -> Option<String>;
    fn delete_workflow(owner: String, name: String, version: Option<String>) -> usize;
}

timed! {
    WorkflowRunStore {}
    fn add_workflow_run(record: WorkflowRunRecord, quota: WorkflowRunQuota, callback: Option<NewCallback>) -> WorkflowRunAdded;
    fn workflow_run(id: String) -> Option<WorkflowRunRecord>;
    fn workflow_run_of(owner: String, key: String) -> Option<WorkflowRunRecord>;
    fn workflow_runs(owner: String, filter: WorkflowRunFilter) -> Vec<WorkflowRunBrief>;
    fn step_prompts(filter: StepPromptFilter) -> Vec<StepPromptRecord>;
    fn step_prompt(run: String, step: String) -> Option<StepPromptRecord>;
    fn untold_step_prompts(most: i64) -> Vec<StepPromptRecord>;
    fn set_told(steps: Vec<(String, String)>) -> ();
    fn step_answers(run: String) -> Vec<StepAnswer>;
    fn run_asks(run: String) -> bool;
    fn workflow_steps(run: String) -> Vec<WorkflowStepRecord>;
    fn write_workflow_steps(run: String, steps: Vec<WorkflowStepRecord>) -> StepsWritten;
    fn answer_workflow_step(given: StepAnswer) -> bool;
    fn cancel_workflow_run(run: String, by: String) -> bool;
    fn end_workflow_run(run: String, end: WorkflowRunEnd) -> bool;
    fn claim_workflow_runs() -> Vec<String>;
    fn hand_over_workflow_run(run: String, epoch: u64) -> bool;
    fn forget_workflow_runs(micros: i64) -> usize;
}

timed! {
    TriggerStore {}
    fn add_callback(new: NewCallback) -> CallbackAdded;
    fn has_callback_room(owner: String, kind: String, quota: CallbackQuota) -> bool;
    fn forget_callbacks(kind: String, before: i64) -> usize;
    fn insert_trigger(record: TriggerRecord, most: i64) -> TriggerAdded;
    fn trigger(id: Uuid) -> Option<TriggerRecord>;
    fn triggers(owner: Option<String>, kind: String) -> Vec<TriggerRecord>;
    fn due_triggers(micros: i64, most: i64) -> Vec<TriggerRecord>;
    fn change_trigger(record: TriggerRecord, run: Option<TriggerRun>) -> bool;
    fn delete_trigger(id: Uuid) -> bool;
    fn add_trigger_run(run: TriggerRun) -> Option<TriggerRun>;
    fn trigger_run(id: Uuid) -> Option<TriggerRun>;
    fn trigger_run_of(trigger: Uuid, key: String) -> Option<TriggerRun>;
    fn has_prompt_answer(hook: Uuid, message: String) -> bool;
    fn note_prompt_answer(hook: Uuid, message: String, micros: i64) -> ();
    fn trigger_runs(trigger: Uuid, most: i64) -> Vec<TriggerRun>;
    fn last_trigger_runs(owner: Option<String>, kind: String) -> Vec<TriggerRun>;
    fn open_trigger_runs(micros: i64, most: FairBatch) -> Vec<OpenRun>;
    fn count_open_trigger_runs(trigger: Uuid) -> i64;
    fn claim_trigger_run(id: Uuid, held: String) -> bool;
    fn change_trigger_run(run: TriggerRun, keeps: bool, delivery: Option<DeliveryRecord>) -> bool;
    fn forget_trigger_runs(keep: i64, before: i64) -> usize;
    fn delivery(id: Uuid) -> Option<DeliveryRecord>;
    fn deliveries(trigger: Uuid, most: i64) -> Vec<DeliveryRecord>;
    fn due_deliveries(micros: i64, most: FairBatch) -> Vec<DueDelivery>;
    fn claim_delivery(record: DeliveryRecord) -> Option<DeliveryRecord>;
    fn change_delivery(record: DeliveryRecord) -> bool;
}

#[cfg(test)]
mod tests {
    use himalia_metrics::Metrics;

    use super::*;
    use crate::SqliteStore;
    use crate::tests::kernel;

    #[tokio::test]
    async fn calls_and_failures_count_and_answers_do_not_fail() {
        let dir = tempfile::tempdir().unwrap();
        let metrics = Metrics::new();
        let store = SqliteStore::open(&dir.path().join("x.db"), "a").unwrap();
        let store = Measured::new(Arc::new(store), metrics.store().clone());
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
