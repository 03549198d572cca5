//! The gateway's durable state that is not output.
//!
//! What is here commits before its caller is answered. Output and executions are not here, nor are the idempotency keys of
//! these: they are in the journal. Rows hold no keys, and values of secrets
//! sealed only, so a copy of the store reveals names, paths and the variables that callers gave.
//!
//! [`Store`] is the interface. [`SqliteStore`] is for one gateway and needs no service, [`PostgresStore`] is for several replicas
//! of it, and [`MeasuredStore`] times the calls of either. The tests in `tests/contract.rs` are written against the interface, and run on both.
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
//!
//! # A new table
//! A table with create, read, update and delete needs three files:
//!
//! 1. `tables/NOUN.rs`: the record (`record!`), the methods with their documentation (`part!`), and for each of them an `async fn` of the
//!    same name with its statement. A statement is written once for both databases (`sql/statement.rs`). Each write has the condition
//!    `{member}`, without which a process that lost its lease could still write.
//! 2. `tables/mod.rs`: the module, its public names, and the part in the list of `tables!`.
//! 3. `tables/migrations.rs`: a new step with the table, in the types of Postgres. `{counted …}` counts the bytes of its columns for their owner.
//!
//! A test in `tests/contract.rs`, which its list in `tests.rs` names, then runs on both.

mod claims;
mod ended;
mod error;
mod failure;
mod kernels;
mod lease;
mod measured;
mod part;
mod postgres;
mod replicas;
mod session_store;
mod sql;
mod sqlite;
mod tables;

use std::future::Future;
use std::pin::Pin;

pub use ended::{EndedRecord, Space};
pub use error::StoreError;
pub use himalia_lease::{DeadReplica, TakeOver};
pub use kernels::{KernelLife, KernelRecord, Owner, RuntimePaths};
pub use lease::ReplicaLease;
pub use measured::MeasuredStore;
pub use postgres::{LogPart, LogSegment, LogTable, StoredLog};
pub use postgres::{PostgresOptions, PostgresStore, PostgresUrl, REPLICA_FILE, check_replica_name};
pub use replicas::{Location, Lookup, PLACE, ReadyReplica, ReplicaRecord, Scope, TakeOverResult};
pub use session_store::SessionStore;
pub use sqlite::{QUEUE, SqliteStore, copy_database, detach_sandboxes};
pub use tables::*;

/// A boxed future, so that the trait can be used as an object.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The durable state of one replica of the gateway. What a call has committed is seen by every read that starts after it,
/// and a call that was made is done even when its caller stopped waiting.
pub trait Store: SessionStore + Tables {
    /// The epoch of this gateway process: one more than that of the process that opened the store before, whichever replica that
    /// was, 1 for the first. It is durable before the store is open.
    fn epoch(&self) -> u64;

    fn replica(&self) -> &str;

    /// The lease of this replica: as long as it is valid, the replica may act. Writes fail with [`StoreError::LeaseLost`] when it is not valid any more.
    fn lease(&self) -> &ReplicaLease;

    /// Returns true if other replicas change rows of the store too.
    fn is_shared(&self) -> bool;

    /// Finishes what is queued, ends the lease and gives the store free. Every later call fails with [`StoreError::Closed`].
    fn close(&self) -> StoreFuture<'_, ()>;

    /// Commits something, to see if this is possible now. The error says why not.
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

    /// The room that the store takes.
    fn space(&self) -> StoreFuture<'_, Space>;

    /// Gives at most `pages` pages that hold nothing back to the file system. Gives back the room that is taken after.
    fn compact(&self, pages: u32) -> StoreFuture<'_, Space>;
}

#[cfg(test)]
mod tests;
