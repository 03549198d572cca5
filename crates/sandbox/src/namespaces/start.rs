//! Starts a sandbox.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use himalia_jail::{ExecPlan, Program, Resource, Rlimit};
use tokio::sync::oneshot;

use super::cgroups::GroupLimits;
use super::inner::Inner;
use super::jail::pipe;
use super::member::Member;
use super::record::{Details, Record};
use super::root::{Memory, Root};
use super::standby::Standby;
use super::zygote::{Order, Zygote};
use super::{ending, files, shared};
use crate::host::log::open_log;
use crate::host::proc::{Process, ProcessId};
use crate::host::{MARK_VARIABLE, short};
use crate::{
    Enforcement, Files, LimitReport, Limits, Network, SandboxError, SandboxId, SandboxSpec, check_mounts,
    inside, shows_data,
};

/// Numbers of descriptors in `himalia-jail`.
const LOG_FD: i32 = 4;
const KEY_FD: i32 = 5;
/// Open files of a process where the spec does not say, if the gateway itself may have as many.
const OPEN_FILES: u64 = 65_536;
/// `PATH` and `LANG` of the shim. Kernels get an environment of their own.
const SHIM_ENV: [(&str, &str); 2] = [
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("LANG", "C.UTF-8"),
];

/// Refuses what this provisioner cannot give.
pub(super) fn check(spec: &SandboxSpec) -> Result<(), SandboxError> {
    let images = |field: &'static str| SandboxError::BadSpec {
        field,
        reason: "is for provisioners that run containers".to_owned(),
    };
    if let Network::Open(wanted) = &spec.network {
        return Err(SandboxError::NetworkUnsupported {
            wanted: wanted.clone(),
        });
    }
    if spec.image.is_some() {
        return Err(images("image"));
    }
    if spec.runtime.is_some() {
        return Err(images("runtime"));
    }
    if let Files::Session(name) = &spec.files {
        files::check_name(name)?;
    }
    check_mounts(&spec.mounts, shared::MOUNTS)
}

/// A sandbox between its first file and its entry in the list. Dropped before that, it undoes everything.
pub(super) struct NewSandbox {
    inner: Arc<Inner>,
    record: Record,
    status: Option<oneshot::Receiver<i32>>,
    done: bool,
}

impl NewSandbox {
    /// Starts it: as a fork of the zygote if there is one and it can, else by executing the shim. Blocks.
    pub(super) fn start(
        inner: Arc<Inner>,
        spec: &SandboxSpec,
        zygote: Option<&Zygote>,
    ) -> Result<Self, SandboxError> {
        let mut fresh = Self::new(inner, spec)?;
        let (mut shim, plan) = fresh.furnish(spec)?;
        let mut made = None;
        if let Some(zygote) = zygote {
            match fresh.fork(&shim, &plan, zygote) {
                Ok(first) => made = Some((first, true)),
                Err(error) => {
                    tracing::warn!(sandbox = %short(fresh.record.id), %error, "the zygote made no sandbox; it starts cold");
                    // It may have come halfway, or answer too late: its shim ends when it gets no key.
                    ending::kill(&fresh.record)?;
                }
            }
        }
        let ((init, key), by_zygote) = match made {
            Some(made) => made,
            None => (fresh.execute(&mut shim, plan)?, false),
        };
        fresh.began(init, by_zygote)?;
        match give_key(key, spec) {
            // It has ended already: its watch reports that, with what it printed.
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(fresh.io(error)),
            _ => Ok(fresh),
        }
    }

    /// Has the zygote start one whose shim waits for its key, which the given pipe takes. Blocks.
    pub(super) fn start_standby(
        inner: Arc<Inner>,
        spec: &SandboxSpec,
        zygote: &Zygote,
    ) -> Result<(Self, File), SandboxError> {
        let mut fresh = Self::new(inner, spec)?;
        let (shim, plan) = fresh.furnish(spec)?;
        let (init, key) = fresh.fork(&shim, &plan, zygote)?;
        fresh.began(init, true)?;
        Ok((fresh, key))
    }

    /// Takes a standby sandbox for this spec, and gives its shim the key. An error undoes it. Blocks.
    pub(super) fn take(
        inner: Arc<Inner>,
        standby: Standby,
        spec: &SandboxSpec,
    ) -> Result<Self, SandboxError> {
        let mut fresh = Self {
            inner,
            record: standby.record,
            status: standby.status,
            done: false,
        };
        fresh.record.labels.clone_from(&spec.labels);
        fresh.record.write(&fresh.inner.layout.record(fresh.record.id))?;
        give_key(standby.key, spec).map_err(|error| fresh.io(error))?;
        Ok(fresh)
    }

    fn new(inner: Arc<Inner>, spec: &SandboxSpec) -> Result<Self, SandboxError> {
        let id = SandboxId::generate()?;
        let mark = SandboxId::generate()?.to_string();
        inner.members.starting(id);
        Ok(Self {
            record: Record::new(id, mark, spec.labels.clone(), Details::default()),
            inner,
            status: None,
            done: false,
        })
    }

