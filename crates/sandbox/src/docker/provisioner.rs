//! The Docker provisioner: implements the trait for the sandboxes that this process knows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt as _, stream};
use tokio::time::sleep;

use super::config::DockerConfig;
use super::inner::Inner;
use super::member::Member;
use super::names::{self, Labels};
use super::{change, doctor, ending, events, shared, start, usage, volume};
use crate::host::{blocking, short};
use crate::{
    BoxFuture, Capabilities, Enforcement, FixedLimit, Isolation, LimitChange, LimitReport, MeasuredBy,
    Provisioner, ProvisionerKind, RootFiles, SandboxError, SandboxExit, SandboxHandle, SandboxId,
    SandboxInfo, SandboxSpec, SharedMount, Usage, check_kinds,
};

/// Longest time from the kill of a container to its end.
const KILL_WAIT: Duration = Duration::from_secs(30);
/// Longest wait for the event of an end before the container is inspected.
const EVENT_WAIT: Duration = Duration::from_secs(2);

/// Longest delay of the engine's event for an out-of-memory kill on a loaded host.
const OOM_EVENT_DELAY: Duration = Duration::from_secs(2);

/// Measurements that the engine is asked for at once, and how long all of them may take.
const MEASURED_AT_ONCE: usize = 8;
const MEASURE_TIME: Duration = Duration::from_secs(1);

/// Starts shims as containers. Clones share everything.
#[derive(Clone, Debug)]
pub struct DockerProvisioner {
    inner: Arc<Inner>,
}

impl DockerProvisioner {
    /// Checks the settings and the run directory, and creates the directory if it is missing. Does not call the engine,
    /// which may start later.
    ///
    /// # Errors
    /// [`SandboxError::BadSpec`] names the setting; [`SandboxError::RunDir`].
    pub fn new(config: DockerConfig) -> Result<Self, SandboxError> {
        Ok(Self {
            inner: Arc::new(Inner::new(config)?),
        })
    }

    /// Asks the engine for all that sandboxes will need of it.
    ///
    /// # Errors
    /// When the engine does not answer or is too old.
    pub async fn report(&self) -> Result<doctor::EngineReport, SandboxError> {
        doctor::report(&self.inner).await
    }
}

