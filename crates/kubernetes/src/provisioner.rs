//! Implements the trait over the parts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use himalia_authority::Authority;
use himalia_provisioner::{
    BoxFuture, Capabilities, Isolation, LimitReport, MeasuredBy, OrphanSandbox, Provisioner, ProvisionerKind,
    RootFiles, SandboxError, SandboxExit, SandboxHandle, SandboxId, SandboxInfo, SandboxSpec, SharedMount,
    check_kinds,
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Client;
use kube::api::ListParams;

use crate::config::KubernetesConfig;
use crate::error::{call, code, failed};
use crate::inner::{Inner, LIMITS};
use crate::member::Member;
use crate::names::{CALLER, ISOLATION, Names, age, maker, sandbox_of};
use crate::observe::{PodPhase, observe};
use crate::{files, nodes, start};

/// Delay with which the API server may report that a container was killed for memory.
const OOM_REPORT_DELAY: Duration = Duration::from_secs(2);
/// Time to wait for the end of a pod beyond its grace. Older kubelets take seconds to confirm it.
const END_TIME: Duration = Duration::from_secs(30);

/// Starts shims as pods. Clones share everything.
#[derive(Clone, Debug)]
pub struct KubernetesProvisioner {
    inner: Arc<Inner>,
}

impl KubernetesProvisioner {
    /// Checks the settings. Does not call the API server, which may be away. The first authority certifies new sandboxes,
    /// the others are those of sandboxes that may still run.
    ///
    /// # Errors
    /// [`SandboxError::BadSpec`] names the setting; [`SandboxError::Cluster`] when no certificate can be made.
    pub fn new(
        config: KubernetesConfig,
        client: Client,
        authorities: Vec<Authority>,
    ) -> Result<Self, SandboxError> {
        Ok(Self {
            inner: Arc::new(Inner::new(config, client, authorities)?),
        })
    }
}

impl Provisioner for KubernetesProvisioner {
    fn kind(&self) -> ProvisionerKind {
        ProvisionerKind::Kubernetes
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            isolation: self
                .inner
                .config
                .kind(None)
                .map_or(Isolation::Container, |kind| kind.isolation),
            root: RootFiles::Image,
            networks: false,
            proxy: true,
            zygotes: false,
            kept_files: true,
            mounts: start::MOUNTS,
            measured_by: MeasuredBy::Shim,
            oom_report_delay: OOM_REPORT_DELAY,
        }
    }

    fn isolation_of(&self, spec: &SandboxSpec) -> Result<Isolation, SandboxError> {
        let kind = self.inner.config.kind(spec.runtime.as_deref())?;
        Ok(kind.isolation)
    }

    fn limits(&self) -> LimitReport {
        LIMITS
    }

    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        Box::pin(start::start(&self.inner, spec))
    }

    fn check_mounts(&self, mounts: Vec<SharedMount>) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async move {
            check_kinds(&mounts, start::MOUNTS)?;
            files::check_claims(&self.inner, &mounts).await
        })
    }

    fn adopt(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        Box::pin(async move {
            let inner = &self.inner;
            inner.follow();
            if let Some(member) = inner.member(id) {
                return inner.handle(&member);
            }
            let (pods, name) = (inner.pods(), Names::object(id));
            let found = call("look at a pod", async || match pods.get(&name).await {
                Err(error) if code(&error) == Some(404) => Ok(None),
                found => found.map(Some),
            });
            let found = found.await.map_err(|error| failed("look at a pod", &error))?;
            let is_running = |pod: &Pod| matches!(observe(pod), PodPhase::Running(_));
            let Some(pod) = found.filter(is_running) else {
                inner.delete(id, 0).await?;
                return Err(SandboxError::NotFound(id));
            };
            let member = inner.insert(Member::new(id, isolation(&pod)));
            member.see(pod);
            inner.handle(&member)
        })
    }

    fn stop(&self, id: SandboxId, grace: Duration) -> BoxFuture<'_, Result<SandboxExit, SandboxError>> {
        Box::pin(async move {
            let inner = &self.inner;
            let member = inner.member(id).ok_or(SandboxError::NotFound(id))?;
            let mut exit = member.exit.subscribe();
            member.stopping.store(true, Ordering::Release);
            // Zero would make the API server forget a pod that still runs.
            let seconds = u32::try_from(grace.as_secs()).unwrap_or(u32::MAX).max(1);
            inner.delete(id, seconds).await?;
            let ended = async {
                let exit = exit.wait_for(Option::is_some).await.ok()?;
                exit.clone()
            };
            if let Ok(exit) = tokio::time::timeout(grace + END_TIME, ended).await {
                return exit.ok_or(SandboxError::Closed);
            }
            // The node says nothing: the API server is to forget the pod.
            inner.delete(id, 0).await?;
            Err(SandboxError::Unkillable(id))
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>, SandboxError>> {
        Box::pin(async move { Ok(self.pods().await?.iter().filter_map(info).collect()) })
    }

    fn inspect(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxInfo, SandboxError>> {
        Box::pin(async move {
            let (pods, name) = (self.inner.pods(), Names::object(id));
            let found = call("look at a pod", async || pods.get(&name).await).await;
            match found {
                Ok(pod) => info(&pod).ok_or(SandboxError::NotFound(id)),
                Err(error) if code(&error) == Some(404) => Err(SandboxError::NotFound(id)),
                Err(error) => Err(failed("look at a pod", &error)),
            }
        })
    }

    fn leaving(&self, ids: Vec<SandboxId>) -> BoxFuture<'_, Result<Vec<SandboxId>, SandboxError>> {
        Box::pin(async move { nodes::leaving(&self.inner, &ids).await })
    }

    /// Always `false`: the pod ends as a whole.
    fn note_process(&self, _: SandboxId, _: u32) -> BoxFuture<'_, Result<bool, SandboxError>> {
        Box::pin(async { Ok(false) })
    }

    fn oom_kills(&self, id: SandboxId) -> BoxFuture<'_, Result<u64, SandboxError>> {
        Box::pin(async move {
            let member = self.inner.member(id).ok_or(SandboxError::NotFound(id))?;
            Ok(member.oom_kills())
        })
    }

    fn remove_files<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(files::remove(&self.inner, name))
    }

    fn kept_files(&self) -> BoxFuture<'_, Result<Vec<String>, SandboxError>> {
        Box::pin(files::names(&self.inner))
    }

    /// Pods younger than the grace time of unknown ones may be those of a start under way elsewhere: they are looked at
    /// again when they are older. A replica removes nothing here: strays are for it.
    fn sweep(&self, keep: Vec<SandboxId>) -> BoxFuture<'_, Result<Vec<SandboxId>, SandboxError>> {
        Box::pin(async move {
            self.inner.follow();
            if self.inner.names.replica.is_some() {
                return Ok(Vec::new());
            }
            let (removed, young) = self.reap(&keep, self.inner.config.reap_after).await?;
            if young {
                let (this, after) = (self.clone(), self.inner.config.reap_after);
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    if let Err(error) = this.reap(&keep, Duration::ZERO).await {
                        tracing::warn!(%error, "unknown pods stay until the next start");
                    }
                });
            }
            Ok(removed)
        })
    }

    fn strays(&self) -> BoxFuture<'_, Result<Option<Vec<OrphanSandbox>>, SandboxError>> {
        Box::pin(async move {
            if self.inner.names.replica.is_none() {
                return Ok(None);
            }
            self.inner.follow();
            let found = self.unknown().await?;
            let stray = |(id, one): (SandboxId, UnknownPod)| OrphanSandbox { id, maker: one.maker };
            Ok(Some(found.into_iter().map(stray).collect()))
        })
    }

    fn remove_strays(&self, ids: Vec<SandboxId>) -> BoxFuture<'_, usize> {
        Box::pin(async move { self.remove(ids).await.len() })
    }
}

