//! The namespaces provisioner: implements the trait.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::Signal;

use super::config::NamespacesConfig;
use super::ending::{self, PATIENCE};
use super::inner::Inner;
use super::member::Member;
use super::record::Record;
use super::shared::MOUNTS;
use super::start::{NewSandbox, check};
use super::{change, files, root, shared, standby, sweep, usage, watch};
use crate::host::{OOM_REPORT_DELAY, blocking};
use crate::{
    BoxFuture, Capabilities, DiskUse, FixedLimit, Isolation, LimitChange, LimitReport, MeasuredBy,
    Provisioner, ProvisionerKind, RootFiles, SandboxError, SandboxExit, SandboxHandle, SandboxId,
    SandboxInfo, SandboxSpec, SharedMount, Usage, ZygoteSpec,
};

/// Starts shims in Linux namespaces. Clones share everything.
#[derive(Clone, Debug)]
pub struct NamespacesProvisioner {
    inner: Arc<Inner>,
}

impl NamespacesProvisioner {
    /// Checks the directories and makes them if they are missing. Makes this process a subreaper (`prctl(2)`), so that
    /// the first processes of sandboxes become its children when the process that started them has ended: only a parent
    /// learns how a process ended. [`crate::try_out`] tells whether sandboxes can be made at all.
    ///
    /// # Errors
    /// [`SandboxError::RunDir`] when it is too long, not ours, or open to others; [`SandboxError::BadSpec`] when the
    /// settings do not fit together; [`SandboxError::Io`].
    pub fn new(config: NamespacesConfig) -> Result<Self, SandboxError> {
        let own = rustix::process::getpid();
        if let Err(error) = rustix::process::set_child_subreaper(Some(own)) {
            tracing::debug!(%error, "not a subreaper; how sandboxes end is not known");
        }
        Ok(Self {
            inner: Arc::new(Inner::open(config)?),
        })
    }

    /// Ends all zygotes. Sandboxes live on; how those that were forked end is then not always known.
    pub fn end_zygotes(&self) {
        self.inner.zygotes.clear();
    }
}

impl NamespacesProvisioner {
    /// Result of `measure` for each sandbox in the list that has a record.
    fn measured<T: Send + 'static>(
        &self,
        ids: Vec<SandboxId>,
        measure: fn(&mut dyn Iterator<Item = Record>) -> HashMap<SandboxId, T>,
    ) -> BoxFuture<'_, Result<HashMap<SandboxId, T>, SandboxError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(blocking(move || {
            measure(
                &mut ids
                    .into_iter()
                    .filter_map(|id| Record::read(&inner.layout.record(id), id)),
            )
        }))
    }
}

