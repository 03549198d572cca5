//! Opening the data directory, and stopping.

use std::sync::Arc;
use std::time::Duration;

use himalia_budget::Budget;
use himalia_egress::{Egress, InterceptAuthority, Outbound, Roots, TrustStore};
use himalia_kernel::Command;
use himalia_kernelspecs::{Catalog, HostEnvironment};
use himalia_metrics::Metrics;
use himalia_model::{EngineConfig, EngineError};
use himalia_packages::Packages;
use himalia_shared_log::{Objects, ReplicaLogs};
use himalia_store::{
    MeasuredStore, PostgresOptions, PostgresStore, REPLICA_FILE, Scope, SqliteStore, Store, StoreError,
};
use himalia_traces::Traces;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::credentials::{FromHere, TokenSettings};
use crate::end::{Collection, IdleCuller, Lifetimes, Sweep};
use crate::log_sync::LogSync;
use crate::logs::SessionLogs;
use crate::meter::PendingUsage;
use crate::metering::UsageMeter;
use crate::replica::Replica;
use crate::services::{CodeServices, NetworkServices};
use crate::start::{StartControl, TakingOver};
use crate::stop_state::StopState;
use crate::times::Times;
use crate::{
    Credentials, EndedSessions, Llm, LogCache, MemoryGauge, Meter, Pool, Provisioners, Registry,
    SessionKernel, SessionManager, SessionPrograms, Templates, Tools, templates,
};

/// Files of packages, below the data directory.
const PACKAGES_DIR: &str = "packages";

/// Beyond its grace, how long the end of what waits in pools may take.
const POOL_SLACK: Duration = Duration::from_secs(5);
/// Additional time for a start in progress.
const STARTS_SLACK: Duration = Duration::from_secs(5);

/// Time that a stop waits until rolled segments are in the object store and logs are removed from it.
const LOGS_SLACK: Duration = Duration::from_secs(5);

/// The same where other replicas wait for the sessions.
const HANDOVER_SLACK: Duration = Duration::from_millis(100);

/// Network access of sessions. The cache of packages is in the data directory.
async fn egress(config: &EngineConfig) -> Result<Egress, EngineError> {
    let egress = Egress::of_this_process(config.private_addresses.clone());
    let Some(index) = config.packages.clone() else {
        return Ok(egress);
    };
    let (dir, private) = (
        config.data_dir.join(PACKAGES_DIR),
        config.private_addresses.clone(),
    );
    let opened = tokio::task::spawn_blocking(move || {
        let outbound = Outbound::of_this_process(private)?;
        Packages::open(&index, &dir, outbound)
    });
    let opened = opened
        .await
        .map_err(|error| EngineError::internal("the package cache", error))?;
    let packages = opened.map_err(|error| EngineError::internal("the package cache", error))?;
    Ok(egress.with_service(Arc::new(packages)))
}