    /// Writes its record, makes its groups, and returns how it is made and how its shim is started.
    fn furnish(&mut self, spec: &SandboxSpec) -> Result<(Shim, himalia_jail::Plan), SandboxError> {
        let inner = Arc::clone(&self.inner);
        let (config, layout, id) = (&inner.config, &inner.layout, self.record.id);
        let kept = match &spec.files {
            Files::Session(name) => Some(name.as_str()),
            Files::Ephemeral => None,
        };
        let shared = shared::open(&inner, &spec.mounts)?;
        let memory = Memory::new(&spec.limits, kept.is_some(), config.sizes);
        let wanted = wanted(&spec.limits, memory);
        self.record.details = Details {
            groups: config.cgroups.plan(&self.record.mark, wanted),
            limits: report(&spec.limits, &inner, kept.is_some()),
            watched_memory: spec.limits.memory_bytes.filter(|_| !config.cgroups.has_memory()),
            watched_disk: spec.limits.disk_bytes.filter(|_| kept.is_some()),
            ..Details::default()
        };
        let host_ids = inner.claim_ids(id, kept)?;
        self.record.details.host_ids = host_ids;
        self.record.details.files = kept.map(str::to_owned);
        // From here on a later gateway process can undo this.
        self.record.write(&layout.record(id))?;
        let gateway_dir = layout.create_gateway_dir(id)?;
        self.record.details.groups.create(wanted)?;
        let root = Root {
            config,
            private: &inner.private,
            host_ids,
            gateway_dir: &gateway_dir,
            kept_files: kept.map(|name| inner.kept.path(name)),
            memory,
            binds: &spec.binds,
            names: &spec.names,
            shared: &shared,
            shows_data: shows_data(spec),
        };
        let (plan, in_user_home) = root.plan()?;
        self.record.details.in_user_home = in_user_home;
        let shim = Shim {
            argv: argv(spec, &inner, self.record.details.work_dir()),
            env: env(&self.record.mark),
            rlimits: rlimits(&spec.limits, &inner),
            cgroups: self.record.details.groups.procs(),
        };
        Ok((shim, plan))
    }

    /// Records that the first process runs.
    fn began(&mut self, init: ProcessId, by_zygote: bool) -> Result<(), SandboxError> {
        self.record.details.zygote = by_zygote;
        self.record.shim = Some(init);
        self.record.write(&self.inner.layout.record(self.record.id))
    }

    /// Has the zygote make the first process, whose shim waits for its key. Dropped, the pipe that takes the key ends the shim.
    fn fork(
        &mut self,
        shim: &Shim,
        plan: &himalia_jail::Plan,
        zygote: &Zygote,
    ) -> Result<(ProcessId, File), SandboxError> {
        let log = self.log()?;
        let (key, later) = pipe().map_err(|error| self.io(error))?;
        let again = |log: &File| log.try_clone().map_err(|error| self.io(error));
        let open = |path: &PathBuf| {
            File::options()
                .write(true)
                .open(path)
                .map_err(|error| SandboxError::io(path, error))
        };
        let cgroups: Vec<File> = shim.cgroups.iter().map(open).collect::<Result<_, _>>()?;
        // Joining a group takes as long as making the sandbox, and waits only for the host's kernel.
        let birth = zygote.begin(&cgroups)?;
        let sandbox = self.inner.jail.prepare(plan, &self.record.mark, again(&log)?)?;
        let born = birth.enter(&Order {
            sandbox,
            key,
            log,
            rlimits: shim.rlimits.clone(),
            argv: shim.argv.clone(),
            env: shim.env.clone(),
        })?;
        self.status = Some(born.status);
        Ok((born.process, later))
    }

    /// Executes the shim as the first process; it waits for its key, as one of the zygote does.
    fn execute(&self, shim: &mut Shim, place: himalia_jail::Plan) -> Result<(ProcessId, File), SandboxError> {
        let log = self.log()?;
        let (key, later) = pipe().map_err(|error| self.io(error))?;
        let again = log.try_clone().map_err(|error| self.io(error))?;
        let mut argv = std::mem::take(&mut shim.argv);
        argv.extend(["--key-fd".to_owned(), KEY_FD.to_string()]);
        let plan = ExecPlan {
            place,
            cgroups: std::mem::take(&mut shim.cgroups),
            rlimits: std::mem::take(&mut shim.rlimits),
            program: Program {
                argv,
                env: std::mem::take(&mut shim.env),
                cwd: self.record.details.work_dir().into(),
                stdin: None,
                stdout: Some(LOG_FD),
                stderr: Some(LOG_FD),
                keep_fds: vec![KEY_FD],
            },
        };
        let fds = vec![(OwnedFd::from(again), LOG_FD), (key, KEY_FD)];
        let pid = self.inner.jail.exec(&plan, &self.record.mark, fds, log)?;
        // A process that ended at once and is not our child is not there any more: its number says so.
        let init = Process::read(pid).map_or(ProcessId { pid, start: 0 }, |process| process.id);
        Ok((init, later))
    }

