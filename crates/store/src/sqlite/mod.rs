//! The store in one `SQLite` file with one writer.
//!
//! # Shape
//! One thread owns the only writing connection, another the only reading one (WAL lets them work side by
//! side). Each has a queue of [`QUEUE`] jobs; a caller waits when it is full. A job that was queued runs even
//! when its caller stopped waiting. What a call has committed is seen by every read that starts after it.
//!
//! # Opening
//! [`SqliteStore::open`] refuses, without changing anything, a file that is corrupt, belongs to another
//! program or a development build, was written by a newer version, or is in use by another gateway. Because no other gateway has the file
//! open, this one owns every kernel in it: [`Store::take_kernels`] takes them all.

mod backup;
mod callbacks;
mod claims;
mod credentials;
mod ended;
mod failure;
mod jupyter_sessions;
mod kernels;
mod meta;
mod open;
mod owner_bytes;
mod prompt_answers;
mod replicas;
mod schema;
mod skills;
mod step_prompts;
mod tokens;
mod tool_approvals;
mod triggers;
mod usage;
mod versions;
mod worker;
mod workflow_runs;
mod workflows;

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::claims::Claims;
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
pub use backup::{copy_database, detach_sandboxes};
use claims::Claim;
use failure::Failure;
pub use worker::QUEUE;

/// A store in a file. Clones share its two threads, which end after the last clone is dropped.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    inner: Arc<Inner>,
    replica: Arc<str>,
    claims: Arc<Claims>,
    address: Arc<Mutex<Option<String>>>,
    lease: ReplicaLease,
}

#[derive(Debug)]
struct Inner {
    writer: worker::Worker,
    reader: worker::Worker,
    epoch: u64,
}

impl SqliteStore {
    /// Opens the database at `path` for the replica of this name, makes it when there is none, brings its schema up to
    /// the newest version, and takes the next gateway epoch.
    ///
    /// Blocks on the disk: call it at start, or from a blocking task. The parent directory must exist.
    ///
    /// # Errors
    /// [`StoreError::Locked`], [`StoreError::NewerSchema`], [`StoreError::DevelopmentSchema`], [`StoreError::Foreign`],
    /// [`StoreError::Corrupt`], [`StoreError::Io`]; the file is as it was after each of them.
    pub fn open(path: &Path, replica: &str) -> Result<Self, StoreError> {
        Self::open_with(path, replica, schema::MIGRATIONS)
    }

    fn open_with(path: &Path, replica: &str, steps: &[&str]) -> Result<Self, StoreError> {
        let open::Opened {
            writer,
            reader,
            lock,
            epoch,
        } = open::open(path, steps)?;
        Ok(Self {
            inner: Arc::new(Inner {
                writer: worker::Worker::spawn("store-write", writer, Some(lock))?,
                reader: worker::Worker::spawn("store-read", reader, None)?,
                epoch,
            }),
            replica: replica.into(),
            claims: Arc::default(),
            address: Arc::default(),
            lease: ReplicaLease::unlimited(),
        })
    }

    /// The same file as another replica has it, which knows nothing of what this one took.
    #[cfg(test)]
    pub(crate) fn as_replica(&self, replica: &str) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            replica: replica.into(),
            claims: Arc::default(),
            address: Arc::default(),
            lease: ReplicaLease::unlimited(),
        }
    }

    /// What a write to this kernel must find.
    fn claim(&self, id: Uuid) -> Claim {
        Claim {
            id,
            epoch: self.claims.epoch(id),
        }
    }

    /// Runs `job` in one `BEGIN IMMEDIATE` transaction and answers after its commit.
    async fn write<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, Failure> + Send + 'static,
    {
        self.write_then(job, |_, _| {}).await
    }

    /// The same, and the claims change with the commit, even if the caller has stopped waiting.
    async fn write_then<T, F, G>(&self, job: F, then: G) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, Failure> + Send + 'static,
        G: FnOnce(&Claims, &T) + Send + 'static,
    {
        let claims = Arc::clone(&self.claims);
        self.inner
            .writer
            .run(move |connection| {
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let value = job(&transaction)?;
                transaction.commit()?;
                then(&claims, &value);
                Ok(value)
            })
            .await
    }

    /// Runs `job` on the writing connection, outside of a transaction.
    async fn on_writer<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        self.inner.writer.run(move |connection| job(connection)).await
    }

    /// Runs `job` on the reading connection.
    async fn read<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        self.inner.reader.run(move |connection| job(connection)).await
    }
}

