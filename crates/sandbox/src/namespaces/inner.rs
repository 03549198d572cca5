//! State that all calls share: the sandboxes and the user ids in use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use himalia_jail::HostIds;
use himalia_link::Endpoint;
use parking_lot::Mutex;

use super::config::NamespacesConfig;
use super::files::KeptFiles;
use super::jail::Jail;
use super::member::Member;
use super::record::Record;
use super::standby::Standbys;
use super::uids::HostUids;
use super::zygote::{Surroundings, Zygotes, remove_homes};
use super::{ending, root};
use crate::host::layout::{Layout, ZYGOTES_DIR, ZYGOTES_LOG};
use crate::host::log::log_tail;
use crate::host::members::Members;
use crate::host::{blocking, short};
use crate::{
    Enforcement, ExitCause, Isolation, LimitReport, SandboxError, SandboxExit, SandboxHandle, SandboxId,
    inside,
};

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) config: NamespacesConfig,
    /// Directories that no sandbox may see, resolved.
    pub(super) private: Vec<PathBuf>,
    pub(super) layout: Layout,
    pub(super) kept: KeptFiles,
    pub(super) jail: Jail,
    pub(super) zygotes: Zygotes,
    pub(super) standbys: Standbys,
    pub(super) members: Members<Member>,
    /// The watch over memory runs.
    pub(super) watching: AtomicBool,
    uids: Mutex<Uids>,
}

#[derive(Debug)]
struct Uids {
    host: HostUids,
    /// Names of kept files with the sandbox that uses them. No task may watch the sandbox yet.
    in_use: HashMap<String, SandboxId>,
}

impl Inner {
    pub(super) fn open(config: NamespacesConfig) -> Result<Self, SandboxError> {
        let layout = Layout::open(&config.run_dir)?;
        let kept = KeptFiles::open(&config.data_dir)?;
        let private = private(&config)?;
        let homes = config.run_dir.join(ZYGOTES_DIR);
        remove_homes(&homes)?;
        let records = records(&layout)?;
        let taken = uids_of(&records).chain(kept.owners());
        let is_root = rustix::process::geteuid().is_root();
        let uids = Uids {
            host: HostUids::new(&config.host_uids, &config.host_uids_of_files, is_root, taken)?,
            in_use: records
                .iter()
                .filter_map(|record| Some((record.details.files.clone()?, record.id)))
                .collect(),
        };
        Ok(Self {
            jail: Jail::new(&config.jail),
            zygotes: Zygotes::new(Surroundings {
                kernel_package_dir: config.kernel_package_dir.clone(),
                log: config.run_dir.join(ZYGOTES_LOG),
                homes,
                private: private.clone(),
            }),
            config,
            private,
            layout,
            kept,
            standbys: Standbys::default(),
            members: Members::default(),
            watching: AtomicBool::new(false),
            uids: Mutex::new(uids),
        })
    }

    /// Mechanisms that can enforce limits.
    pub(super) fn limits(&self) -> LimitReport {
        limits(&self.config)
    }

    /// Gives a sandbox its user id, and its kept files if it has any; those are made if they are missing.
    pub(super) fn claim_ids(
        &self,
        id: SandboxId,
        kept: Option<&str>,
    ) -> Result<Option<HostIds>, SandboxError> {
        let mut uids = self.uids.lock();
        let Some(name) = kept else {
            return uids.host.take();
        };
        if uids.in_use.contains_key(name) {
            return Err(SandboxError::BadSpec {
                field: "files",
                reason: format!("named {name} are in use by another sandbox"),
            });
        }
        let ids = if let Some(owner) = self.kept.owner(name) {
            uids.host.of_files(owner)?
        } else {
            let ids = uids.host.take()?;
            if let Err(error) = self.kept.create(name, ids) {
                uids.host.release(ids);
                return Err(error);
            }
            ids
        };
        uids.in_use.insert(name.to_owned(), id);
        Ok(ids)
    }

    /// Removes what a sandbox without processes has left: groups, files, its entry in the list. Blocks.
    pub(super) fn forget(&self, record: &Record) {
        ending::remove_or_warn(record, &self.layout);
        self.members.remove(record.id);
        self.release(record);
    }

    /// Gives back what [`Self::claim_ids`] gave. Files keep their owner.
    pub(super) fn release(&self, record: &Record) {
        let mut uids = self.uids.lock();
        match &record.details.files {
            None => uids.host.release(record.details.host_ids),
            Some(name) => {
                if uids.in_use.get(name) == Some(&record.id) {
                    uids.in_use.remove(name);
                }
            }
        }
    }

    /// Removes kept files. Blocks.
    pub(super) fn remove_files(&self, name: &str) -> Result<(), SandboxError> {
        super::files::check_name(name)?;
        let owner = {
            let mut uids = self.uids.lock();
            if uids.in_use.contains_key(name) {
                return Err(SandboxError::BadSpec {
                    field: "files",
                    reason: format!("named {name} are in use by a sandbox"),
                });
            }
            let Some(owner) = self.kept.owner(name) else {
                return Ok(());
            };
            // No sandbox can start to use them while they are removed, which may take long.
            uids.in_use.insert(name.to_owned(), SandboxId::generate()?);
            owner
        };
        let removed = self.kept.remove(name);
        let mut uids = self.uids.lock();
        uids.in_use.remove(name);
        removed?;
        uids.host.release(Some(HostIds {
            uid: owner,
            gid: owner,
        }));
        Ok(())
    }