    fn log(&self) -> Result<File, SandboxError> {
        open_log(&self.inner.layout.log(self.record.id))
    }

    fn io(&self, error: std::io::Error) -> SandboxError {
        SandboxError::io(&self.inner.layout.log(self.record.id), error)
    }

    /// Makes it a standby sandbox.
    pub(super) fn into_standby(mut self, key: File) -> Standby {
        self.done = true;
        Standby {
            record: self.record.clone(),
            status: self.status.take(),
            key,
        }
    }

    /// Returns true if a zygote started the sandbox.
    pub(super) fn is_by_zygote(&self) -> bool {
        self.record.details.zygote
    }

    /// Gives it over to the watch.
    pub(super) fn into_member(mut self) -> Option<Arc<Member>> {
        let init = self.record.shim?;
        self.done = true;
        Some(Arc::new(Member::new(
            self.record.clone(),
            init,
            self.status.take(),
        )))
    }
}

impl Drop for NewSandbox {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.inner.discard(&self.record);
    }
}

/// Gives a shim the key that it waits for; an error if it has ended. Not before the record names its process: if the gateway is killed
/// earlier, the shim ends by itself, and the next gateway may not be able to find it (an ordinary user cannot read its environment).
fn give_key(mut pipe: File, spec: &SandboxSpec) -> std::io::Result<()> {
    pipe.write_all(spec.key.expose().as_bytes())
}

/// Arguments and environment of the shim, for both kinds of start.
struct Shim {
    argv: Vec<String>,
    env: BTreeMap<String, String>,
    rlimits: Vec<Rlimit>,
    cgroups: Vec<PathBuf>,
}

/// The limits that groups enforce. A full tmpfs must be a full disk, never out of memory, so its size is added.
pub(super) fn wanted(limits: &Limits, memory: Memory) -> GroupLimits {
    GroupLimits {
        memory_bytes: limits
            .memory_bytes
            .map(|bytes| bytes.saturating_add(memory.sum())),
        pids: limits.pids,
        cpu_millis: limits.cpu_millis,
    }
}

/// Mechanisms that enforce the limits that are set.
pub(super) fn report(limits: &Limits, inner: &Inner, is_kept: bool) -> LimitReport {
    let can = inner.limits();
    let if_set = |is_set: bool, by: Enforcement| if is_set { by } else { Enforcement::None };
    LimitReport {
        memory: if_set(limits.memory_bytes.is_some(), can.memory),
        pids: if_set(limits.pids.is_some(), can.pids),
        cpu: if_set(limits.cpu_millis.is_some(), can.cpu),
        disk: if is_kept {
            if_set(limits.disk_bytes.is_some(), Enforcement::Watched)
        } else {
            Enforcement::Hard
        },
    }
}

fn argv(spec: &SandboxSpec, inner: &Inner, work_dir: &str) -> Vec<String> {
    let mut argv: Vec<String> = [
        inside::SHIM,
        "--gateway-dir",
        inside::GATEWAY_DIR,
        "--runtime-dir",
        inside::RUNTIME_DIR,
        "--spill-dir",
        work_dir,
    ]
    .map(str::to_owned)
    .into();
    let mut option = |name: &str, value: String| argv.extend([name.to_owned(), value]);
    if let Some(ttl) = spec.orphan_ttl {
        option("--orphan-ttl", ttl.as_secs().max(1).to_string());
    }
    let by_group = spec.limits.memory_bytes.is_some() && inner.config.cgroups.has_memory();
    if let Some(bytes) = inner.config.shim_memory_bytes.filter(|_| !by_group) {
        option("--memory-limit", bytes.to_string());
    }
    if spec.network == Network::Allow {
        argv.push("--network".to_owned());
    }
    argv
}

fn env(mark: &str) -> BTreeMap<String, String> {
    let plain = SHIM_ENV.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mark = (MARK_VARIABLE.to_owned(), mark.to_owned());
    plain.into_iter().chain([mark]).collect()
}

fn rlimits(limits: &Limits, inner: &Inner) -> Vec<Rlimit> {
    use rustix::process::Resource as Ours;
    // No process in its namespace may raise a limit that the gateway itself has.
    let limit = |resource, ours, value: u64| {
        let most = rustix::process::getrlimit(ours).maximum;
        let value = Some(most.map_or(value, |most| value.min(most)));
        Rlimit {
            resource,
            soft: value,
            hard: value,
        }
    };
    let open_files = limits.open_files.unwrap_or(OPEN_FILES);
    let mut rlimits = vec![
        limit(Resource::Core, Ours::Core, 0),
        limit(Resource::Nofile, Ours::Nofile, open_files),
    ];
    if let Some(pids) = limits.pids.filter(|_| !inner.config.cgroups.has_pids()) {
        rlimits.push(limit(Resource::Nproc, Ours::Nproc, u64::from(pids)));
    }
    rlimits
}