impl Store for SqliteStore {
    fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    fn replica(&self) -> &str {
        &self.replica
    }

    /// No other process has the file, so it never ends.
    fn lease(&self) -> &ReplicaLease {
        &self.lease
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            self.inner.reader.close().await?;
            self.inner.writer.close().await
        })
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.write(meta::check))
    }

    fn set_address(&self, address: String) -> StoreFuture<'_, ()> {
        *self.address.lock() = Some(address);
        Box::pin(async { Ok(()) })
    }

    fn replicas(&self) -> StoreFuture<'_, Vec<ReplicaRecord>> {
        Box::pin(async { Ok(vec![self.myself()]) })
    }

    fn set_ready(&self, _template: &str, _ready: u32) {}

    fn ready_elsewhere(&self, _template: String, _most: u32) -> StoreFuture<'_, Vec<ReadyReplica>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn shared_time(&self) -> StoreFuture<'_, Option<i64>> {
        Box::pin(async { Ok(None) })
    }

    fn space(&self) -> StoreFuture<'_, Space> {
        Box::pin(self.do_space())
    }

    fn compact(&self, pages: u32) -> StoreFuture<'_, Space> {
        Box::pin(self.do_compact(pages))
    }
}

impl SessionStore for SqliteStore {
    fn insert_kernel(&self, kernel: KernelRecord) -> StoreFuture<'_, ()> {
        Box::pin(self.do_insert_kernel(kernel))
    }

    fn take_kernels(&self) -> StoreFuture<'_, Vec<KernelRecord>> {
        Box::pin(self.do_take_kernels())
    }

    /// No other gateway has the file open, so every kernel in it can be taken.
    fn take_over(&self, _what: TakeOver) -> StoreFuture<'_, Taken> {
        Box::pin(async {
            let kernels = self.do_take_kernels().await?;
            Ok(Taken {
                kernels: kernels
                    .into_iter()
                    .map(|kernel| (kernel, String::new()))
                    .collect(),
                epoch: self.epoch(),
                ..Taken::default()
            })
        })
    }

    fn dead_replicas(&self) -> StoreFuture<'_, Vec<DeadReplica>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn take_jupyter_sessions(&self, _kernels: Vec<Uuid>) -> StoreFuture<'_, usize> {
        Box::pin(async { Ok(0) })
    }

    fn locate(&self, what: Lookup) -> StoreFuture<'_, Option<Location>> {
        Box::pin(self.do_locate(what))
    }

    fn owner(&self, id: Uuid) -> StoreFuture<'_, Option<Owner>> {
        Box::pin(self.do_owner(id))
    }

    fn update_kernel(&self, kernel: KernelRecord) -> StoreFuture<'_, bool> {
        Box::pin(self.do_update_kernel(kernel))
    }

    fn move_kernel(
        &self,
        id: Uuid,
        paths: RuntimePaths,
        incarnation: u32,
        changes: Map<String, Value>,
    ) -> StoreFuture<'_, bool> {
        Box::pin(self.do_move_kernel(id, paths, incarnation, changes))
    }

    fn set_kernel_life(
        &self,
        id: Uuid,
        life: KernelLife,
        incarnation: u32,
        dead_cause: Option<String>,
    ) -> StoreFuture<'_, bool> {
        Box::pin(self.do_set_kernel_life(id, life, incarnation, dead_cause))
    }

    fn amend_session(&self, id: Uuid, changes: Map<String, Value>) -> StoreFuture<'_, bool> {
        Box::pin(self.do_amend_session(id, changes))
    }

    fn delete_kernel(&self, id: Uuid) -> StoreFuture<'_, bool> {
        Box::pin(self.do_delete_kernel(id))
    }

    fn kernel(&self, id: Uuid) -> StoreFuture<'_, Option<KernelRecord>> {
        Box::pin(self.do_kernel(id))
    }

    fn kernels(&self, _scope: Scope) -> StoreFuture<'_, Vec<KernelRecord>> {
        Box::pin(self.do_kernels())
    }

    fn end_kernel(&self, ended: EndedRecord) -> StoreFuture<'_, ()> {
        Box::pin(self.do_end_kernel(ended))
    }

    fn set_removed(&self, dirs: Vec<String>, at_micros: i64) -> StoreFuture<'_, usize> {
        Box::pin(self.do_set_removed(dirs, at_micros))
    }

    fn forget_ended(&self, micros: i64) -> StoreFuture<'_, usize> {
        Box::pin(self.do_forget_ended(micros))
    }

    fn ended_sessions(&self, _scope: Scope) -> StoreFuture<'_, Vec<EndedRecord>> {
        Box::pin(self.do_ended_sessions())
    }

    fn insert_jupyter_session(&self, session: JupyterSessionRecord) -> StoreFuture<'_, ()> {
        Box::pin(self.do_insert_jupyter_session(session))
    }

    fn update_jupyter_session(&self, session: JupyterSessionRecord) -> StoreFuture<'_, bool> {
        Box::pin(self.do_update_jupyter_session(session))
    }

    fn delete_jupyter_sessions(&self, ids: Vec<Uuid>) -> StoreFuture<'_, usize> {
        Box::pin(self.do_delete_jupyter_sessions(ids))
    }

    fn jupyter_session(&self, id: Uuid) -> StoreFuture<'_, Option<JupyterSessionRecord>> {
        Box::pin(self.do_jupyter_session(id))
    }

    fn jupyter_sessions(&self, _scope: Scope) -> StoreFuture<'_, Vec<JupyterSessionRecord>> {
        Box::pin(self.do_jupyter_sessions())
    }

    fn count_kernels(&self, owner: String) -> StoreFuture<'_, usize> {
        Box::pin(self.do_count_kernels(owner))
    }
}

