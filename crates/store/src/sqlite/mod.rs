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
//! open, this one owns every kernel in it: [`SessionStore::take_kernels`](crate::SessionStore::take_kernels) takes them all.

mod backup;
mod meta;
mod open;
mod replicas;
mod schema;
mod space;
mod sql;
mod worker;

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};

use crate::claims::Claims;
use crate::failure::Failure;
use crate::sql::Process;
use crate::tables::migrations::MIGRATIONS;
use crate::{ReadyReplica, ReplicaLease, ReplicaRecord, Space, Store, StoreError, StoreFuture};
pub use backup::{copy_database, detach_sandboxes};
use sql::SqliteSql;
pub use worker::QUEUE;

/// A store in a file. Clones share its two threads, which end after the last clone is dropped.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    inner: Arc<Inner>,
    process: Process,
    pub(crate) claims: Arc<Claims>,
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
        Self::open_with(path, replica, MIGRATIONS)
    }

    /// Returns whether there is a database that [`SqliteStore::open`] would open. It writes nothing to the file, which can be in use.
    ///
    /// # Errors
    ///
    /// [`StoreError::NewerSchema`], [`StoreError::DevelopmentSchema`], [`StoreError::Foreign`], [`StoreError::Corrupt`], [`StoreError::Io`].
    pub fn check(path: &Path) -> Result<bool, StoreError> {
        open::inspect(path, MIGRATIONS)
    }

    fn open_with(path: &Path, replica: &str, steps: &[&str]) -> Result<Self, StoreError> {
        let open::OpenedFile {
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
            process: Process::new(replica, epoch),
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
            process: Process::new(replica, self.inner.epoch),
            claims: Arc::default(),
            address: Arc::default(),
            lease: ReplicaLease::unlimited(),
        }
    }

    /// Runs `job` in one `BEGIN IMMEDIATE` transaction and answers after its commit.
    async fn write<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        self.run_write(move |sql| job(sql.connection)).await
    }

    /// Runs `job` on the writing connection, outside of a transaction.
    async fn on_writer<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        self.inner.writer.run(move |connection| job(connection)).await
    }

    async fn read<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        self.inner.reader.run(move |connection| job(connection)).await
    }

    /// Runs a job of a table in one transaction. The claims change with the commit, even if the caller has stopped waiting.
    pub(crate) async fn run_write<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&SqliteSql<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let (process, claims) = (self.process.clone(), Arc::clone(&self.claims));
        self.inner
            .writer
            .run(move |connection| {
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let sql = SqliteSql::new(&transaction, &process);
                let value = job(&sql)?;
                let claimed = sql.claimed.into_inner();
                transaction.commit()?;
                for (kernel, epoch) in claimed {
                    claims.set(kernel, epoch);
                }
                Ok(value)
            })
            .await
    }

    /// Runs a job of a table on the reading connection.
    pub(crate) async fn run_read<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&SqliteSql<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let process = self.process.clone();
        self.read(move |connection| job(&SqliteSql::new(connection, &process)))
            .await
    }
}

impl Store for SqliteStore {
    fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    fn replica(&self) -> &str {
        &self.process.name
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

#[cfg(test)]
mod tests;
