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

mod access_store;
mod callbacks;
mod catalog_store;
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
mod session_store;
mod skills;
mod sqlite;
mod tokens;
mod tool_approvals;
mod trigger_store;
mod triggers;
mod usage;
mod workflow_run_store;
mod workflows;

use std::future::Future;
use std::pin::Pin;

pub use access_store::AccessStore;
pub use callbacks::{CallbackAdded, CallbackQuota, NewCallback};
pub use catalog_store::CatalogStore;
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
pub use session_store::SessionStore;
pub use skills::{SkillBrief, SkillRecord, VersionAdded, VersionQuota};
pub use sqlite::{QUEUE, SqliteStore, copy_database, detach_sandboxes};
pub use tokens::TokenRecord;
pub use tool_approvals::{ToolApprovalAdded, ToolApprovalRecord};
pub use trigger_store::TriggerStore;
pub use triggers::{
    DeliveryRecord, DueDelivery, FairBatch, OpenRun, TriggerAdded, TriggerRecord, TriggerRun, TriggerRunState,
};
pub use usage::UsageRecord;
pub use workflow_run_store::WorkflowRunStore;
pub use workflows::{
    ANSWERED, RUNNING, StepAnswer, StepPromptFilter, StepPromptPlace, StepPromptRecord, StepsWritten,
    WAITING, WorkflowBrief, WorkflowRecord, WorkflowRunAdded, WorkflowRunBrief, WorkflowRunEnd,
    WorkflowRunFilter, WorkflowRunQuota, WorkflowRunRecord, WorkflowStepRecord,
};

/// A boxed future, so that the trait can be used as an object.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The durable state of one replica of the gateway. What a call has committed is seen by every read that starts after it,
/// and a call that was made is done even when its caller stopped waiting.
pub trait Store: SessionStore + AccessStore + CatalogStore + WorkflowRunStore + TriggerStore {
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

    /// The time by which all replicas act, microseconds since 1970; `None`: that of this process.
    fn shared_time(&self) -> StoreFuture<'_, Option<i64>>;

    /// How much room the store takes.
    fn space(&self) -> StoreFuture<'_, Space>;

    /// Gives at most `pages` pages that hold nothing back to the file system. Gives back the room that is taken after.
    fn compact(&self, pages: u32) -> StoreFuture<'_, Space>;
}

#[cfg(test)]
mod tests;