impl SessionManager {
    /// Opens the data directory, takes the next epoch and adopts the kernels that an earlier gateway left. Returns as soon as
    /// commands can be served. Must be called within a tokio runtime.
    ///
    /// Two gateways on one data directory: [`EngineError::Conflict`]; a template that cannot work:
    /// [`EngineError::BadRequest`].
    pub async fn open(config: EngineConfig, provisioners: Provisioners) -> Result<Arc<Self>, EngineError> {
        if provisioners.first().is_none() {
            return Err(EngineError::bad_request("provisioners", "there is none"));
        }
        templates::check(&config, &provisioners)?;
        templates::check_sources(&config, &provisioners).await?;
        let metrics = Metrics::new();
        let (store, shared_logs) = open_store(&config, &metrics).await?;
        let store: Arc<dyn Store> = Arc::new(MeasuredStore::new(store, metrics.store().clone()));
        let tokens = TokenSettings::new(&config, metrics.tokens().clone(), store.is_shared());
        let credentials = Credentials::new(store.clone(), &config.credentials, config.clock.clone(), tokens)?;
        credentials.seal_again().await?;
        let egress = egress(&config).await?;
        let (egress, certificates) = with_credentials(egress, &config, &credentials).await?;
        let credentials = Arc::new(credentials);
        let registry = Arc::new(Registry::default());
        let (budget, meter) = (Arc::new(Budget::of(&config)), Arc::new(Meter::default()));
        let counts = (&budget, &meter);
        let programs = Arc::<SessionPrograms>::default();
        let tools = Tools::open(&config, &credentials, &registry, &store, counts, programs.clone()).await?;
        let llm = Llm::open(&config.models, &credentials, counts).await?;
        let ended = store.ended_sessions(Scope::Own).await;
        let ended =
            ended.map_err(|error| EngineError::internal("cannot read the list of ended sessions", error))?;
        let catalog = Catalog::of(&config, HostEnvironment::of_this_process());
        let (starts, wanted) = StartControl::new(&config);
        let usage = PendingUsage {
            meter,
            rooms: Arc::default(),
        };
        let inner = Arc::new(SessionManager {
            traces: Traces::new(metrics.exports().traces.clone()),
            metrics,
            provisioners,
            templates: Templates::of(&config),
            replica: Replica::new(store.epoch()),
            store,
            logs: SessionLogs::new(&config, shared_logs),
            starts,
            registry,
            ended: Arc::new(EndedSessions::new(config.retention, ended).with_clock(config.clock.clone())),
            executions: LogCache::default(),
            histories: LogCache::default(),
            catalog,
            times: Times::new(config.clock.clone()),
            credentials,
            tools: Arc::new(tools),
            services: CodeServices {
                programs,
                skills: Arc::default(),
                llm: Arc::new(llm),
            },
            network: NetworkServices {
                egress: Arc::new(egress),
                certificates,
                callbacks: FromHere::new(config.callback_addresses.clone()),
            },
            budget,
            memory: MemoryGauge::default(),
            usage,
            draining: CancellationToken::new(),
            background: TaskTracker::new(),
            stopping: StopState::default(),
            config,
        });
        inner.adopt().await?;
        LogSync::start(&inner);
        Lifetimes::start(&inner);
        UsageMeter::start(&inner);
        Collection::start(&inner);
        if inner.store.is_shared() {
            Sweep::start(&inner);
        }
        inner.background.spawn(Arc::clone(&inner).keep_resumed(wanted));
        if inner.logs.shared.is_some() {
            TakingOver::start(&inner);
        }
        IdleCuller::start(&inner);
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
        let _ = inner.starts.pools.set(pools.collect());
        inner.services.programs.open(&inner);
        Ok(inner)
    }

    /// Stops: ends all feeds, syncs the logs, keeps or ends the kernels. Returns when that is done. A second call does nothing.
    pub async fn stop(&self, stop_kernels: bool) -> Result<(), EngineError> {
        let inner = self;
        inner.draining.cancel();
        if !inner.stopping.begin() {
            return Ok(());
        }
        let ends = async {
            let limit = inner.config.shutdown_grace + POOL_SLACK;
            if tokio::time::timeout(limit, inner.end_programs()).await.is_err() {
                tracing::warn!("the programs of servers of tools have not ended in time");
            }
        };
        tokio::join!(inner.end_spare(), ends);
        let others = !stop_kernels && inner.has_successors().await;
        let mut ended = Vec::new();
        if stop_kernels {
            inner.end_all(&mut ended).await;
        }
        inner.finish_starts().await;
        if stop_kernels {
            // What was being started meanwhile.
            inner.end_all(&mut ended).await;
        }
        inner.stopping.actors_end.cancel();
        inner.stopping.actors.close();
        inner.stopping.actors.wait().await;
        if others {
            // They take the logs from where they are shared.
            inner.keep_positions().await;
        } else {
            // Failures are in the log.
            let _ = inner.sync_logs().await;
        }
        let removed =
            tokio::task::spawn_blocking(move || ended.iter().for_each(|handle| handle.remove_log()));
        removed
            .await
            .map_err(|error| EngineError::internal("cannot remove logs", error))?;
        let tidied = async {
            if let Some(shared) = &inner.logs.shared {
                // Others wait for the sessions, and can tidy as well.
                let limit = if others { HANDOVER_SLACK } else { LOGS_SLACK };
                if !shared.flush(limit).await {
                    tracing::warn!("not all logs are tidied in time; the next owner of them does it");
                }
            }
        };
        let (stored, ()) = tokio::join!(inner.store_usage(), tidied);
        if let Err(error) = stored {
            tracing::warn!(error, "usage is lost");
        }
        inner
            .store
            .close()
            .await
            .map_err(|error| EngineError::internal("cannot close the store", error))
    }