    pub(super) fn handle(&self, member: &Member) -> SandboxHandle {
        let details = member.record().details;
        let work_dir = details.work_dir();
        SandboxHandle {
            id: member.id,
            endpoint: Endpoint::Unix(self.layout.gateway_dir(member.id)),
            runtime_dir: inside::RUNTIME_DIR.into(),
            work_dir: Some(work_dir.into()),
            zygote: details.zygote,
            isolation: Isolation::Namespaces,
            limits: details.limits,
            base_env: base_env(work_dir),
            kernel_env: BTreeMap::new(),
            has_image_env: false,
            image_digest: None,
            exit: member.exit.subscribe(),
        }
    }

    /// Enters a sandbox into the list and watches it until it ends. If another call was faster, its member counts.
    pub(super) fn watch(self: &Arc<Self>, member: Arc<Member>) -> SandboxHandle {
        if let Err(existing) = self.members.enter(member.id, &member) {
            return self.handle(&existing);
        }
        let handle = self.handle(&member);
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let cause = member.ended(&inner.layout).await;
            let (cleaner, ended) = (Arc::clone(&inner), Arc::clone(&member));
            if let Ok(exit) = blocking(move || cleaner.clean(&ended, cause)).await {
                member.exit.send_replace(Some(exit));
            }
        });
        handle
    }

    /// Ends one without an owner and forgets it. Blocks.
    pub(super) fn discard(&self, record: &Record) {
        match ending::kill(record) {
            Ok(()) => self.forget(record),
            Err(error) => {
                // Its files stay for a later sweep, its user id stays taken.
                tracing::error!(sandbox = %short(record.id), %error, "a sandbox that was not wanted remains");
                self.members.remove(record.id);
            }
        }
    }

    fn clean(&self, member: &Member, cause: ExitCause) -> SandboxExit {
        let log_tail = log_tail(&self.layout.log(member.id));
        self.forget(&member.record());
        SandboxExit {
            cause,
            requested: member.stopping.load(Ordering::Acquire),
            // With the first process the kernel has ended all others.
            leftovers: 0,
            log_tail,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for standby in self.standbys.drain() {
            self.discard(&standby.record);
        }
    }
}

fn records(layout: &Layout) -> Result<Vec<Record>, SandboxError> {
    let ids = layout.sandboxes()?.into_iter();
    Ok(ids
        .filter_map(|id| Record::read(&layout.record(id), id))
        .collect())
}

fn uids_of(records: &[Record]) -> impl Iterator<Item = u32> {
    let given = records.iter().filter_map(|record| record.details.host_ids);
    given.map(|ids| ids.uid)
}

/// The host user ids of sandboxes that may live, and of kept files, of the gateway with these directories, as they are
/// in a [`NamespacesConfig`]. What is not there has none. Blocks.
pub fn host_uids_in_use(run_dir: &Path, data_dir: &Path) -> BTreeSet<u32> {
    let files = KeptFiles::at(data_dir).owners();
    let records = records(&Layout::look_at(run_dir)).unwrap_or_default();
    uids_of(&records).chain(files).collect()
}

/// Environment that a login on this host would set.
fn base_env(work_dir: &str) -> BTreeMap<String, String> {
    [
        ("HOME", work_dir),
        ("LANG", "C.UTF-8"),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("PYTHONPATH", inside::KERNEL_DIR),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// Mechanisms that can enforce limits of a sandbox with these settings.
pub(super) fn limits(config: &NamespacesConfig) -> LimitReport {
    let group = |has: bool, other: Enforcement| if has { Enforcement::Cgroup } else { other };
    LimitReport {
        memory: group(config.cgroups.has_memory(), Enforcement::Watched),
        pids: group(config.cgroups.has_pids(), Enforcement::Rlimit),
        cpu: group(config.cgroups.has_cpu(), Enforcement::None),
        disk: Enforcement::Hard,
    }
}

/// The directories that no sandbox may see, resolved. They must not lie where every sandbox looks.
pub(super) fn private(config: &NamespacesConfig) -> Result<Vec<PathBuf>, SandboxError> {
    let own = [&config.run_dir, &config.data_dir];
    own.into_iter()
        .chain(&config.private_dirs)
        .map(|dir| resolved(dir))
        .collect()
}

fn resolved(dir: &Path) -> Result<PathBuf, SandboxError> {
    let path = std::fs::canonicalize(dir).map_err(|error| SandboxError::io(dir, error))?;
    match root::system_dir(&path) {
        None => Ok(path),
        Some(system) => Err(SandboxError::BadSpec {
            field: "private directories",
            reason: format!("include {}, but every sandbox sees {system}", path.display()),
        }),
    }
}