impl Provisioner for DockerProvisioner {
    fn kind(&self) -> ProvisionerKind {
        ProvisionerKind::Docker
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            isolation: self.inner.level,
            root: RootFiles::Image,
            networks: true,
            proxy: true,
            zygotes: false,
            kept_files: true,
            mounts: shared::MOUNTS,
            measured_by: MeasuredBy::Provisioner,
            oom_report_delay: OOM_EVENT_DELAY,
        }
    }

    fn isolation_of(&self, spec: &SandboxSpec) -> Result<Isolation, SandboxError> {
        let Some(runtime) = &spec.runtime else {
            return Ok(self.inner.level);
        };
        let level = self.inner.config.runtimes.get(runtime).copied();
        level.ok_or_else(|| SandboxError::BadSpec {
            field: "runtime",
            reason: format!("{runtime:?} is not in the operator's list"),
        })
    }

    /// Limits of a sandbox with files in memory on an ordinary engine; each handle has its own report.
    fn limits(&self) -> LimitReport {
        LimitReport {
            memory: Enforcement::Cgroup,
            pids: Enforcement::Cgroup,
            cpu: Enforcement::Cgroup,
            disk: Enforcement::Hard,
        }
    }

    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        Box::pin(async move {
            start::check(&spec)?;
            let given = self.isolation_of(&spec)?;
            if spec.minimum > given {
                return Err(SandboxError::Isolation {
                    wanted: spec.minimum,
                    given,
                });
            }
            self.inner.image(&spec)?;
            self.inner.follow();
            start::start(&self.inner, spec, given).await
        })
    }

    fn check_mounts(&self, mounts: Vec<SharedMount>) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async move {
            check_kinds(&mounts, shared::MOUNTS)?;
            shared::find(&self.inner, mounts, true).await.map(drop)
        })
    }

    fn adopt(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        Box::pin(async move {
            let inner = &self.inner;
            inner.follow();
            if let Some(member) = inner.any_member(id) {
                return inner.handle(&member).ok_or(SandboxError::NotFound(id));
            }
            let container = inner.names.container(id);
            let Some(details) = inner.find(id, &container).await? else {
                inner.clean(id).await?;
                return Err(SandboxError::NotFound(id));
            };
            let from = ending::now_nanos();
            let member = inner.insert(Member::adopted(container, details, from));
            member.add_earlier_kills(inner.kills_before(&member.container, from).await);
            inner.handle(&member).ok_or(SandboxError::NotFound(id))
        })
    }

    fn fixed_limit(&self, limits: &LimitChange) -> Option<FixedLimit> {
        let configured = &self.inner.config.runtimes;
        let named = limits
            .runtime
            .as_ref()
            .and_then(|runtime| configured.get(runtime));
        change::fixed(named.copied().unwrap_or(self.inner.level), limits)
    }

    fn change_limits(
        &self,
        id: SandboxId,
        limits: LimitChange,
    ) -> BoxFuture<'_, Result<LimitReport, SandboxError>> {
        Box::pin(async move {
            let member = self.inner.any_member(id).ok_or(SandboxError::NotFound(id))?;
            change::apply(&self.inner, &member, &limits).await
        })
    }

    fn stop(&self, id: SandboxId, grace: Duration) -> BoxFuture<'_, Result<SandboxExit, SandboxError>> {
        Box::pin(async move {
            let inner = &self.inner;
            let member = inner.any_member(id).ok_or(SandboxError::NotFound(id))?;
            let handle = inner.handle(&member).ok_or(SandboxError::NotFound(id))?;
            member.stopping.store(true, Ordering::Release);
            if !grace.is_zero() {
                inner.signal(&member, "SIGTERM").await?;
                if let Ok(exit) = tokio::time::timeout(grace, handle.ended()).await {
                    return exit.ok_or(SandboxError::Closed);
                }
            }
            inner.signal(&member, "SIGKILL").await?;
            let gone = tokio::time::timeout(KILL_WAIT, async {
                while tokio::time::timeout(EVENT_WAIT, handle.ended()).await.is_err() {
                    // The event may be lost; one that lives after all is put back.
                    if member.died(None) {
                        ending::see_to(inner, Arc::clone(&member));
                    }
                }
            });
            gone.await.map_err(|_| SandboxError::Unkillable(id))?;
            handle.ended().await.ok_or(SandboxError::Closed)
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>, SandboxError>> {
        Box::pin(async move {
            let all = events::containers(&self.inner).await;
            let all = all.map_err(|error| self.inner.client.error("its containers", error))?;
            Ok(all
                .iter()
                .filter_map(|container| {
                    let labels = Labels::read(container.labels.as_ref()?)?;
                    let created = u64::try_from(container.created.unwrap_or(0)).unwrap_or(0);
                    Some(SandboxInfo {
                        id: labels.id,
                        alive: events::is_running(container),
                        pid: None,
                        created: SystemTime::UNIX_EPOCH + Duration::from_secs(created),
                        labels: labels.caller,
                        isolation: labels.isolation,
                        usage: None,
                    })
                })
                .collect())
        })
    }

    fn inspect(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxInfo, SandboxError>> {
        Box::pin(async move {
            let all = self.list().await?;
            let info = all.into_iter().find(|info| info.id == id);
            let mut info = info.ok_or(SandboxError::NotFound(id))?;
            if info.alive {
                let container = self.inner.names.container(id);
                info.pid = self.inner.pid(&container).await;
                info.usage = usage::measure(&self.inner.client, &container).await;
            }
            Ok(info)
        })
    }

    /// Memory of the sandboxes for which the engine responds in time.
    fn memory(&self, ids: Vec<SandboxId>) -> BoxFuture<'_, Result<HashMap<SandboxId, u64>, SandboxError>> {
        Box::pin(async move {
            let all = self.usage(ids).await?;
            Ok(all.into_iter().map(|(id, usage)| (id, usage.rss_bytes)).collect())
        })
    }

    /// Usage of the sandboxes for which the engine responds in time.
    fn usage(&self, ids: Vec<SandboxId>) -> BoxFuture<'_, Result<HashMap<SandboxId, Usage>, SandboxError>> {
        Box::pin(async move {
            let measured = stream::iter(ids).map(|id| async move {
                let container = self.inner.names.container(id);
                let usage = usage::measure(&self.inner.client, &container).await;
                usage.map(|usage| (id, usage))
            });
            let measured = measured.buffer_unordered(MEASURED_AT_ONCE);
            let in_time = measured.take_until(sleep(MEASURE_TIME));
            Ok(in_time.filter_map(|found| async move { found }).collect().await)
        })
    }

    /// Always `false`: the container ends as a whole.
    fn note_process(&self, _: SandboxId, _: u32) -> BoxFuture<'_, Result<bool, SandboxError>> {
        Box::pin(async { Ok(false) })
    }

    fn oom_kills(&self, id: SandboxId) -> BoxFuture<'_, Result<u64, SandboxError>> {
        Box::pin(async move {
            let member = self.inner.any_member(id).ok_or(SandboxError::NotFound(id))?;
            Ok(member.kills())
        })
    }

    fn remove_files<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(volume::remove(&self.inner.client, &self.inner.names, name))
    }

    fn kept_files(&self) -> BoxFuture<'_, Result<Vec<String>, SandboxError>> {
        Box::pin(volume::names(&self.inner.client, &self.inner.names))
    }

    fn sweep(&self, keep: Vec<SandboxId>) -> BoxFuture<'_, Result<Vec<SandboxId>, SandboxError>> {
        Box::pin(async move {
            let inner = &self.inner;
            let all = events::containers(inner).await;
            let all = all.map_err(|error| inner.client.error("its containers", error))?;
            let containers = all
                .iter()
                .filter_map(|container| names::sandbox_of(container.labels.as_ref()?));
            let layout = inner.layout.clone();
            let files = blocking(move || layout.sandboxes()).await??;
            // Found first, members second: a sandbox that starts in between is a member.
            let mut found: HashSet<SandboxId> = containers.chain(files).collect();
            found.retain(|id| !keep.contains(id) && inner.any_member(*id).is_none());
            let mut removed = Vec::new();
            for id in found {
                match inner.clean(id).await {
                    Ok(()) => {
                        tracing::info!(sandbox = %short(id), "removed an unknown sandbox");
                        removed.push(id);
                    }
                    Err(error) => {
                        tracing::warn!(sandbox = %short(id), %error, "a sandbox cannot be removed");
                    }
                }
            }
            Ok(removed)
        })
    }
}
