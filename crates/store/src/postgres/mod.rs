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

mod connection;
mod data_dir;
mod logs;
mod membership;
mod ready;
mod replicas;
mod rows;
mod schema;
mod sql;
mod take_over;
mod tls;
mod url;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::claims::Claims;
use crate::failure::Failure;
use crate::sql::Process;
use crate::tables::migrations::MIGRATIONS;
use crate::{ReadyReplica, ReplicaLease, ReplicaRecord, Space, Store, StoreError, StoreFuture};
use connection::{Connector, Link};
pub use data_dir::REPLICA_FILE;
pub use logs::{LogPart, LogSegment, LogTable, StoredLog};
use membership::{Heartbeat, JoinRequest, ReplicaMembership};
use ready::ReadyCounts;
use sql::PostgresSql;
pub use url::PostgresUrl;
use worker::Worker;

/// Connections of one replica, beside that of its lease.
const WORKERS: usize = 4;

/// The options with which a replica joins a shared store.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// The database.
    pub url: PostgresUrl,
    pub replica: String,
    /// The data directory, which exists and which no other process uses.
    pub data_dir: PathBuf,
    /// The length of the lease; at least 1 s.
    pub lease: Duration,
}

/// Checks that a replica can have this name: at most 63 letters, digits, `-`, `.` and `_`.
///
/// # Errors
/// The defect of the name.
pub fn check_replica_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if name.is_empty() || name.len() > 63 || !name.chars().all(plain) {
        return Err(format!(
            "the replica name {name:?} must have 1 to 63 letters, digits, '-', '.' and '_'"
        ));
    }
    Ok(())
}

#[derive(Debug)]
pub struct PostgresStore {
    workers: Vec<Worker>,
    /// The worker of the next job that is about no single thing.
    next: AtomicUsize,
    process: Process,
    epoch: u64,
    lease: ReplicaLease,
    pub(crate) claims: Arc<Claims>,
    logs: Arc<LogTable>,
    ready: ReadyCounts,
    stop: Mutex<Option<oneshot::Sender<oneshot::Sender<()>>>>,
}

impl PostgresStore {
    /// Joins a shared store: brings its schema up to date, takes the next gateway epoch and the name of the replica, and renews
    /// the lease from then on. If an earlier process of the name had another data directory, it waits for the end of its lease.
    ///
    /// # Errors
    /// [`StoreError::ReplicaInUse`], [`StoreError::Mismatch`], [`StoreError::NewerSchema`], [`StoreError::DevelopmentSchema`], [`StoreError::Io`],
    /// [`StoreError::Database`].
    pub async fn open(options: PostgresOptions) -> Result<Self, StoreError> {
        Self::open_with(options, MIGRATIONS).await
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
        let joining = JoinRequest {
            link: &link,
            name: &replica,
            data_dir,
            lease: length,
            database: database.clone(),
        };
        let ReplicaMembership { epoch, lease } = joining.join().await.map_err(explain)?;
        let process = Process::new(&replica, epoch);
        let ready = ReadyCounts::default();
        let heartbeat = Heartbeat {
            connector: Arc::clone(&connector),
            name: replica.clone(),
            epoch: process.epoch,
            beat: himalia_lease::Heartbeat::new(length),
            lease: lease.clone(),
            ready: ready.clone(),
        };
        let worker = || Worker::spawn(Arc::clone(&connector));
        let logs = Arc::new(LogTable::new(worker(), worker(), process.clone()));
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(heartbeat.run(link, stopped));
        Ok(Self {
            workers: (0..WORKERS).map(|_| worker()).collect(),
            logs,
            ready,
            next: AtomicUsize::new(0),
            process,
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

    fn me(&self) -> Process {
        self.process.clone()
    }

    /// Runs a job of a table; `about` names the one thing that it is about.
    pub(crate) async fn run_read<T, F, R>(&self, about: Option<Uuid>, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(PostgresSql) -> R + Send + 'static,
        R: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let (process, claims) = (self.me(), Arc::clone(&self.claims));
        let worker = match about {
            Some(id) => self.worker_of(id)?,
            None => self.any_worker()?,
        };
        let sql = move |link| PostgresSql {
            link,
            process,
            claims,
        };
        worker.run(move |link| job(sql(link))).await
    }

    /// The same for a job that writes: while the lease is valid.
    pub(crate) async fn run_write<T, F, R>(&self, about: Option<Uuid>, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(PostgresSql) -> R + Send + 'static,
        R: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        self.check_lease()?;
        self.run_read(about, job).await
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
        &self.process.name
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

#[cfg(test)]
mod tests;
