//! Opening, stopping, and the state of the whole.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use himalia_budget::Budget;
use himalia_kernelspecs::{Catalog, HostEnvironment};
use himalia_model::{Action, EngineConfig, EngineError, GatewayStatus, Object, Principal, from_micros};
use himalia_store::{Store, StoreError};
use time::OffsetDateTime;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Drain, Engine};
use crate::access::authorise;
use crate::ended::{EndedSessions, OpenLogs};
use crate::inner::Inner;
use crate::jupyter_sessions::JupyterSessions;
use crate::kept::Remembered;
use crate::kernel::Command;
use crate::memory::MemoryGauge;
use crate::places::Places;
use crate::pool::Pool;
use crate::registry::Registry;
use crate::resume::WANTS;
use crate::templates::Templates;
use crate::{Provisioners, templates};

/// Beyond its grace, how long the end of what waits in pools may take.
const POOL_SLACK: Duration = Duration::from_secs(5);

impl Engine {
    /// Opens the data directory, takes the next epoch and adopts the kernels that an earlier gateway left.
    ///
    /// Returns as soon as commands can be served: kernels whose shim has not called yet are listed as `unknown`.
    /// Must be called within a tokio runtime. Two gateways on one data directory: [`EngineError::Conflict`]; a template
    /// that cannot work: [`EngineError::BadRequest`].
    pub async fn open(
        config: EngineConfig,
        provisioners: impl Into<Provisioners>,
    ) -> Result<Self, EngineError> {
        let provisioners = provisioners.into();
        if provisioners.first().is_none() {
            return Err(EngineError::bad_request("provisioners", "there is none"));
        }
        templates::check(&config, &provisioners)?;
        let dir = config.data_dir.clone();
        let opened = tokio::task::spawn_blocking(move || {
            let made = std::fs::create_dir_all(dir.join("kernels"));
            made.map_err(|error| EngineError::internal("cannot make the data directory", error))?;
            Store::open(&dir.join("himalia.db")).map_err(|error| match error {
                StoreError::Locked { .. } => EngineError::Conflict {
                    reason: error.to_string(),
                },
                other => EngineError::Internal {
                    context: other.to_string(),
                },
            })
        });
        let store = opened
            .await
            .map_err(|error| EngineError::internal("opening the store", error))??;
        let ended = store.ended_sessions().await;
        let ended =
            ended.map_err(|error| EngineError::internal("cannot read the list of ended sessions", error))?;
        let catalog = Catalog::of(&config, HostEnvironment::of_this_process());
        let (wants, wanted) = mpsc::channel(WANTS);
        let inner = Arc::new(Inner {
            wants,
            provisioners,
            templates: Templates::of(&config),
            pools: OnceLock::new(),
            leases: parking_lot::Mutex::default(),
            sessions: JupyterSessions::new(store.clone()),
            store,
            registry: Arc::new(Registry::default()),
            ended: Arc::new(EndedSessions::new(config.retention, ended).with_clock(config.clock.clone())),
            open_logs: OpenLogs::default(),
            executions: Remembered::default(),
            histories: Remembered::default(),
            catalog,
            gate: Arc::default(),
            started: OffsetDateTime::now_utc(),
            last_command: AtomicU64::new(config.clock.micros()),
            places: Places::of(&config),
            unproven: Arc::default(),
            budget: Budget::of(&config),
            memory: MemoryGauge::default(),
            draining: CancellationToken::new(),
            stop_actors: CancellationToken::new(),
            actors: TaskTracker::new(),
            background: TaskTracker::new(),
            drained: AtomicBool::new(false),
            clock: Instant::now(),
            config,
        });
        inner.adopt().await?;
        inner.background.spawn(Arc::clone(&inner).keep_synced());
        inner.background.spawn(Arc::clone(&inner).keep_lifetimes());
        inner.background.spawn(Arc::clone(&inner).keep_collected());
        inner.background.spawn(Arc::clone(&inner).keep_resumed(wanted));
        if !inner.config.cull.idle_timeout.is_zero() {
            inner.background.spawn(Arc::clone(&inner).keep_culling());
        }
        for name in inner.templates.preloading() {
            inner
                .background
                .spawn(Arc::clone(&inner).warm_template(name.clone()));
        }
        let pools = inner.templates.pooled().map(|(name, template)| {
            let pool = Pool::start(&inner, name, template.pool);
            (name.clone(), pool)
        });
        // It is set here alone.
        let _ = inner.pools.set(pools.collect());
        Ok(Self { inner })
    }