impl AccessStore for SqliteStore {
    fn insert_token(&self, token: TokenRecord) -> StoreFuture<'_, ()> {
        Box::pin(self.do_insert_token(token))
    }

    fn delete_token(&self, id: Uuid) -> StoreFuture<'_, bool> {
        Box::pin(self.do_delete_token(id))
    }

    fn delete_expired_tokens(&self, micros: i64) -> StoreFuture<'_, usize> {
        Box::pin(self.do_delete_expired_tokens(micros))
    }

    fn tokens(&self) -> StoreFuture<'_, Vec<TokenRecord>> {
        Box::pin(self.do_tokens())
    }

    fn put_credential(&self, record: CredentialRecord, when: PutCredential) -> StoreFuture<'_, bool> {
        Box::pin(self.do_put_credential(record, when))
    }

    fn delete_credential(&self, owner: String, name: String) -> StoreFuture<'_, bool> {
        Box::pin(self.do_delete_credential(owner, name))
    }

    fn find_credentials(
        &self,
        owners: Vec<String>,
        names: Vec<String>,
    ) -> StoreFuture<'_, Vec<CredentialRecord>> {
        Box::pin(self.do_find_credentials(owners, names))
    }

    fn credentials(&self) -> StoreFuture<'_, Vec<CredentialRecord>> {
        Box::pin(self.do_credentials())
    }

    fn add_usage(&self, day: i64, used: Vec<UsageRecord>) -> StoreFuture<'_, ()> {
        Box::pin(self.do_add_usage(day, used))
    }

    fn add_tool_approval(&self, record: ToolApprovalRecord, most: i64) -> StoreFuture<'_, ToolApprovalAdded> {
        Box::pin(self.do_add_tool_approval(record, most))
    }

    fn has_tool_approval(
        &self,
        owner: String,
        caller: String,
        template: String,
        tool: String,
        definition: String,
    ) -> StoreFuture<'_, bool> {
        Box::pin(self.do_has_tool_approval(owner, caller, template, tool, definition))
    }

    fn tool_approvals(&self, owner: Option<String>) -> StoreFuture<'_, Vec<ToolApprovalRecord>> {
        Box::pin(self.do_tool_approvals(owner))
    }

    fn delete_tool_approval(&self, owner: Option<String>, id: Uuid) -> StoreFuture<'_, bool> {
        Box::pin(self.do_delete_tool_approval(owner, id))
    }

    fn usage(&self, day: i64) -> StoreFuture<'_, Vec<UsageRecord>> {
        Box::pin(self.do_usage(day))
    }

    fn forget_usage(&self, day: i64) -> StoreFuture<'_, usize> {
        Box::pin(self.do_forget_usage(day))
    }
}

