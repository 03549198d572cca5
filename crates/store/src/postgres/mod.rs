//! The store in a Postgres database that several replicas share.
//!
//! # Shape
//! [`WORKERS`] tasks own one connection each and run jobs in order. A job about one kernel or one Jupyter session always goes to the
//! same task, so jobs about one thing are done in the order in which they were asked for. One more connection renews the lease.
//! Each change is one statement. It names the epoch of this process and the fencing epoch of the kernel, and does nothing if either
//! is not that of the row.
//!
//! # Leases
//! The row of a replica says until when its lease is valid, by the clock of the database. It is renewed every second. A process that
//! could not renew it for half of its length stops by itself ([`ReplicaLease`]), and another replica may take its kernels after its
//! whole length: so two clocks may differ in speed, and a pause may come at any place.

mod callbacks;
mod claims;
mod connection;
mod credentials;
mod data_dir;
mod ended;
mod failure;
mod jupyter_sessions;
mod kernels;
mod logs;
mod membership;
mod owner_bytes;
mod prompt_answers;
mod ready;
mod replicas;
mod rows;
mod schema;
mod skills;
mod step_prompts;
mod take_over;
mod tls;
mod tokens;
mod tool_approvals;
mod triggers;
mod url;
mod usage;
mod versions;
mod worker;
mod workflow_runs;
mod workflows;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio_postgres::Row;
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
use claims::Claims;
use connection::{Connector, Link};
pub use data_dir::REPLICA_FILE;
use failure::Failure;
pub use logs::{LogPart, LogSegment, LogTable, StoredLog};
use membership::{Heartbeat, Joined, Joining};
use ready::ReadyCounts;
pub use url::PostgresUrl;
use worker::Worker;

/// Connections of one replica, beside that of its lease.
const WORKERS: usize = 4;

/// How a replica joins a shared store.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// The database.
    pub url: PostgresUrl,
    /// The name of the replica.
    pub replica: String,
    /// Its data directory, which exists and which no other process uses.
    pub data_dir: PathBuf,
    /// How long its lease is; at least 1 s.
    pub lease: Duration,
}

/// Whether a replica can have this name: at most 63 letters, digits, `-`, `.` and `_`.
///
/// # Errors
/// What is wrong with it.
pub fn check_replica_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if name.is_empty() || name.len() > 63 || !name.chars().all(plain) {
        return Err(format!(
            "{name:?} is no name of 1 to 63 letters, digits, '-', '.' and '_'"
        ));
    }
    Ok(())
}

/// One replica's store.
#[derive(Debug)]
pub struct PostgresStore {
    workers: Vec<Worker>,
    /// The worker of the next job that is about no single thing.
    next: AtomicUsize,
    replica: Arc<str>,
    epoch: u64,
    lease: ReplicaLease,
    claims: Arc<Claims>,
    logs: Arc<LogTable>,
    ready: ReadyCounts,
    stop: Mutex<Option<oneshot::Sender<oneshot::Sender<()>>>>,
}

/// The statements of a list, by [`Scope`].
#[derive(Clone, Copy, Debug)]
struct Lists {
    /// Of one replica; the parameter is its name.
    own: &'static str,
    all: &'static str,
}

/// This process, as every write names it.
#[derive(Clone, Debug)]
struct Me {
    name: Arc<str>,
    epoch: i64,
}

impl PostgresStore {
    /// Joins a shared store: brings its schema up to date, takes the next gateway epoch and the name of the replica, and renews
    /// the lease from then on. If an earlier process of the name had another data directory, it waits for the end of its lease.
    ///
    /// # Errors
    /// [`StoreError::ReplicaInUse`], [`StoreError::Mismatch`], [`StoreError::NewerSchema`], [`StoreError::DevelopmentSchema`], [`StoreError::Io`],
    /// [`StoreError::Database`].
    pub async fn open(options: PostgresOptions) -> Result<Self, StoreError> {
        Self::open_with(options, schema::MIGRATIONS).await
    }

    async fn open_with(options: PostgresOptions, steps: &[&str]) -> Result<Self, StoreError> {
        let PostgresOptions {
            url,
            replica,
            data_dir,
            lease: length,
        } = options;
        let database = url.shown();
        let explain = |failure: Failure| match StoreError::from(failure) {
            StoreError::Database { reason } => StoreError::Database {
                reason: format!("{database}: {reason}"),
            },
            other => other,
        };
        let connector = tokio::task::spawn_blocking(move || Connector::new(url)).await;
        let connector = connector.map_err(|error| StoreError::Database {
            reason: error.to_string(),
        })?;
        let connector = Arc::new(connector?);
        let mut client = connector.connect().await.map_err(explain)?;
        schema::migrate(&mut client, &database, steps)
            .await
            .map_err(explain)?;
        let link = Link::new(client);
        let joining = Joining {
            link: &link,
            name: &replica,
            data_dir,
            lease: length,
            database: database.clone(),
        };
        let Joined { epoch, lease } = joining.join().await.map_err(explain)?;
        let ready = ReadyCounts::default();
        let heartbeat = Heartbeat {
            connector: Arc::clone(&connector),
            name: replica.clone(),
            epoch: i64::try_from(epoch).unwrap_or(0),
            beat: himalia_lease::Heartbeat::new(length),
            lease: lease.clone(),
            ready: ready.clone(),
        };
        let me = Me {
            name: replica.as_str().into(),
            epoch: heartbeat.epoch,
        };
        let worker = || Worker::spawn(Arc::clone(&connector));
        let logs = Arc::new(LogTable::new(worker(), worker(), me));
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(heartbeat.run(link, stopped));
        Ok(Self {
            workers: (0..WORKERS).map(|_| worker()).collect(),
            logs,
            ready,
            next: AtomicUsize::new(0),
            replica: replica.into(),
            epoch,
            lease,
            claims: Arc::default(),
            stop: Mutex::new(Some(stop)),
        })
    }

