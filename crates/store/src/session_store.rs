//! The part of [`Store`](crate::Store) for kernels and the sessions that they are.

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::part::part;
use crate::tables::ended_sessions::{end_kernel, ended_sessions, forget_ended, set_removed};
use crate::tables::kernels::{
    amend_session, count_kernels, delete_kernel, insert_kernel, kernel, kernels, move_kernel, owner,
    set_kernel_life, take_kernels, update_kernel,
};
use crate::{
    DeadReplica, EndedRecord, KernelLife, KernelRecord, Location, Lookup, Owner, RuntimePaths, Scope,
    TakeOver, TakeOverResult,
};

part! {
    /// Kernels with the sessions that they are, ended sessions, and which replica has each of them.
    SessionStore {
        /// Adds a kernel, which this replica has then, under epoch 1. [`StoreError::Conflict`](crate::StoreError::Conflict) when its id is
        /// taken, or its name.
        write [kernel.id] fn insert_kernel(kernel: KernelRecord) -> ();

        /// Takes the kernels that an earlier process of this replica had, under the next fencing epoch of each; oldest first.
        write fn take_kernels() -> Vec<KernelRecord>;

        /// The other replicas whose lease has ended and that still have something that can be taken.
        own [do_dead_replicas] fn dead_replicas() -> Vec<DeadReplica>;

        /// Takes kernels of replicas whose lease has ended, under the next fencing epoch of each, ended sessions, and what is left of
        /// logs. Two replicas that do so at once take each thing once. After an error, the next call has what this one may have taken.
        own [do_take_over] fn take_over(what: TakeOver) -> TakeOverResult;

        /// Takes the Jupyter sessions of these kernels of this replica from replicas whose lease has ended; gives back how many.
        own [do_take_jupyter_sessions] fn take_jupyter_sessions(kernels: Vec<Uuid>) -> usize;

        /// Finds the replica that has a thing, whether it lives or not; `None` when there is no such thing.
        own [do_locate] fn locate(what: Lookup) -> Option<Location>;

        /// The owner of a kernel; `None` when there is no such kernel.
        read [id] fn owner(id: Uuid) -> Option<Owner>;

        /// Replaces the row of `kernel.id`; `false` when there is none. [`StoreError::Fenced`](crate::StoreError::Fenced).
        fenced [kernel.id] fn update_kernel(kernel: KernelRecord) -> bool;

        /// A kernel has a new sandbox, in which its process is yet to start: sets where its sandbox and its link are, the count of
        /// its processes, and these members of its session. Its log stays. `false` when there is no such kernel.
        /// [`StoreError::Fenced`](crate::StoreError::Fenced).
        fenced [id] fn move_kernel(id: Uuid, paths: RuntimePaths, incarnation: u32, changes: Map<String, Value>) -> bool;

        /// Sets only what changes while a kernel lives; `false` when there is no such kernel.
        /// [`StoreError::Fenced`](crate::StoreError::Fenced).
        fenced [id] fn set_kernel_life(id: Uuid, life: KernelLife, incarnation: u32, dead_cause: Option<String>) -> bool;

        /// Sets these members of a kernel's session, and leaves the others as they are; `false` when there is no such kernel.
        /// [`StoreError::Fenced`](crate::StoreError::Fenced).
        fenced [id] fn amend_session(id: Uuid, changes: Map<String, Value>) -> bool;

        /// Forgets a kernel; `false` when there was none. [`StoreError::Fenced`](crate::StoreError::Fenced).
        fenced [id] fn delete_kernel(id: Uuid) -> bool;

        /// One kernel, of any replica.
        read [id] fn kernel(id: Uuid) -> Option<KernelRecord>;

        /// Every kernel, oldest first.
        read fn kernels(scope: Scope) -> Vec<KernelRecord>;

        /// Kernels of this owner, of all replicas, those included that have no process.
        read fn count_kernels(owner: String) -> usize;

        /// A kernel has ended: removes its row and adds `ended`, both or neither. [`StoreError::Fenced`](crate::StoreError::Fenced).
        fenced [ended.id] fn end_kernel(ended: EndedRecord) -> ();

        /// The journals of this replica in these directories are removed; gives back how many of them were known.
        write fn set_removed(dirs: Vec<String>, at_micros: i64) -> usize;

        /// Forgets sessions of this replica whose journals were removed before `micros`; gives back how many.
        write fn forget_ended(micros: i64) -> usize;

        /// Every ended session that is not forgotten, in the order in which they ended.
        read fn ended_sessions(scope: Scope) -> Vec<EndedRecord>;
    }
}