impl CatalogStore for SqliteStore {
    fn add_skill(&self, record: SkillRecord, quota: VersionQuota) -> StoreFuture<'_, VersionAdded> {
        Box::pin(self.do_add_skill(record, quota))
    }

    fn skill(&self, owner: String, name: String, version: String) -> StoreFuture<'_, Option<SkillRecord>> {
        Box::pin(self.do_skill(owner, name, version))
    }

    fn skills(&self, owner: String, name: Option<String>) -> StoreFuture<'_, Vec<SkillBrief>> {
        Box::pin(self.do_skills(owner, name))
    }

    fn delete_skill(&self, owner: String, name: String, version: Option<String>) -> StoreFuture<'_, usize> {
        Box::pin(self.do_delete_skill(owner, name, version))
    }

    fn add_workflow(&self, record: WorkflowRecord, quota: VersionQuota) -> StoreFuture<'_, VersionAdded> {
        Box::pin(self.do_add_workflow(record, quota))
    }

    fn workflow(
        &self,
        owner: String,
        name: String,
        version: String,
    ) -> StoreFuture<'_, Option<WorkflowRecord>> {
        Box::pin(self.do_workflow(owner, name, version))
    }

    fn workflows(&self, owner: String, name: Option<String>) -> StoreFuture<'_, Vec<WorkflowBrief>> {
        Box::pin(self.do_workflows(owner, name))
    }

    fn delete_workflow(
        &self,
        owner: String,
        name: String,
        version: Option<String>,
    ) -> StoreFuture<'_, usize> {
        Box::pin(self.do_delete_workflow(owner, name, version))
    }

    fn owner_bytes(&self, owner: String) -> StoreFuture<'_, i64> {
        Box::pin(self.do_owner_bytes(owner))
    }

    fn workflow_definition(&self, owner: String, digest: String) -> StoreFuture<'_, Option<String>> {
        Box::pin(self.do_workflow_definition(owner, digest))
    }
}