    /// Logs that outlive the disk of this replica.
    pub fn logs(&self) -> Arc<LogTable> {
        Arc::clone(&self.logs)
    }

    fn me(&self) -> Me {
        Me {
            name: Arc::clone(&self.replica),
            epoch: i64::try_from(self.epoch).unwrap_or(0),
        }
    }

    /// The worker of all jobs about one thing.
    fn worker_of(&self, id: Uuid) -> Result<&Worker, StoreError> {
        let at = id.as_u128() % WORKERS as u128;
        let worker = usize::try_from(at).ok().and_then(|at| self.workers.get(at));
        worker.ok_or(StoreError::Closed)
    }

    /// The worker of a job about many things.
    fn any_worker(&self) -> Result<&Worker, StoreError> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % WORKERS;
        self.workers.get(at).ok_or(StoreError::Closed)
    }

    /// The rows of a list, each read with `read`.
    async fn do_list<T: Send + 'static>(
        &self,
        scope: Scope,
        lists: Lists,
        read: fn(&Row) -> Result<T, Failure>,
    ) -> Result<Vec<T>, StoreError> {
        let name = Arc::clone(&self.replica);
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &name;
                let found = match scope {
                    Scope::Own => link.query(lists.own, &[&name]).await?,
                    Scope::All => link.query(lists.all, &[]).await?,
                };
                found.iter().map(read).collect()
            })
            .await
    }

    /// Refuses writes of a process that may not act any more.
    fn check_lease(&self) -> Result<(), StoreError> {
        if self.lease.is_valid() {
            Ok(())
        } else if self.stop.lock().is_none() {
            Err(StoreError::Closed)
        } else {
            Err(StoreError::LeaseLost)
        }
    }

    async fn do_close(&self) -> Result<(), StoreError> {
        let stop = self.stop.lock().take();
        for worker in &self.workers {
            worker.close().await?;
        }
        // Last: what is queued is written under the lease.
        if let Some(stop) = stop {
            let (reply, ended) = oneshot::channel();
            if stop.send(reply).is_ok() {
                let _ = ended.await;
            }
        }
        Ok(())
    }
}

impl Store for PostgresStore {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn replica(&self) -> &str {
        &self.replica
    }

    fn lease(&self) -> &ReplicaLease {
        &self.lease
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.do_close())
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.do_check())
    }

    fn set_address(&self, address: String) -> StoreFuture<'_, ()> {
        Box::pin(self.do_set_address(address))
    }

    fn replicas(&self) -> StoreFuture<'_, Vec<ReplicaRecord>> {
        Box::pin(self.do_replicas())
    }

    fn set_ready(&self, template: &str, ready: u32) {
        self.ready.set(template, ready);
    }

    fn ready_elsewhere(&self, template: String, most: u32) -> StoreFuture<'_, Vec<ReadyReplica>> {
        Box::pin(self.do_ready_elsewhere(template, most))
    }

    fn shared_time(&self) -> StoreFuture<'_, Option<i64>> {
        Box::pin(self.do_shared_time())
    }

    fn space(&self) -> StoreFuture<'_, Space> {
        Box::pin(self.do_space())
    }

    /// The database gives room back by itself (autovacuum).
    fn compact(&self, _pages: u32) -> StoreFuture<'_, Space> {
        Box::pin(self.do_space())
    }
}

impl SessionStore for PostgresStore {
    fn insert_kernel(&self, kernel: KernelRecord) -> StoreFuture<'_, ()> {
        Box::pin(self.do_insert_kernel(kernel))
    }

    fn take_kernels(&self) -> StoreFuture<'_, Vec<KernelRecord>> {
        Box::pin(self.do_take_own())
    }

    fn dead_replicas(&self) -> StoreFuture<'_, Vec<DeadReplica>> {
        Box::pin(self.do_dead_replicas())
    }

    fn take_over(&self, what: TakeOver) -> StoreFuture<'_, Taken> {
        Box::pin(self.do_take_over(what))
    }

    fn take_jupyter_sessions(&self, kernels: Vec<Uuid>) -> StoreFuture<'_, usize> {
        Box::pin(self.do_take_jupyter_sessions(kernels))
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

    fn kernels(&self, scope: Scope) -> StoreFuture<'_, Vec<KernelRecord>> {
        Box::pin(self.do_kernels(scope))
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

    fn ended_sessions(&self, scope: Scope) -> StoreFuture<'_, Vec<EndedRecord>> {
        Box::pin(self.do_ended_sessions(scope))
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

    fn jupyter_sessions(&self, scope: Scope) -> StoreFuture<'_, Vec<JupyterSessionRecord>> {
        Box::pin(self.do_jupyter_sessions(scope))
    }

    fn count_kernels(&self, owner: String) -> StoreFuture<'_, usize> {
        Box::pin(self.do_count_kernels(owner))
    }
}

impl AccessStore for PostgresStore {
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

impl CatalogStore for PostgresStore {
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

impl WorkflowRunStore for PostgresStore {
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

    fn hand_over_workflow_run(&self, run: String, epoch: u64) -> StoreFuture<'_, bool> {
        Box::pin(self.do_hand_over_workflow_run(run, epoch))
    }

    fn forget_workflow_runs(&self, micros: i64) -> StoreFuture<'_, usize> {
        Box::pin(self.do_forget_workflow_runs(micros))
    }
}

impl TriggerStore for PostgresStore {
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
