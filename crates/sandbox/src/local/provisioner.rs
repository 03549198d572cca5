//! The local provisioner: implements the trait for sandboxes of plain processes.

use std::collections::{BTreeMap, HashMap};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use himalia_link::Endpoint;
use rustix::process::Signal;

use super::config::LocalConfig;
use super::hunt::Hunt;
use super::member::{Member, clean};
use super::noted::{Details, Record};
use super::spawn::spawn;
use super::sweep::sweep;
use crate::host::layout::{Layout, private_dir};
use crate::host::members::Members;
use crate::host::proc::{self, Process, ProcessId, Tree, resident};
use crate::host::{MARK_VARIABLE, OOM_REPORT_DELAY, blocking};
use crate::{
    BoxFuture, Capabilities, FixedLimit, Isolation, LimitChange, LimitReport, MeasuredBy, Provisioner,
    ProvisionerKind, RootFiles, SandboxError, SandboxExit, SandboxHandle, SandboxId, SandboxInfo,
    SandboxSpec, Usage,
};

/// Steps from a process to the shim that are followed.
const MAX_DEPTH: usize = 64;

/// Starts shims as plain processes of this user. Clones share everything.
#[derive(Clone, Debug)]
pub struct LocalProvisioner {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: LocalConfig,
    layout: Layout,
    members: Members<Member>,
}

impl LocalProvisioner {
    /// Checks the run directory, and makes it and the spill directory if they are missing.
    ///
    /// # Errors
    /// [`SandboxError::RunDir`] when it is too long, not ours, or open to others; [`SandboxError::Io`].
    pub fn new(config: LocalConfig) -> Result<Self, SandboxError> {
        let layout = Layout::open(&config.run_dir)?;
        if let Some(dir) = &config.spill_dir {
            private_dir(dir)?;
        }
        Ok(Self {
            inner: Arc::new(Inner {
                config,
                layout,
                members: Members::default(),
            }),
        })
    }
}

impl LocalProvisioner {
    /// Result of `measure` for each living sandbox in the list. Reads the processes of the host once for all.
    fn measured<T: Send + 'static>(
        &self,
        ids: Vec<SandboxId>,
        measure: fn(&Record, ProcessId, &Tree<'_>) -> T,
    ) -> BoxFuture<'_, Result<HashMap<SandboxId, T>, SandboxError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(blocking(move || {
            let all = Process::all().unwrap_or_default();
            let tree = Tree::of(&all);
            let used = ids.into_iter().filter_map(|id| {
                let record = Record::read(&inner.layout.record(id), id)?;
                let shim = record.living_shim()?.id;
                Some((id, measure(&record, shim, &tree)))
            });
            used.collect()
        }))
    }
}

#[cfg(test)]
impl LocalProvisioner {
    pub(super) fn is_empty(&self) -> bool {
        self.inner.members.is_empty()
    }
}