    /// Ends all kernels that are not among those that have ended.
    async fn end_all(&self, ended: &mut Vec<Arc<SessionKernel>>) {
        let mut ends = JoinSet::new();
        for handle in self.registry.all_unordered() {
            if ended.iter().any(|known| Arc::ptr_eq(known, &handle)) {
                continue;
            }
            ends.spawn(async move {
                handle.order(Command::Stop("gateway_stopped")).await;
                handle.gone().await;
                handle
            });
        }
        ended.extend(ends.join_all().await);
    }

    /// Waits for starts that were let in before the stop: what they make is in the registry then, or gone.
    async fn finish_starts(&self) {
        self.starts.tasks.close();
        let limit = self.config.shutdown_grace + STARTS_SLACK;
        if timeout(limit, self.starts.tasks.wait()).await.is_err() {
            let left = self.starts.tasks.len();
            tracing::warn!(
                left,
                "starts are not over in time; the next gateway removes what is left of them"
            );
        }
    }

    /// Ends what waits for sessions to come: it is of no use to the next gateway. A second call does nothing.
    pub async fn end_spare(&self) {
        self.stopping.spare_ended.get_or_init(|| self.close_pools()).await;
    }

    async fn close_pools(&self) {
        let mut closes = JoinSet::new();
        for pool in self.pools().into_iter().flat_map(|pools| pools.values()) {
            let pool = pool.clone();
            closes.spawn(async move { pool.close().await });
        }
        // One that is just being started may take long; the next gateway's sweep removes what is left then.
        let limit = self.config.shutdown_grace + POOL_SLACK;
        if tokio::time::timeout(limit, closes.join_all()).await.is_err() {
            tracing::warn!("a pool is not empty in time");
        }
        self.provisioners.close().await;
    }

    /// True if other replicas take the sessions over when this one stops.
    pub async fn has_successors(&self) -> bool {
        if self.logs.shared.is_none() {
            return false;
        }
        let all = self.store.replicas().await;
        all.is_ok_and(|all| all.iter().any(|one| one.name != self.store.replica()))
    }

    /// A command was given now.
    pub fn note_command(&self) {
        self.times.note_command();
    }

    /// When the latest command was given, microseconds since 1970.
    pub fn last_command(&self) -> u64 {
        self.times.last_command()
    }

