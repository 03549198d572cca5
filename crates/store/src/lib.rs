//! The gateway's durable state that is not output.
//!
//! What is here commits before its caller is answered. Output and executions are not here, nor are the idempotency keys of
//! these: they are in the journal. Rows hold no keys, and values of secrets
//! sealed only, so a copy of the store reveals names, paths and the variables that callers gave.
//!
//! [`Store`] is the interface. [`SqliteStore`] is for one gateway and needs no service, [`PostgresStore`] is for several replicas
//! of it, and [`Measured`] times the calls of either. The tests in `tests/contract.rs` are written against the interface, and run on both.
//!
//! # Who has a kernel
//! Each row of a kernel names the replica that has it and a *fencing epoch*, which grows each time that a replica takes it.
//! A store remembers what its replica inserted and took, and refuses a write to a kernel that another one has taken since
//! ([`StoreError::Fenced`]): a replica that was thought gone cannot undo what its successor wrote.
//!
//! # Replicas
//! A replica holds a lease ([`Store::lease`]), which it renews. While the lease is valid no other replica takes its kernels. Rows of
//! ended sessions and of Jupyter sessions also name their replica. [`Store::locate`] finds who has a thing, [`Store::replicas`] who
//! lives, and lists are of this replica or of all ([`Scope`]).

mod callbacks;
mod claims;
mod credentials;
mod ended;
mod error;
mod jupyter_sessions;
mod kernels;
mod lease;
mod measured;
mod postgres;
mod replicas;
mod skills;
mod sqlite;
mod tokens;
mod tool_approvals;
mod triggers;
mod usage;
mod workflows;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use serde_json::{Map, Value};
use uuid::Uuid;

pub use callbacks::{CallbackAdded, CallbackQuota, NewCallback};
pub use credentials::{CredentialRecord, PutCredential};
pub use ended::{EndedRecord, Space};
pub use error::StoreError;
pub use himalia_lease::{DeadReplica, TakeOver};
pub use jupyter_sessions::JupyterSessionRecord;
pub use kernels::{KernelLife, KernelRecord, Owner, RuntimePaths};
pub use lease::ReplicaLease;
pub use measured::Measured;
pub use postgres::{LogPart, LogSegment, LogTable, StoredLog};
pub use postgres::{PostgresOptions, PostgresStore, PostgresUrl, REPLICA_FILE, check_replica_name};
pub use replicas::{Location, Lookup, PLACE, ReadyReplica, ReplicaRecord, Scope, Taken};
pub use skills::{SkillBrief, SkillRecord, VersionAdded, VersionQuota};
pub use sqlite::{QUEUE, SqliteStore, copy_database, detach_sandboxes};
pub use tokens::TokenRecord;
pub use tool_approvals::{ToolApprovalAdded, ToolApprovalRecord};
pub use triggers::{
    DeliveryRecord, DueDelivery, FairBatch, OpenRun, TriggerAdded, TriggerRecord, TriggerRun, TriggerRunState,
};
pub use usage::UsageRecord;
pub use workflows::{
    ANSWERED, RUNNING, StepAnswer, StepPromptFilter, StepPromptPlace, StepPromptRecord, StepsWritten,
    WAITING, WorkflowBrief, WorkflowRecord, WorkflowRunAdded, WorkflowRunBrief, WorkflowRunEnd,
    WorkflowRunFilter, WorkflowRunQuota, WorkflowRunRecord, WorkflowStepRecord,
};

