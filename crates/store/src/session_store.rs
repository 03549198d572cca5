//! The part of [`Store`](crate::Store) for sessions.

use std::fmt::Debug;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    DeadReplica, EndedRecord, JupyterSessionRecord, KernelLife, KernelRecord, Location, Lookup, Owner,
    RuntimePaths, Scope, StoreFuture, TakeOver, Taken,
};

/// Kernels with the sessions that they are, ended sessions, Jupyter sessions, and which replica has each of them.
pub trait SessionStore: Debug + Send + Sync + 'static {
    /// Adds a kernel, which this replica has then, under epoch 1. [`StoreError::Conflict`](crate::StoreError::Conflict) when its id is taken, or its name.
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

    /// Who has a thing, whether that replica lives or not; `None` when there is no such thing.
    fn locate(&self, what: Lookup) -> StoreFuture<'_, Option<Location>>;

    /// Who has a kernel; `None` when there is no such kernel.
    fn owner(&self, id: Uuid) -> StoreFuture<'_, Option<Owner>>;

    /// Replaces the row of `kernel.id`; `false` when there is none. [`StoreError::Fenced`](crate::StoreError::Fenced).
    fn update_kernel(&self, kernel: KernelRecord) -> StoreFuture<'_, bool>;

    /// A kernel has a new sandbox, in which its process is yet to start: sets where its sandbox and its link are, the count of
    /// its processes, and these members of its session. Its log stays. `false` when there is no such kernel.
    /// [`StoreError::Fenced`](crate::StoreError::Fenced).
    fn move_kernel(
        &self,
        id: Uuid,
        paths: RuntimePaths,
        incarnation: u32,
        changes: Map<String, Value>,
    ) -> StoreFuture<'_, bool>;

    /// Sets only what changes while a kernel lives; `false` when there is no such kernel. [`StoreError::Fenced`](crate::StoreError::Fenced).
    fn set_kernel_life(
        &self,
        id: Uuid,
        life: KernelLife,
        incarnation: u32,
        dead_cause: Option<String>,
    ) -> StoreFuture<'_, bool>;

    /// Sets these members of a kernel's session, and leaves the others as they are; `false` when there is no such kernel.
    /// [`StoreError::Fenced`](crate::StoreError::Fenced).
    fn amend_session(&self, id: Uuid, changes: Map<String, Value>) -> StoreFuture<'_, bool>;

    /// Forgets a kernel; `false` when there was none. [`StoreError::Fenced`](crate::StoreError::Fenced).
    fn delete_kernel(&self, id: Uuid) -> StoreFuture<'_, bool>;

    /// One kernel, of any replica.
    fn kernel(&self, id: Uuid) -> StoreFuture<'_, Option<KernelRecord>>;

    /// Every kernel, oldest first.
    fn kernels(&self, scope: Scope) -> StoreFuture<'_, Vec<KernelRecord>>;

    /// A kernel has ended: removes its row and adds `ended`, both or neither. [`StoreError::Fenced`](crate::StoreError::Fenced).
    fn end_kernel(&self, ended: EndedRecord) -> StoreFuture<'_, ()>;

    /// The journals of this replica in these directories are removed; gives back how many of them were known.
    fn set_removed(&self, dirs: Vec<String>, at_micros: i64) -> StoreFuture<'_, usize>;

    /// Forgets sessions of this replica whose journals were removed before `micros`; gives back how many.
    fn forget_ended(&self, micros: i64) -> StoreFuture<'_, usize>;

    /// Every ended session that is not forgotten, in the order in which they ended.
    fn ended_sessions(&self, scope: Scope) -> StoreFuture<'_, Vec<EndedRecord>>;

    /// Adds a Jupyter session. [`StoreError::Conflict`](crate::StoreError::Conflict) when its id is taken.
    fn insert_jupyter_session(&self, session: JupyterSessionRecord) -> StoreFuture<'_, ()>;

    /// Replaces the row of `session.id`; `false` when this replica has none.
    fn update_jupyter_session(&self, session: JupyterSessionRecord) -> StoreFuture<'_, bool>;

    /// Forgets Jupyter sessions of this replica by id, all or none; gives back how many there were.
    fn delete_jupyter_sessions(&self, ids: Vec<Uuid>) -> StoreFuture<'_, usize>;

    /// One Jupyter session of this replica.
    fn jupyter_session(&self, id: Uuid) -> StoreFuture<'_, Option<JupyterSessionRecord>>;

    /// Every Jupyter session, oldest first.
    fn jupyter_sessions(&self, scope: Scope) -> StoreFuture<'_, Vec<JupyterSessionRecord>>;

    /// Kernels of this owner, of all replicas, those included that have no process.
    fn count_kernels(&self, owner: String) -> StoreFuture<'_, usize>;
}