impl WorkflowRunStore for SqliteStore {
    fn add_workflow_run(
        &self,
        record: WorkflowRunRecord,
        quota: WorkflowRunQuota,
        callback: Option<NewCallback>,
    ) -> StoreFuture<'_, WorkflowRunAdded> {
        Box::pin(self.do_add_workflow_run(record, quota, callback))
    }

    fn workflow_run(&self, id: String) -> StoreFuture<'_, Option<WorkflowRunRecord>> {
        Box::pin(self.do_workflow_run(id))
    }

    fn workflow_run_of(&self, owner: String, key: String) -> StoreFuture<'_, Option<WorkflowRunRecord>> {
        Box::pin(self.do_workflow_run_of(owner, key))
    }

    fn workflow_runs(
        &self,
        owner: String,
        filter: WorkflowRunFilter,
    ) -> StoreFuture<'_, Vec<WorkflowRunBrief>> {
        Box::pin(self.do_workflow_runs(owner, filter))
    }

    fn step_prompts(&self, filter: StepPromptFilter) -> StoreFuture<'_, Vec<StepPromptRecord>> {
        Box::pin(self.do_step_prompts(filter))
    }

    fn step_prompt(&self, run: String, step: String) -> StoreFuture<'_, Option<StepPromptRecord>> {
        Box::pin(self.do_step_prompt(run, step))
    }

    fn untold_step_prompts(&self, most: i64) -> StoreFuture<'_, Vec<StepPromptRecord>> {
        Box::pin(self.do_untold_step_prompts(most))
    }

    fn set_told(&self, steps: Vec<(String, String)>) -> StoreFuture<'_, ()> {
        Box::pin(self.do_set_told(steps))
    }

    fn step_answers(&self, run: String) -> StoreFuture<'_, Vec<StepAnswer>> {
        Box::pin(self.do_step_answers(run))
    }

    fn run_asks(&self, run: String) -> StoreFuture<'_, bool> {
        Box::pin(self.do_run_asks(run))
    }

    fn workflow_steps(&self, run: String) -> StoreFuture<'_, Vec<WorkflowStepRecord>> {
        Box::pin(self.do_workflow_steps(run))
    }

    fn write_workflow_steps(
        &self,
        run: String,
        steps: Vec<WorkflowStepRecord>,
    ) -> StoreFuture<'_, StepsWritten> {
        Box::pin(self.do_write_workflow_steps(run, steps))
    }

    fn answer_workflow_step(&self, given: StepAnswer) -> StoreFuture<'_, bool> {
        Box::pin(self.do_answer_workflow_step(given))
    }

    fn cancel_workflow_run(&self, run: String, by: String) -> StoreFuture<'_, bool> {
        Box::pin(self.do_cancel_workflow_run(run, by))
    }

    fn end_workflow_run(&self, run: String, end: WorkflowRunEnd) -> StoreFuture<'_, bool> {
        Box::pin(self.do_end_workflow_run(run, end))
    }

    fn claim_workflow_runs(&self) -> StoreFuture<'_, Vec<String>> {
        Box::pin(self.do_claim_workflow_runs())
    }

    /// There is no other process to give it to.
    fn hand_over_workflow_run(&self, _: String, _: u64) -> StoreFuture<'_, bool> {
        Box::pin(async { Ok(false) })
    }

    fn forget_workflow_runs(&self, micros: i64) -> StoreFuture<'_, usize> {
        Box::pin(self.do_forget_workflow_runs(micros))
    }
}