/// A boxed future, so that the trait can be used as an object.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The durable state of one replica of the gateway. What a call has committed is seen by every read that starts after it,
/// and a call that was made is done even when its caller stopped waiting.
pub trait Store: Debug + Send + Sync + 'static {
    /// The epoch of this gateway process: one more than that of the process that opened the store before, whichever replica that
    /// was, 1 for the first. It is durable before the store is open.
    fn epoch(&self) -> u64;

    /// The name of this replica.
    fn replica(&self) -> &str;

    /// How long this replica may act. Writes fail with [`StoreError::LeaseLost`] when it is not valid any more.
    fn lease(&self) -> &ReplicaLease;

    /// Whether other replicas change what is in the store too.
    fn is_shared(&self) -> bool;

    /// Finishes what is queued, ends the lease and gives the store free. Every later call fails with [`StoreError::Closed`].
    fn close(&self) -> StoreFuture<'_, ()>;

    /// Whether something can be committed now. The error says why not.
    fn check(&self) -> StoreFuture<'_, ()>;

    /// Adds a kernel, which this replica has then, under epoch 1. [`StoreError::Conflict`] when its id is taken, or its name.
    fn insert_kernel(&self, kernel: KernelRecord) -> StoreFuture<'_, ()>;

    /// Takes the kernels that an earlier process of this replica had, under the next fencing epoch of each; oldest first.
    fn take_kernels(&self) -> StoreFuture<'_, Vec<KernelRecord>>;

    /// The other replicas whose lease has ended and that still have something that can be taken.
    fn dead_replicas(&self) -> StoreFuture<'_, Vec<DeadReplica>>;

    /// Takes kernels of replicas whose lease has ended, under the next fencing epoch of each, ended sessions, and what is left of
    /// logs. Two replicas that do so at once take each thing once. After an error, the next call has what this one may have taken.
    fn take_over(&self, what: TakeOver) -> StoreFuture<'_, Taken>;

    /// Takes the Jupyter sessions of these kernels of this replica from replicas whose lease has ended; gives back how many.
    fn take_jupyter_sessions(&self, kernels: Vec<Uuid>) -> StoreFuture<'_, usize>;

    /// Notes where other replicas reach this one.
    fn set_address(&self, address: String) -> StoreFuture<'_, ()>;

    /// The replicas whose lease is valid, this one among them, by name.
    fn replicas(&self) -> StoreFuture<'_, Vec<ReplicaRecord>>;

    /// Notes how many kernels of a template's pool are ready here. Other replicas learn it with the next renewal of the lease, within
    /// about a second.
    fn set_ready(&self, template: &str, ready: u32);

    /// The other replicas that live, can be reached and have kernels of this template's pool ready: those with the most first, at
    /// most `most`.
    fn ready_elsewhere(&self, template: String, most: u32) -> StoreFuture<'_, Vec<ReadyReplica>>;

    /// Who has a thing, whether that replica lives or not; `None` when there is no such thing.
    fn locate(&self, what: Lookup) -> StoreFuture<'_, Option<Location>>;

    /// Who has a kernel; `None` when there is no such kernel.
    fn owner(&self, id: Uuid) -> StoreFuture<'_, Option<Owner>>;

    /// Replaces the row of `kernel.id`; `false` when there is none. [`StoreError::Fenced`].
    fn update_kernel(&self, kernel: KernelRecord) -> StoreFuture<'_, bool>;

    /// A kernel has a new sandbox, in which its process is yet to start: sets where its sandbox and its link are, the count of
    /// its processes, and these members of its session. Its log stays. `false` when there is no such kernel.
    /// [`StoreError::Fenced`].
    fn move_kernel(
        &self,
        id: Uuid,
        paths: RuntimePaths,
        incarnation: u32,
        changes: Map<String, Value>,
    ) -> StoreFuture<'_, bool>;

    /// Sets only what changes while a kernel lives; `false` when there is no such kernel. [`StoreError::Fenced`].
    fn set_kernel_life(
        &self,
        id: Uuid,
        life: KernelLife,
        incarnation: u32,
        dead_cause: Option<String>,
    ) -> StoreFuture<'_, bool>;

    /// Sets these members of a kernel's session, and leaves the others as they are; `false` when there is no such kernel.
    /// [`StoreError::Fenced`].
    fn amend_session(&self, id: Uuid, changes: Map<String, Value>) -> StoreFuture<'_, bool>;

    /// Forgets a kernel; `false` when there was none. [`StoreError::Fenced`].
    fn delete_kernel(&self, id: Uuid) -> StoreFuture<'_, bool>;

    /// One kernel, of any replica.
    fn kernel(&self, id: Uuid) -> StoreFuture<'_, Option<KernelRecord>>;

    /// Every kernel, oldest first.
    fn kernels(&self, scope: Scope) -> StoreFuture<'_, Vec<KernelRecord>>;

    /// A kernel has ended: removes its row and adds `ended`, both or neither. [`StoreError::Fenced`].
    fn end_kernel(&self, ended: EndedRecord) -> StoreFuture<'_, ()>;

    /// The journals of this replica in these directories are removed; gives back how many of them were known.
    fn set_removed(&self, dirs: Vec<String>, at_micros: i64) -> StoreFuture<'_, usize>;

    /// Forgets sessions of this replica whose journals were removed before `micros`; gives back how many.
    fn forget_ended(&self, micros: i64) -> StoreFuture<'_, usize>;

    /// Every ended session that is not forgotten, in the order in which they ended.
    fn ended_sessions(&self, scope: Scope) -> StoreFuture<'_, Vec<EndedRecord>>;

    /// Adds a Jupyter session. [`StoreError::Conflict`] when its id is taken.
    fn insert_jupyter_session(&self, session: JupyterSessionRecord) -> StoreFuture<'_, ()>;

    /// Replaces the row of `session.id`; `false` when this replica has none.
    fn update_jupyter_session(&self, session: JupyterSessionRecord) -> StoreFuture<'_, bool>;

    /// Forgets Jupyter sessions of this replica by id, all or none; gives back how many there were.
    fn delete_jupyter_sessions(&self, ids: Vec<Uuid>) -> StoreFuture<'_, usize>;

    /// One Jupyter session of this replica.
    fn jupyter_session(&self, id: Uuid) -> StoreFuture<'_, Option<JupyterSessionRecord>>;

    /// Every Jupyter session, oldest first.
    fn jupyter_sessions(&self, scope: Scope) -> StoreFuture<'_, Vec<JupyterSessionRecord>>;

    /// Adds an access token. [`StoreError::Conflict`] when its id or its hash is taken.
    fn insert_token(&self, token: TokenRecord) -> StoreFuture<'_, ()>;

    /// Forgets an access token; `false` when there was none.
    fn delete_token(&self, id: Uuid) -> StoreFuture<'_, bool>;

    /// Forgets the access tokens that expired at `micros` or before; gives back how many.
    fn delete_expired_tokens(&self, micros: i64) -> StoreFuture<'_, usize>;

    /// Every access token, oldest first.
    fn tokens(&self) -> StoreFuture<'_, Vec<TokenRecord>>;

    /// Writes a credential in the place of the one of its owner and name, if there is one; `false` when it was not written.
    fn put_credential(&self, record: CredentialRecord, when: PutCredential) -> StoreFuture<'_, bool>;

    /// Forgets a credential; `false` when there was none.
    fn delete_credential(&self, owner: String, name: String) -> StoreFuture<'_, bool>;

    /// The credentials of these names that these owners have, in any order.
    fn find_credentials(
        &self,
        owners: Vec<String>,
        names: Vec<String>,
    ) -> StoreFuture<'_, Vec<CredentialRecord>>;

    /// Every credential, by owner and name.
    fn credentials(&self) -> StoreFuture<'_, Vec<CredentialRecord>>;

    /// Adds an approval of a tool, if its owner has fewer than `most`. One that is there for these sessions stays as it is.
    fn add_tool_approval(&self, record: ToolApprovalRecord, most: i64) -> StoreFuture<'_, ToolApprovalAdded>;

    /// Whether a tool is approved for the sessions of a template that a caller of an owner starts.
    fn has_tool_approval(
        &self,
        owner: String,
        caller: String,
        template: String,
        tool: String,
        definition: String,
    ) -> StoreFuture<'_, bool>;

    /// The approvals of tools of an owner, or of all, by owner, caller, template and tool.
    fn tool_approvals(&self, owner: Option<String>) -> StoreFuture<'_, Vec<ToolApprovalRecord>>;

    /// Forgets one of an owner, or of any; `false` when there is none.
    fn delete_tool_approval(&self, owner: Option<String>, id: Uuid) -> StoreFuture<'_, bool>;

    /// Adds a version of a skill, if its owner has less than the quota. A version that is there stays as it is.
    fn add_skill(&self, record: SkillRecord, quota: VersionQuota) -> StoreFuture<'_, VersionAdded>;

    /// One version of a skill.
    fn skill(&self, owner: String, name: String, version: String) -> StoreFuture<'_, Option<SkillRecord>>;

    /// All versions of an owner's skills, or of that of one name, by name.
    fn skills(&self, owner: String, name: Option<String>) -> StoreFuture<'_, Vec<SkillBrief>>;

    /// Forgets one version of a skill, or all; gives back how many.
    fn delete_skill(&self, owner: String, name: String, version: Option<String>) -> StoreFuture<'_, usize>;

    /// Adds a version of a workflow, if its owner has less than the quota. A version that is there stays as it is.
    fn add_workflow(&self, record: WorkflowRecord, quota: VersionQuota) -> StoreFuture<'_, VersionAdded>;

    /// One version of a workflow.
    fn workflow(
        &self,
        owner: String,
        name: String,
        version: String,
    ) -> StoreFuture<'_, Option<WorkflowRecord>>;

    /// All versions of an owner's workflows, or of that of one name, by name.
    fn workflows(&self, owner: String, name: Option<String>) -> StoreFuture<'_, Vec<WorkflowBrief>>;

    /// Forgets one version of a workflow, or all; gives back how many.
    fn delete_workflow(&self, owner: String, name: String, version: Option<String>)
    -> StoreFuture<'_, usize>;

    /// A definition by its address, as long as a workflow or a run of its owner has it.
    fn workflow_definition(&self, owner: String, digest: String) -> StoreFuture<'_, Option<String>>;

    /// Bytes of an owner's rows: of skills, workflows, triggers, their runs and deliveries, credentials and access tokens.
    fn owner_bytes(&self, owner: String) -> StoreFuture<'_, i64>;

    /// Adds a run of a workflow, which this process has then, if its owner has fewer than the quota and none has its key. Where the quota of
    /// bytes is exceeded, runs that have ended are forgotten. Its callback is
    /// added with it: both or neither.
    fn add_workflow_run(
        &self,
        record: WorkflowRunRecord,
        quota: WorkflowRunQuota,
        callback: Option<NewCallback>,
    ) -> StoreFuture<'_, WorkflowRunAdded>;

    /// One run of a workflow, of any owner.
    fn workflow_run(&self, id: String) -> StoreFuture<'_, Option<WorkflowRunRecord>>;

    /// The run of an owner with this idempotency key.
    fn workflow_run_of(&self, owner: String, key: String) -> StoreFuture<'_, Option<WorkflowRunRecord>>;

    /// Runs of an owner, the latest first.
    fn workflow_runs(
        &self,
        owner: String,
        filter: WorkflowRunFilter,
    ) -> StoreFuture<'_, Vec<WorkflowRunBrief>>;

    /// Steps that wait for a person, of an owner or of all.
    fn step_prompts(&self, filter: StepPromptFilter) -> StoreFuture<'_, Vec<StepPromptRecord>>;

    /// A step that asks or has asked a person.
    fn step_prompt(&self, run: String, step: String) -> StoreFuture<'_, Option<StepPromptRecord>>;

    /// Steps that wait for a person and of which [`Store::set_told`] has noted nothing, by their turn, at most `most`.
    fn untold_step_prompts(&self, most: i64) -> StoreFuture<'_, Vec<StepPromptRecord>>;

    /// Notes that the prompts of these steps were posted to webhooks, by run and id.
    fn set_told(&self, steps: Vec<(String, String)>) -> StoreFuture<'_, ()>;

    /// The answers to steps of a run that the run has not seen yet.
    fn step_answers(&self, run: String) -> StoreFuture<'_, Vec<StepAnswer>>;

    /// Returns true if a step of a run waits for a person.
    fn run_asks(&self, run: String) -> StoreFuture<'_, bool>;

    /// All attempts of all steps of a run, by step, item and attempt.
    fn workflow_steps(&self, run: String) -> StoreFuture<'_, Vec<WorkflowStepRecord>>;

    /// Writes attempts of a run that this process has, each in the place of the one with its step, item and number.
    fn write_workflow_steps(
        &self,
        run: String,
        steps: Vec<WorkflowStepRecord>,
    ) -> StoreFuture<'_, StepsWritten>;

    /// The answer to a step that waits; `false` when it does not wait: it was answered or has ended.
    fn answer_workflow_step(&self, given: StepAnswer) -> StoreFuture<'_, bool>;

    /// Notes that a run is to end; `false` when it has ended.
    fn cancel_workflow_run(&self, run: String, by: String) -> StoreFuture<'_, bool>;

    /// A run that this process has has ended; `false` when it has it not, or it had ended.
    fn end_workflow_run(&self, run: String, end: WorkflowRunEnd) -> StoreFuture<'_, bool>;

    /// Takes the runs that continue and whose process has gone; gives back all that this process has, oldest first.
    fn claim_workflow_runs(&self) -> StoreFuture<'_, Vec<String>>;

    /// Gives a run that this process has to the living replica of an epoch, which takes it when it claims runs the next time. `false`: this
    /// process has it not, or there is no such replica.
    fn hand_over_workflow_run(&self, run: String, epoch: u64) -> StoreFuture<'_, bool>;

    /// Forgets runs that ended before `micros`; gives back how many.
    fn forget_workflow_runs(&self, micros: i64) -> StoreFuture<'_, usize>;

    /// The time by which all replicas act, microseconds since 1970; `None`: that of this process.
    fn shared_time(&self) -> StoreFuture<'_, Option<i64>>;

    /// Adds a trigger, if its owner has fewer than `most` of its kind.
    fn insert_trigger(&self, record: TriggerRecord, most: i64) -> StoreFuture<'_, TriggerAdded>;

    /// One trigger.
    fn trigger(&self, id: Uuid) -> StoreFuture<'_, Option<TriggerRecord>>;

    /// The triggers of a kind, of an owner or of all, by owner and name.
    fn triggers(&self, owner: Option<String>, kind: String) -> StoreFuture<'_, Vec<TriggerRecord>>;

    /// The triggers that are due at `micros`: owners take turns, each with its earliest first.
    fn due_triggers(&self, micros: i64, most: i64) -> StoreFuture<'_, Vec<TriggerRecord>>;

    /// Replaces a trigger, if it has still the version that `record` names, which grows by one, and adds a run of it: both or neither.
    fn change_trigger(&self, record: TriggerRecord, run: Option<TriggerRun>) -> StoreFuture<'_, bool>;

    /// Forgets a trigger, its runs and their deliveries; `false` when there was none.
    fn delete_trigger(&self, id: Uuid) -> StoreFuture<'_, bool>;

    /// Adds a run, if there is none with its key, which is given back else.
    fn add_trigger_run(&self, run: TriggerRun) -> StoreFuture<'_, Option<TriggerRun>>;

    /// One run.
    fn trigger_run(&self, id: Uuid) -> StoreFuture<'_, Option<TriggerRun>>;

    /// The run of a trigger with this key.
    fn trigger_run_of(&self, trigger: Uuid, key: String) -> StoreFuture<'_, Option<TriggerRun>>;

    /// Returns true if a message has answered a prompt of a webhook before.
    fn has_prompt_answer(&self, hook: Uuid, message: String) -> StoreFuture<'_, bool>;

    /// Notes that a message has answered a prompt of a webhook. Deleted with its webhook, or by [`Store::forget_trigger_runs`].
    fn note_prompt_answer(&self, hook: Uuid, message: String, micros: i64) -> StoreFuture<'_, ()>;

    /// The latest runs of a trigger, the latest first.
    fn trigger_runs(&self, trigger: Uuid, most: i64) -> StoreFuture<'_, Vec<TriggerRun>>;

    /// The latest run of each trigger of a kind, of an owner or of all.
    fn last_trigger_runs(&self, owner: Option<String>, kind: String) -> StoreFuture<'_, Vec<TriggerRun>>;

    /// Runs that have not ended, are to be tried at `micros`, and that no living process has claimed: owners take turns.
    fn open_trigger_runs(&self, micros: i64, most: FairBatch) -> StoreFuture<'_, Vec<OpenRun>>;

    /// Runs of a trigger that have not ended.
    fn count_open_trigger_runs(&self, trigger: Uuid) -> StoreFuture<'_, i64>;

    /// Claims a run for this process, if its claim is still `held`.
    fn claim_trigger_run(&self, id: Uuid, held: String) -> StoreFuture<'_, bool>;

    /// Writes a run that this process has claimed and that has not ended; the claim ends unless it `keeps` it. Adds a delivery with it:
    /// both or neither.
    fn change_trigger_run(
        &self,
        run: TriggerRun,
        keeps: bool,
        delivery: Option<DeliveryRecord>,
    ) -> StoreFuture<'_, bool>;

    /// Forgets runs that have ended, were due before `before`, and are not among the latest `keep` of their trigger; gives back how many.
    fn forget_trigger_runs(&self, keep: i64, before: i64) -> StoreFuture<'_, usize>;

    /// Adds a callback and its run, if the run has none and the owner has fewer than the quota: both or neither.
    fn add_callback(&self, new: NewCallback) -> StoreFuture<'_, CallbackAdded>;

    /// Whether an owner has fewer callbacks of a kind than the quota.
    fn has_callback_room(&self, owner: String, kind: String, quota: CallbackQuota) -> StoreFuture<'_, bool>;

    /// Forgets callbacks of a kind that were added before `before`, whose run has ended and is not kept any more (a run of a workflow, or the
    /// log of a session), and whose delivery has ended; gives back how many.
    fn forget_callbacks(&self, kind: String, before: i64) -> StoreFuture<'_, usize>;

    /// One delivery.
    fn delivery(&self, id: Uuid) -> StoreFuture<'_, Option<DeliveryRecord>>;

    /// The latest deliveries of a trigger, the latest first.
    fn deliveries(&self, trigger: Uuid, most: i64) -> StoreFuture<'_, Vec<DeliveryRecord>>;

    /// Deliveries that are due at `micros` and that no living process has claimed: owners take turns, and the URLs of an owner.
    fn due_deliveries(&self, micros: i64, most: FairBatch) -> StoreFuture<'_, Vec<DueDelivery>>;

    /// Claims for this process a delivery that is as `record` says; `None`: it was claimed or changed meanwhile.
    fn claim_delivery(&self, record: DeliveryRecord) -> StoreFuture<'_, Option<DeliveryRecord>>;

    /// Writes a delivery whose claim is still that of `record`, and ends the claim.
    fn change_delivery(&self, record: DeliveryRecord) -> StoreFuture<'_, bool>;

    /// Kernels of this owner, of all replicas, those included that have no process.
    fn count_kernels(&self, owner: String) -> StoreFuture<'_, usize>;

    /// Adds to what was used on a day (days since 1970, UTC), all or nothing.
    fn add_usage(&self, day: i64, used: Vec<UsageRecord>) -> StoreFuture<'_, ()>;

    /// What was used on a day, over all replicas, by owner and caller.
    fn usage(&self, day: i64) -> StoreFuture<'_, Vec<UsageRecord>>;

    /// Forgets what was used before a day; gives back how many rows that were.
    fn forget_usage(&self, day: i64) -> StoreFuture<'_, usize>;

    /// How much room the store takes.
    fn space(&self) -> StoreFuture<'_, Space>;

    /// Gives at most `pages` pages that hold nothing back to the file system. Gives back the room that is taken after.
    fn compact(&self, pages: u32) -> StoreFuture<'_, Space>;
}

#[cfg(test)]
mod tests;