    /// Counts and times of all kernels that the principal sees.
    pub fn status(&self, principal: &Principal) -> Result<GatewayStatus, EngineError> {
        // Asking for the status is no activity.
        authorise(principal, Action::Read, Object::Gateway)?;
        let mut all = self.inner.registry.all_unordered();
        all.retain(|handle| principal.sees(&handle.facts().owner));
        let kernels = all
            .iter()
            .map(|handle| handle.last_activity.load(Ordering::Relaxed))
            .max();
        // The commands of others are nobody else's business.
        let commands = if principal.is_operator() {
            self.inner.last_command.load(Ordering::Relaxed)
        } else {
            u64::try_from(self.inner.started.unix_timestamp_nanos() / 1000).unwrap_or(0)
        };
        let last = commands.max(kernels.unwrap_or(0));
        Ok(GatewayStatus {
            started: self.inner.started,
            last_activity: from_micros(last),
            kernels: u32::try_from(all.len()).unwrap_or(u32::MAX),
            connections: all
                .iter()
                .map(|handle| handle.connections.load(Ordering::Relaxed))
                .sum(),
        })
    }

    /// Whether the engine serves commands: open and not draining. For `/readyz`; needs no principal.
    pub fn ready(&self) -> bool {
        self.inner.check_open().is_ok()
    }

    /// Stops: refuses commands, ends all feeds with [`Closed::Draining`](crate::Closed::Draining), syncs the logs, keeps or ends the
    /// kernels. Returns when that is done; the caller then exits.
    pub async fn drain(&self, principal: &Principal, drain: Drain) -> Result<(), EngineError> {
        self.allow(principal, Action::Delete, Object::Gateway)?;
        let inner = &self.inner;
        inner.draining.cancel();
        if inner.drained.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // What waits is of no use to the next gateway.
        let mut closes = JoinSet::new();
        for pool in inner.pools.get().into_iter().flat_map(|pools| pools.values()) {
            let pool = pool.clone();
            closes.spawn(async move { pool.close().await });
        }
        // One that is just being started may take long; the next gateway's sweep removes what is left then.
        let limit = inner.config.shutdown_grace + POOL_SLACK;
        if tokio::time::timeout(limit, closes.join_all()).await.is_err() {
            tracing::warn!("a pool is not empty in time");
        }
        inner.provisioners.close().await;
        let mut ended = Vec::new();
        if drain == Drain::StopKernels {
            let mut ends = JoinSet::new();
            for handle in inner.registry.all_unordered() {
                ends.spawn(async move {
                    handle.order(Command::Stop("gateway_stopped")).await;
                    handle.gone().await;
                    handle
                });
            }
            ended = ends.join_all().await;
        }
        inner.stop_actors.cancel();
        inner.actors.close();
        inner.actors.wait().await;
        inner.sync_logs().await;
        let removed =
            tokio::task::spawn_blocking(move || ended.iter().for_each(|handle| handle.remove_log()));
        removed
            .await
            .map_err(|error| EngineError::internal("cannot remove logs", error))?;
        inner
            .store
            .close()
            .await
            .map_err(|error| EngineError::internal("cannot close the store", error))
    }
}

impl Inner {
    /// A command was given now.
    pub(crate) fn note_command(&self) {
        self.last_command.store(self.time().micros(), Ordering::Relaxed);
    }
}