impl Provisioner for LocalProvisioner {
    fn kind(&self) -> ProvisionerKind {
        ProvisionerKind::Local
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            isolation: Isolation::None,
            root: RootFiles::Host,
            networks: false,
            proxy: false,
            zygotes: false,
            kept_files: true,
            mounts: &[],
            measured_by: MeasuredBy::Provisioner,
            oom_report_delay: OOM_REPORT_DELAY,
        }
    }

    fn limits(&self) -> LimitReport {
        LimitReport::default()
    }

    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        Box::pin(async move {
            spec.check()?;
            let given = self.capabilities().isolation;
            if spec.minimum > given {
                return Err(SandboxError::Isolation {
                    wanted: spec.minimum,
                    given,
                });
            }
            let inner = Arc::clone(&self.inner);
            // If this future is dropped meanwhile, the result is dropped there and undoes itself.
            blocking(move || NewSandbox::start(inner, &spec))
                .await??
                .into_handle()
        })
    }

    fn adopt(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        Box::pin(async move {
            if let Ok(member) = self.inner.members.get(id) {
                return Ok(self.inner.handle(&member));
            }
            let inner = Arc::clone(&self.inner);
            let found = blocking(move || {
                let record = Record::read(&inner.layout.record(id), id)?;
                let shim = record.living_shim();
                if shim.is_none() {
                    clean(&record, &inner.config, &inner.layout);
                }
                Some((record, shim?.id))
            });
            let (record, shim) = found.await?.ok_or(SandboxError::NotFound(id))?;
            Ok(self.inner.watch(Member::new(record, shim), None))
        })
    }

    /// Only the limit of open files is fixed: each process has it from its start. The others are not enforced at this level, so they can
    /// change.
    fn fixed_limit(&self, change: &LimitChange) -> Option<FixedLimit> {
        change
            .first_fixed(|changed| (changed.field == "open_files").then_some("is set when a process starts"))
    }

    fn stop(&self, id: SandboxId, grace: Duration) -> BoxFuture<'_, Result<SandboxExit, SandboxError>> {
        Box::pin(async move {
            let member = self.inner.members.get(id)?;
            let handle = self.inner.handle(&member);
            member.stopping.store(true, Ordering::Release);
            let ended = if grace.is_zero() {
                None
            } else {
                let _ = member.shim.signal(Signal::TERM);
                tokio::time::timeout(grace, handle.ended()).await.ok().flatten()
            };
            if let Some(exit) = ended {
                return Ok(exit);
            }
            let inner = Arc::clone(&self.inner);
            let record = member.record.lock().clone();
            let killed = blocking(move || {
                Hunt::new(&record, &inner.config.shim, &inner.layout.gateway_dir(id)).kill()
            });
            killed.await?.map_err(|_| SandboxError::Unkillable(id))?;
            handle.ended().await.ok_or(SandboxError::Closed)
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>, SandboxError>> {
        Box::pin(async move {
            let inner = Arc::clone(&self.inner);
            blocking(move || {
                let ids = inner.layout.sandboxes()?;
                let records = ids
                    .into_iter()
                    .filter_map(|id| Record::read(&inner.layout.record(id), id));
                Ok(records.map(|record| record.info(Isolation::None)).collect())
            })
            .await?
        })
    }

    fn inspect(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxInfo, SandboxError>> {
        Box::pin(async move {
            let inner = Arc::clone(&self.inner);
            blocking(move || {
                let record = Record::read(&inner.layout.record(id), id);
                let record = record.ok_or(SandboxError::NotFound(id))?;
                let mut info = record.info(Isolation::None);
                if info.alive {
                    let mut hunt = Hunt::new(&record, &inner.config.shim, &inner.layout.gateway_dir(id));
                    info.usage = Some(usage(&mut hunt));
                }
                Ok(info)
            })
            .await?
        })
    }

    /// Memory of the processes below the shim. [`Self::inspect`] also counts processes that have left them.
    fn memory(&self, ids: Vec<SandboxId>) -> BoxFuture<'_, Result<HashMap<SandboxId, u64>, SandboxError>> {
        self.measured(ids, |_, shim, tree| resident(&tree.family([shim])))
    }

    /// Usage of the processes below the shim and of the noted processes. [`Self::inspect`] also counts processes that have left both.
    fn usage(&self, ids: Vec<SandboxId>) -> BoxFuture<'_, Result<HashMap<SandboxId, Usage>, SandboxError>> {
        self.measured(ids, |record, shim, tree| {
            let noted = record.details.noted.iter().map(|noted| noted.process);
            proc::usage(tree.family(noted.chain([shim])).iter())
        })
    }

    fn note_process(&self, id: SandboxId, pid: u32) -> BoxFuture<'_, Result<bool, SandboxError>> {
        Box::pin(async move {
            let member = self.inner.members.get(id)?;
            let layout = self.inner.layout.clone();
            blocking(move || match below(member.shim, pid) {
                Some(process) => member.note(&process, &layout),
                None => Ok(false),
            })
            .await?
        })
    }

    fn sweep(&self, keep: Vec<SandboxId>) -> BoxFuture<'_, Result<Vec<SandboxId>, SandboxError>> {
        Box::pin(async move {
            let inner = Arc::clone(&self.inner);
            blocking(move || {
                let ids = inner.members.strangers(inner.layout.sandboxes()?, &keep);
                Ok(sweep(ids, &inner.config, &inner.layout))
            })
            .await?
        })
    }
}

