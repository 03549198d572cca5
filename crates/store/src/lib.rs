//! The gateway's durable state that is not output: one `SQLite` file with one writer.
//!
//! What is here commits before its caller is answered. Output and executions are not here: they are in
//! the journal. Rows hold no environment variables and no keys, so a copy of the file gives no secrets away
//! beyond names and paths; it is made with mode 0600 all the same.
//!
//! # Shape
//! One thread owns the only writing connection, another the only reading one (WAL lets them work side by
//! side). Each has a queue of [`QUEUE`] jobs; a caller waits when it is full. A job that was queued runs even
//! when its caller stopped waiting. What a call has committed is seen by every read that starts after it.
//!
//! # Opening
//! [`Store::open`] refuses, without changing anything, a file that is corrupt, belongs to another
//! program, was written by a newer version, or is in use by another gateway.

mod ended;
mod error;
mod jupyter_sessions;
mod kernels;
mod meta;
mod open;
mod schema;
mod worker;

use std::path::Path;
use std::sync::Arc;

pub use ended::{EndedRecord, Space};
pub use error::StoreError;
pub use jupyter_sessions::JupyterSessionRecord;
pub use kernels::{KernelLife, KernelRecord, LaunchRecord};
pub use schema::SCHEMA_VERSION;
pub use worker::QUEUE;

/// A handle to the open database. Clones share the two threads, which end after the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    writer: worker::Worker,
    reader: worker::Worker,
    epoch: u64,
}

impl Store {
    /// Opens the database at `path`, makes it when there is none, brings its schema up to
    /// [`SCHEMA_VERSION`], and takes the next gateway epoch.
    ///
    /// Blocks on the disk: call it at start, or from a blocking task. The parent directory must exist.
    ///
    /// # Errors
    /// [`StoreError::Locked`], [`StoreError::NewerSchema`], [`StoreError::Foreign`],
    /// [`StoreError::Corrupt`], [`StoreError::Io`]; the file is as it was after each of them.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let open::Opened {
            writer,
            reader,
            lock,
            epoch,
        } = open::open(path)?;
        Ok(Self {
            inner: Arc::new(Inner {
                writer: worker::Worker::spawn("store-write", writer, Some(lock))?,
                reader: worker::Worker::spawn("store-read", reader, None)?,
                epoch,
            }),
        })
    }

    /// The epoch of this gateway process: one more than that of the process that opened the file before,
    /// 1 for the first. It is on disk (fsync) before [`Store::open`] returns.
    pub fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    /// Finishes what is queued, folds the write-ahead log into the file and gives the file free. Every
    /// later call, on any clone, fails with [`StoreError::Closed`].
    pub async fn close(&self) -> Result<(), StoreError> {
        self.inner.reader.close().await?;
        self.inner.writer.close().await
    }

    /// Runs `job` in one `BEGIN IMMEDIATE` transaction and answers after its commit.
    async fn write<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.inner
            .writer
            .run(move |connection| {
                let transaction =
                    connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
                let value = job(&transaction)?;
                transaction.commit()?;
                Ok(value)
            })
            .await
    }

    /// Runs `job` on the writing connection, outside of a transaction.
    async fn on_writer<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&rusqlite::Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.inner.writer.run(move |connection| job(connection)).await
    }

    /// Runs `job` on the reading connection.
    async fn read<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&rusqlite::Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.inner.reader.run(move |connection| job(connection)).await
    }
}

#[cfg(test)]
mod tests;