/// A sandbox that is no member.
struct UnknownPod {
    age: Duration,
    maker: Option<String>,
}

impl KubernetesProvisioner {
    async fn pods(&self) -> Result<Vec<Pod>, SandboxError> {
        let (pods, params) = (
            self.inner.pods(),
            ListParams::default().labels(&self.inner.names.selector()),
        );
        let all = call("list pods", async || pods.list(&params).await).await;
        Ok(all.map_err(|error| failed("list pods", &error))?.items)
    }

    async fn secrets(&self) -> Result<Vec<Secret>, SandboxError> {
        let (secrets, params) = (
            self.inner.secrets(),
            ListParams::default().labels(&self.inner.names.selector()),
        );
        let all = call("list secrets", async || secrets.list(&params).await).await;
        Ok(all.map_err(|error| failed("list secrets", &error))?.items)
    }

    /// Sandboxes that this process does not know.
    async fn unknown(&self) -> Result<HashMap<SandboxId, UnknownPod>, SandboxError> {
        let now = SystemTime::now();
        let mut found: HashMap<SandboxId, UnknownPod> = HashMap::new();
        let pods = self.pods().await?;
        let secrets = self.secrets().await?;
        let all = pods.iter().map(|pod| &pod.metadata);
        for metadata in all.chain(secrets.iter().map(|secret| &secret.metadata)) {
            if let Some(id) = sandbox_of(metadata) {
                let old = age(metadata, now);
                let one = found.entry(id).or_insert_with(|| UnknownPod {
                    age: old,
                    maker: maker(metadata).map(str::to_owned),
                });
                one.age = one.age.max(old);
            }
        }
        // Found first, members second: a sandbox that starts in between is a member.
        found.retain(|id, _| self.inner.member(*id).is_none());
        Ok(found)
    }

    /// Removes unknown sandboxes of at least this age. Gives also whether there are younger ones.
    async fn reap(
        &self,
        keep: &[SandboxId],
        least: Duration,
    ) -> Result<(Vec<SandboxId>, bool), SandboxError> {
        let mut found = self.unknown().await?;
        found.retain(|id, _| !keep.contains(id));
        let all = found.len();
        found.retain(|_, one| one.age >= least);
        let young = found.len() < all;
        Ok((self.remove(found.into_keys()).await, young))
    }

    /// Removes sandboxes. Gives those that it could remove.
    async fn remove(&self, ids: impl IntoIterator<Item = SandboxId>) -> Vec<SandboxId> {
        let mut removed = Vec::new();
        for id in ids {
            match self.inner.delete(id, 1).await {
                Ok(()) => {
                    tracing::info!(sandbox = ?id, "removed an unknown pod");
                    removed.push(id);
                }
                Err(error) => tracing::warn!(sandbox = ?id, %error, "a pod cannot be removed"),
            }
        }
        removed
    }
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

fn isolation(pod: &Pod) -> Isolation {
    let noted = annotation(pod, ISOLATION).and_then(|text| text.parse().ok());
    noted.unwrap_or(Isolation::Container)
}

fn info(pod: &Pod) -> Option<SandboxInfo> {
    let created = pod.metadata.creation_timestamp.as_ref();
    Some(SandboxInfo {
        id: sandbox_of(&pod.metadata)?,
        alive: matches!(observe(pod), PodPhase::Running(_)),
        pid: None,
        created: created.map_or(SystemTime::UNIX_EPOCH, |time| time.0.into()),
        labels: annotation(pod, CALLER)
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default(),
        isolation: isolation(pod),
        usage: None,
    })
}