impl Provisioner for NamespacesProvisioner {
    fn kind(&self) -> ProvisionerKind {
        ProvisionerKind::Local
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            isolation: Isolation::Namespaces,
            root: RootFiles::Built,
            networks: false,
            proxy: true,
            zygotes: true,
            kept_files: true,
            mounts: MOUNTS,
            measured_by: MeasuredBy::Provisioner,
            oom_report_delay: OOM_REPORT_DELAY,
        }
    }

    fn limits(&self) -> LimitReport {
        self.inner.limits()
    }

    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        Box::pin(async move {
            spec.check()?;
            check(&spec)?;
            let given = self.capabilities().isolation;
            if spec.minimum > given {
                return Err(SandboxError::Isolation {
                    wanted: spec.minimum,
                    given,
                });
            }
            let inner = Arc::clone(&self.inner);
            // If this future is dropped meanwhile, the result is dropped there and undoes itself.
            let started = blocking(move || {
                // Before a zygote is started for it: that one runs outside of every sandbox.
                root::check_binds(&inner.private, &spec.binds)?;
                let zygote = spec
                    .zygote
                    .as_ref()
                    .and_then(|zygote| inner.zygotes.ready(zygote));
                match standby::take(&inner, &spec) {
                    Some(fresh) => Ok((fresh, spec)),
                    None => NewSandbox::start(inner, &spec, zygote.as_ref()).map(|fresh| (fresh, spec)),
                }
            });
            let (fresh, spec) = started.await??;
            if fresh.is_by_zygote() {
                standby::refill(&self.inner, spec);
            }
            let member = fresh.into_member().ok_or(SandboxError::Closed)?;
            watch::ensure(&self.inner, &member);
            Ok(self.inner.watch(member))
        })
    }

    fn check_mounts(&self, mounts: Vec<SharedMount>) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(async move {
            let inner = Arc::clone(&self.inner);
            blocking(move || shared::check(&inner, &mounts)).await?
        })
    }

    fn warm(&self, zygote: &ZygoteSpec) -> BoxFuture<'_, Result<(), SandboxError>> {
        let zygote = zygote.clone();
        Box::pin(async move { self.inner.zygotes.warm(&zygote).await })
    }

    fn adopt(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        Box::pin(async move {
            if let Ok(member) = self.inner.members.get(id) {
                return Ok(self.inner.handle(&member));
            }
            let inner = Arc::clone(&self.inner);
            let found = blocking(move || {
                let record = Record::read(&inner.layout.record(id), id).ok_or(SandboxError::NotFound(id))?;
                if let Some(init) = record.living_shim() {
                    return Ok(Member::new(record, init.id, None));
                }
                ending::kill(&record)?;
                inner.forget(&record);
                Err(SandboxError::NotFound(id))
            });
            let member = Arc::new(found.await??);
            watch::ensure(&self.inner, &member);
            Ok(self.inner.watch(member))
        })
    }

    fn fixed_limit(&self, limits: &LimitChange) -> Option<FixedLimit> {
        change::fixed(&self.inner, limits)
    }

    fn change_limits(
        &self,
        id: SandboxId,
        limits: LimitChange,
    ) -> BoxFuture<'_, Result<LimitReport, SandboxError>> {
        Box::pin(async move {
            let member = self.inner.members.get(id)?;
            let (inner, changed) = (Arc::clone(&self.inner), Arc::clone(&member));
            let report = blocking(move || change::apply(&inner, &changed, &limits)).await??;
            watch::ensure(&self.inner, &member);
            Ok(report)
        })
    }

    fn stop(&self, id: SandboxId, grace: Duration) -> BoxFuture<'_, Result<SandboxExit, SandboxError>> {
        Box::pin(async move {
            let member = self.inner.members.get(id)?;
            let handle = self.inner.handle(&member);
            member.stopping.store(true, Ordering::Release);
            if !grace.is_zero() {
                let _ = member.init.signal(Signal::TERM);
                let ended = tokio::time::timeout(grace, handle.ended()).await;
                if let Some(exit) = ended.ok().flatten() {
                    return Ok(exit);
                }
            }
            if let Err(error) = member.init.signal(Signal::KILL) {
                tracing::warn!(pid = member.init.pid, %error, "cannot kill the first process of a sandbox");
            }
            // Removing its groups and files may take as long again.
            match tokio::time::timeout(PATIENCE * 3, handle.ended()).await {
                Ok(exit) => exit.ok_or(SandboxError::Closed),
                Err(_) => Err(SandboxError::Unkillable(id)),
            }
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>, SandboxError>> {
        Box::pin(async move {
            let inner = Arc::clone(&self.inner);
            blocking(move || {
                let ids = inner.layout.sandboxes()?;
                // The standby sandboxes of this process, and those being made, have no owner.
                let records = ids
                    .into_iter()
                    .filter(|id| !inner.members.is_starting(*id))
                    .filter_map(|id| Record::read(&inner.layout.record(id), id));
                Ok(records.map(|record| record.info(Isolation::Namespaces)).collect())
            })
            .await?
        })
    }

    fn inspect(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxInfo, SandboxError>> {
        Box::pin(async move {
            let inner = Arc::clone(&self.inner);
            blocking(move || {
                let record = Record::read(&inner.layout.record(id), id).ok_or(SandboxError::NotFound(id))?;
                let mut info = record.info(Isolation::Namespaces);
                info.usage = record.living_shim().map(|init| usage::usage(&record, init.id));
                Ok(info)
            })
            .await?
        })
    }

    fn memory(&self, ids: Vec<SandboxId>) -> BoxFuture<'_, Result<HashMap<SandboxId, u64>, SandboxError>> {
        self.measured(ids, |records| usage::memory(records))
    }

    fn usage(&self, ids: Vec<SandboxId>) -> BoxFuture<'_, Result<HashMap<SandboxId, Usage>, SandboxError>> {
        self.measured(ids, |records| usage::usages(records))
    }

    /// Needless here: with the first process the kernel ends all others.
    fn note_process(&self, id: SandboxId, _pid: u32) -> BoxFuture<'_, Result<bool, SandboxError>> {
        Box::pin(async move { self.inner.members.get(id).map(|_| true) })
    }

    fn oom_kills(&self, id: SandboxId) -> BoxFuture<'_, Result<u64, SandboxError>> {
        Box::pin(async move {
            let member = self.inner.members.get(id)?;
            blocking(move || member.oom_kills()).await
        })
    }

    fn disk_use(&self, id: SandboxId) -> BoxFuture<'_, Result<Option<DiskUse>, SandboxError>> {
        Box::pin(async move {
            let member = self.inner.members.get(id)?;
            let details = member.record().details;
            let (Some(name), Some(limit_bytes)) = (details.files, details.watched_disk) else {
                return Ok(None);
            };
            let path = self.inner.kept.path(&name);
            let found = blocking(move || files::measure(&path)).await??;
            Ok(Some(DiskUse {
                used_bytes: found.bytes,
                limit_bytes,
                uncounted: found.truncated,
            }))
        })
    }

    fn remove_files<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async move {
            let (inner, name) = (Arc::clone(&self.inner), name.to_owned());
            blocking(move || inner.remove_files(&name)).await?
        })
    }

    fn kept_files(&self) -> BoxFuture<'_, Result<Vec<String>, SandboxError>> {
        Box::pin(async move {
            let inner = Arc::clone(&self.inner);
            blocking(move || inner.kept.names()).await?
        })
    }

    fn sweep(&self, keep: Vec<SandboxId>) -> BoxFuture<'_, Result<Vec<SandboxId>, SandboxError>> {
        Box::pin(async move {
            let inner = Arc::clone(&self.inner);
            blocking(move || sweep::sweep(&inner, &keep)).await?
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let inner = Arc::clone(&self.inner);
            // It fails only when the runtime ends.
            let _ = blocking(move || standby::close(&inner)).await;
            self.inner.zygotes.close().await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SandboxKey;

    #[tokio::test]
    async fn a_spec_that_is_refused_starts_no_zygote() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir(path("data")).unwrap();
        let config = NamespacesConfig::new(
            path("run"),
            path("data"),
            path("shim"),
            path("jail"),
            path("package"),
        );
        let provisioner = NamespacesProvisioner::new(config).unwrap();
        let mut spec = SandboxSpec::new(SandboxKey::generate().unwrap());
        spec.binds = vec![path("data/files/a")];
        std::fs::create_dir_all(&spec.binds[0]).unwrap();
        spec.zygote = Some(ZygoteSpec {
            trust_domain: "gateway".to_owned(),
            python: "/usr/bin/python3".into(),
            env: std::collections::BTreeMap::new(),
            preload: Vec::new(),
        });
        let refused = provisioner.start(spec).await.unwrap_err();
        assert!(refused.to_string().contains("gateway's own"), "{refused}");
        assert_eq!(provisioner.inner.zygotes.count(), 0);
    }
}