    /// Completes when this replica may not act any more, with the reason. The process must then end without doing anything else.
    pub async fn lost_lease(&self) -> String {
        self.store.lease().lost().await
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}

/// Network access of sessions with credentials, and the certificates for sandboxes whose TLS is read. The authority for interception is made when a
/// template needs it.
async fn with_credentials(
    egress: Egress,
    config: &EngineConfig,
    credentials: &Credentials,
) -> Result<(Egress, Option<TrustStore>), EngineError> {
    let templates = || config.templates.values().chain([&config.defaults]);
    let intercepts = templates().any(|template| !template.intercept.is_none());
    if !intercepts && templates().all(|template| template.credentials.is_empty()) {
        return Ok((egress, None));
    }
    let bad = |error| EngineError::internal("cannot set up TLS to the hosts of credentials", error);
    let roots = tokio::task::spawn_blocking(Roots::of_this_machine).await;
    let roots = roots.map_err(|error| bad(error.into()))?.map_err(bad)?;
    if !intercepts {
        return Ok((egress.with_credentials(roots, None), None));
    }
    let key = credentials.authority().await.map_err(|error| match error {
        EngineError::Unsupported { reason } => {
            EngineError::bad_request("templates", format!("intercept: {reason}"))
        }
        other => other,
    })?;
    let authority = InterceptAuthority::new(&key).map_err(bad)?;
    let trusted = roots.trusted(&key.certificate).map_err(bad)?;
    Ok((egress.with_credentials(roots, Some(authority)), Some(trusted)))
}

/// The store of the data directory, or the one that several replicas share.
async fn open_store(
    config: &EngineConfig,
    metrics: &Metrics,
) -> Result<(Arc<dyn Store>, Option<ReplicaLogs>), EngineError> {
    let (dir, replica) = (config.data_dir.clone(), config.replica.clone());
    let failed = |error: StoreError| match error {
        StoreError::Locked { .. } | StoreError::ReplicaInUse { .. } => EngineError::Conflict {
            reason: error.to_string(),
        },
        other => EngineError::Internal {
            context: other.to_string(),
        },
    };
    let shared = config.shared_store.clone();
    let alone = shared.is_none();
    let opened = tokio::task::spawn_blocking(move || {
        let made = std::fs::create_dir_all(dir.join("kernels"));
        made.map_err(|error| EngineError::internal("cannot make the data directory", error))?;
        if !alone {
            return Ok(None);
        }
        if dir.join(REPLICA_FILE).exists() {
            return Err(EngineError::Conflict {
                reason: format!(
                    "{}: this data directory belongs to a replica of a shared store; start it with --store",
                    dir.display()
                ),
            });
        }
        let store = SqliteStore::open(&dir.join("himalia.db"), &replica).map_err(failed)?;
        Ok(Some(store))
    });
    let opened = opened
        .await
        .map_err(|error| EngineError::internal("opening the store", error))??;
    if let Some(store) = opened {
        return Ok((Arc::new(store), None));
    }
    let shared = shared.ok_or_else(|| EngineError::unavailable("no store"))?;
    let options = PostgresOptions {
        url: shared
            .url
            .parse()
            .map_err(|reason: String| EngineError::bad_request("store", reason))?,
        replica: config.replica.clone(),
        data_dir: config.data_dir.clone(),
        lease: shared.lease,
    };
    let objects = match shared.object_store {
        Some(url) => {
            let wrong = |reason: String| EngineError::bad_request("object_store", reason);
            let url = url.parse().map_err(wrong)?;
            let opened = tokio::task::spawn_blocking(move || Objects::open(&url)).await;
            let opened = opened.map_err(|error| EngineError::internal("opening the object store", error))?;
            let objects = opened.map_err(wrong)?;
            let tried = objects.try_out(&config.replica).await;
            tried.map_err(|error| wrong(error.to_string()))?;
            Some(objects)
        }
        None => None,
    };
    let store = PostgresStore::open(options).await.map_err(failed)?;
    let places = store.logs().places().await.map_err(failed)?;
    if let Err(error) = check_places(&config.replica, objects.is_some(), places) {
        // The reason is known already.
        let _ = store.close().await;
        return Err(error);
    }
    let logs = objects.map(|objects| {
        ReplicaLogs::start(
            store.logs(),
            objects,
            store.lease().clone(),
            metrics.replicas().clone(),
        )
    });
    Ok((Arc::new(store), logs))
}

/// A log is shared from its first record on, or never: half of one would be restored otherwise.
fn check_places(replica: &str, shares: bool, (alone, shared): (i64, i64)) -> Result<(), EngineError> {
    let reason = match (shares, alone, shared) {
        (true, 1.., _) => format!(
            "object_store: replica {replica} has the logs of {alone} sessions in its data directory alone; start it \
             without --object-store, or give this one another --replica and data directory"
        ),
        (false, _, 1..) => format!(
            "object_store: replica {replica} has shared logs of {shared} sessions; start it with its --object-store, \
             or give this one another --replica and data directory"
        ),
        _ => return Ok(()),
    };
    Err(EngineError::Conflict { reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_does_not_change_where_its_logs_are() {
        for (shares, places) in [(true, (0, 0)), (true, (0, 2)), (false, (0, 0)), (false, (2, 0))] {
            assert!(check_places("a", shares, places).is_ok(), "{shares} {places:?}");
        }
        for (shares, places, expected) in [
            (true, (2, 1), "alone"),
            (false, (1, 2), "with its --object-store"),
        ] {
            let error = check_places("a", shares, places).unwrap_err().to_string();
            assert!(
                error.contains("2 sessions") && error.contains(expected),
                "{error}"
            );
        }
    }
}