impl TriggerStore for SqliteStore {
    fn add_callback(&self, new: NewCallback) -> StoreFuture<'_, CallbackAdded> {
        Box::pin(self.do_add_callback(new))
    }

    fn has_callback_room(&self, owner: String, kind: String, quota: CallbackQuota) -> StoreFuture<'_, bool> {
        Box::pin(self.do_has_callback_room(owner, kind, quota))
    }

    fn forget_callbacks(&self, kind: String, before: i64) -> StoreFuture<'_, usize> {
        Box::pin(self.do_forget_callbacks(kind, before))
    }

    fn insert_trigger(&self, record: TriggerRecord, most: i64) -> StoreFuture<'_, TriggerAdded> {
        Box::pin(self.do_insert_trigger(record, most))
    }

    fn trigger(&self, id: Uuid) -> StoreFuture<'_, Option<TriggerRecord>> {
        Box::pin(self.do_trigger(id))
    }

    fn triggers(&self, owner: Option<String>, kind: String) -> StoreFuture<'_, Vec<TriggerRecord>> {
        Box::pin(self.do_triggers(owner, kind))
    }

    fn due_triggers(&self, micros: i64, most: i64) -> StoreFuture<'_, Vec<TriggerRecord>> {
        Box::pin(self.do_due_triggers(micros, most))
    }

    fn change_trigger(&self, record: TriggerRecord, run: Option<TriggerRun>) -> StoreFuture<'_, bool> {
        Box::pin(self.do_change_trigger(record, run))
    }

    fn delete_trigger(&self, id: Uuid) -> StoreFuture<'_, bool> {
        Box::pin(self.do_delete_trigger(id))
    }

    fn add_trigger_run(&self, run: TriggerRun) -> StoreFuture<'_, Option<TriggerRun>> {
        Box::pin(self.do_add_trigger_run(run))
    }

    fn trigger_run(&self, id: Uuid) -> StoreFuture<'_, Option<TriggerRun>> {
        Box::pin(self.do_trigger_run(id))
    }

    fn trigger_run_of(&self, trigger: Uuid, key: String) -> StoreFuture<'_, Option<TriggerRun>> {
        Box::pin(self.do_trigger_run_of(trigger, key))
    }

    fn has_prompt_answer(&self, hook: Uuid, message: String) -> StoreFuture<'_, bool> {
        Box::pin(self.do_has_prompt_answer(hook, message))
    }

    fn note_prompt_answer(&self, hook: Uuid, message: String, micros: i64) -> StoreFuture<'_, ()> {
        Box::pin(self.do_note_prompt_answer(hook, message, micros))
    }

    fn trigger_runs(&self, trigger: Uuid, most: i64) -> StoreFuture<'_, Vec<TriggerRun>> {
        Box::pin(self.do_trigger_runs(trigger, most))
    }

    fn last_trigger_runs(&self, owner: Option<String>, kind: String) -> StoreFuture<'_, Vec<TriggerRun>> {
        Box::pin(self.do_last_trigger_runs(owner, kind))
    }

    fn open_trigger_runs(&self, micros: i64, most: FairBatch) -> StoreFuture<'_, Vec<OpenRun>> {
        Box::pin(self.do_open_trigger_runs(micros, most))
    }

    fn count_open_trigger_runs(&self, trigger: Uuid) -> StoreFuture<'_, i64> {
        Box::pin(self.do_count_open_trigger_runs(trigger))
    }

    fn claim_trigger_run(&self, id: Uuid, held: String) -> StoreFuture<'_, bool> {
        Box::pin(self.do_claim_trigger_run(id, held))
    }

    fn change_trigger_run(
        &self,
        run: TriggerRun,
        keeps: bool,
        delivery: Option<DeliveryRecord>,
    ) -> StoreFuture<'_, bool> {
        Box::pin(self.do_change_trigger_run(run, keeps, delivery))
    }

    fn forget_trigger_runs(&self, keep: i64, before: i64) -> StoreFuture<'_, usize> {
        Box::pin(self.do_forget_trigger_runs(keep, before))
    }

    fn delivery(&self, id: Uuid) -> StoreFuture<'_, Option<DeliveryRecord>> {
        Box::pin(self.do_delivery(id))
    }

    fn deliveries(&self, trigger: Uuid, most: i64) -> StoreFuture<'_, Vec<DeliveryRecord>> {
        Box::pin(self.do_deliveries(trigger, most))
    }

    fn due_deliveries(&self, micros: i64, most: FairBatch) -> StoreFuture<'_, Vec<DueDelivery>> {
        Box::pin(self.do_due_deliveries(micros, most))
    }

    fn claim_delivery(&self, record: DeliveryRecord) -> StoreFuture<'_, Option<DeliveryRecord>> {
        Box::pin(self.do_claim_delivery(record))
    }

    fn change_delivery(&self, record: DeliveryRecord) -> StoreFuture<'_, bool> {
        Box::pin(self.do_change_delivery(record))
    }
}

#[cfg(test)]
mod tests;