impl Inner {
    fn handle(&self, member: &Member) -> SandboxHandle {
        let mark = member.record.lock().mark.clone();
        SandboxHandle {
            id: member.id,
            endpoint: Endpoint::Unix(self.layout.gateway_dir(member.id)),
            runtime_dir: self.layout.runtime_dir(member.id),
            work_dir: None,
            zygote: false,
            isolation: Isolation::None,
            limits: LimitReport::default(),
            base_env: BTreeMap::new(),
            kernel_env: BTreeMap::from([(MARK_VARIABLE.to_owned(), mark)]),
            has_image_env: false,
            image_digest: None,
            exit: member.exit.subscribe(),
        }
    }

    /// Enters a sandbox into the list and watches it until it ends. If another call was faster, its member counts.
    fn watch(self: &Arc<Self>, member: Arc<Member>, child: Option<Child>) -> SandboxHandle {
        if let Err(existing) = self.members.enter(member.id, &member) {
            return self.handle(&existing);
        }
        let handle = self.handle(&member);
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let cause = member.shim_ended(child, &inner.layout).await;
            let (cleaner, ended) = (Arc::clone(&inner), Arc::clone(&member));
            let exit = blocking(move || ended.clean(cause, &cleaner.config, &cleaner.layout)).await;
            inner.members.remove(member.id);
            if let Ok(exit) = exit {
                member.exit.send_replace(Some(exit));
            }
        });
        handle
    }
}

/// A sandbox between its first file and its entry in the list. Dropped before that, it undoes everything.
struct NewSandbox {
    inner: Arc<Inner>,
    record: Record,
    child: Option<Child>,
}

impl NewSandbox {
    fn start(inner: Arc<Inner>, spec: &SandboxSpec) -> Result<Self, SandboxError> {
        let id = SandboxId::generate()?;
        let mark = SandboxId::generate()?.to_string();
        inner.members.starting(id);
        let record = Record::new(id, mark, spec.labels.clone(), Details::default());
        let mut fresh = Self {
            inner,
            record,
            child: None,
        };
        let layout = &fresh.inner.layout;
        let path = layout.record(id);
        fresh.record.write(&path)?;
        layout.create_gateway_dir(id)?;
        layout.create_runtime_dir(id)?;
        layout.write_key(id, &spec.key)?;
        let child = spawn(
            &fresh.inner.config,
            spec,
            &layout.gateway_dir(id),
            &layout.runtime_dir(id),
            &layout.log(id),
            &fresh.record.mark,
        )?;
        let pid = i32::try_from(child.id()).unwrap_or(0);
        // It is not reaped yet, so its entry exists even if it has ended.
        fresh.record.shim = Process::read(pid).map(|process| process.id);
        fresh.child = Some(child);
        fresh.record.write(&path)?;
        Ok(fresh)
    }

    fn into_handle(mut self) -> Result<SandboxHandle, SandboxError> {
        let Some(shim) = self.record.shim else {
            let source = std::io::Error::other("/proc does not show it; is it mounted?");
            return Err(SandboxError::Spawn {
                program: self.inner.config.shim.clone(),
                source,
            });
        };
        let child = self.child.take();
        Ok(self.inner.watch(Member::new(self.record.clone(), shim), child))
    }
}

impl Drop for NewSandbox {
    fn drop(&mut self) {
        let child = &mut self.child;
        let abandoned = self.inner.members.abandon(self.record.id, || {
            if let Some(child) = child {
                let _ = child.kill();
                let _ = child.wait();
            }
        });
        if abandoned {
            clean(&self.record, &self.inner.config, &self.inner.layout);
        }
    }
}

/// The process `pid`, if it is below the shim.
fn below(shim: ProcessId, pid: u32) -> Option<Process> {
    let process = Process::read(i32::try_from(pid).ok()?).filter(|process| !process.ended)?;
    shim.find()?;
    let mut parent = process.parent;
    for _ in 0..MAX_DEPTH {
        if parent == shim.pid {
            return Some(process);
        }
        parent = Process::read(parent)?.parent;
    }
    None
}

fn usage(hunt: &mut Hunt) -> Usage {
    let all = Process::all().unwrap_or_default();
    let ours = hunt.find(&all);
    proc::usage(all.iter().filter(|process| ours.contains(&process.id)))
}
