//! The trait that all kinds of sandboxes implement.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::{
    Capabilities, DiskUse, FixedLimit, Isolation, LimitChange, LimitReport, ProvisionerKind, SandboxError,
    SandboxExit, SandboxHandle, SandboxId, SandboxInfo, SandboxSpec, SharedMount, Usage, ZygoteSpec, mount,
};

/// A boxed future, so that the trait can be used as an object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A sandbox that this process does not know.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OrphanSandbox {
    pub id: SandboxId,
    /// The replica of the gateway that made it; `None` if that was alone.
    pub maker: Option<String>,
}

/// Makes sandboxes of one kind, and is the authority on which exist.
///
/// Every method needs a tokio runtime. A call whose future is dropped leaves no half-made sandbox: what it began is
/// finished or undone without it.
pub trait Provisioner: Debug + Send + Sync + 'static {
    /// Kind of the provisioner, for configuration, records and messages. [`Self::capabilities`] lists its features.
    fn kind(&self) -> ProvisionerKind;

    /// Capabilities of the provisioner; constant during its lifetime.
    fn capabilities(&self) -> Capabilities;

    /// The level that a sandbox of this spec would have, for provisioners that give more than one.
    ///
    /// # Errors
    /// [`SandboxError::BadSpec`] when the spec names something that this provisioner does not have.
    fn isolation_of(&self, spec: &SandboxSpec) -> Result<Isolation, SandboxError> {
        let _ = spec;
        Ok(self.capabilities().isolation)
    }

    /// Mechanisms that enforce the limits of its sandboxes.
    fn limits(&self) -> LimitReport;

    /// Starts a sandbox. On return its shim runs and waits for the gateway at [`SandboxHandle::endpoint`].
    ///
    /// # Errors
    /// A failed start leaves no process, file or directory; files that are kept under a name may be there already,
    /// empty, and are removed by [`Self::remove_files`]. A shim that starts and then ends at once is not a failed
    /// start: [`SandboxHandle::exit`] tells, and everything is removed by then too.
    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>>;

    /// Checks mounts of the configuration before a start names them: that what they are made of is there and can be mounted. A
    /// subdirectory with a placeholder is left out here. Makes nothing.
    ///
    /// # Errors
    /// [`SandboxError::BadSpec`] for `mounts`, with the name of the mount and what is wrong.
    fn check_mounts(&self, mounts: Vec<SharedMount>) -> BoxFuture<'_, Result<(), SandboxError>> {
        let checked = mount::check_kinds(&mounts, self.capabilities().mounts);
        Box::pin(async move { checked })
    }

    /// Gets the zygote of this spec ready, where the provisioner has any; without it the first sandboxes start cold.
    ///
    /// # Errors
    /// [`SandboxError::Zygote`] with the reason; it is tried again later by itself.
    fn warm(&self, zygote: &ZygoteSpec) -> BoxFuture<'_, Result<(), SandboxError>> {
        let _ = zygote;
        Box::pin(async { Ok(()) })
    }

    /// Takes over a sandbox that an earlier gateway process started.
    ///
    /// # Errors
    /// [`SandboxError::NotFound`] when it has ended; what it left is then removed.
    fn adopt(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>>;

    /// The first limit of a change that a living sandbox of this provisioner cannot be given; `None`:
    /// [`Self::change_limits`] can be tried.
    fn fixed_limit(&self, change: &LimitChange) -> Option<FixedLimit> {
        change.first_fixed(|_| Some("is set when a sandbox starts"))
    }

    /// Gives a living sandbox other limits, which hold on return. Tells who enforces them.
    ///
    /// # Errors
    /// When a limit cannot be changed, or the sandbox uses more already. A part of the change may hold then, so that
    /// the sandbox is to be ended.
    fn change_limits(
        &self,
        id: SandboxId,
        change: LimitChange,
    ) -> BoxFuture<'_, Result<LimitReport, SandboxError>> {
        let _ = id;
        let fixed = self.fixed_limit(&change);
        let limits = self.limits();
        Box::pin(async move { fixed.map_or(Ok(limits), |fixed| Err(fixed.into_error())) })
    }

    /// Ends a sandbox: asks its shim, and after `grace` (zero: at once) kills every process in it. Returns when they
    /// are gone and its files are removed. Concurrent calls all wait for the same end; one with a
    /// shorter grace wins.
    ///
    /// # Errors
    /// [`SandboxError::NotFound`] when there is none; [`SandboxError::Unkillable`].
    fn stop(&self, id: SandboxId, grace: Duration) -> BoxFuture<'_, Result<SandboxExit, SandboxError>>;

    /// Every sandbox of this provisioner on this host, those of earlier gateway processes included.
    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>, SandboxError>>;

    /// One sandbox, with its resource use.
    fn inspect(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxInfo, SandboxError>>;

    /// The memory in use by each of these sandboxes, in bytes, measured for all of them at once; those that are gone or
    /// cannot be measured are left out. Cheaper than [`Self::inspect`] of each, for lists. Empty for a provisioner that
    /// does not measure.
    fn memory(&self, ids: Vec<SandboxId>) -> BoxFuture<'_, Result<HashMap<SandboxId, u64>, SandboxError>> {
        let _ = ids;
        Box::pin(async { Ok(HashMap::new()) })
    }

    /// The resource use of each of these sandboxes, measured for all of them at once where that is cheaper than [`Self::inspect`] of
    /// each; those that are gone or cannot be measured are left out.
    fn usage(&self, ids: Vec<SandboxId>) -> BoxFuture<'_, Result<HashMap<SandboxId, Usage>, SandboxError>> {
        Box::pin(async move {
            let mut all = HashMap::new();
            for id in ids {
                if let Ok(info) = self.inspect(id).await
                    && let Some(usage) = info.usage
                {
                    all.insert(id, usage);
                }
            }
            Ok(all)
        })
    }

    /// Tells of a process that the shim says it started, so that it can be killed when the shim dies. The shim may
    /// lie: a process that is not below the shim is ignored (`false`). Needless for
    /// sandboxes that can be killed as a whole.
    fn note_process(&self, id: SandboxId, pid: u32) -> BoxFuture<'_, Result<bool, SandboxError>>;

    /// Number of out-of-memory kills in the sandbox since it started, as the operating system kernel, the engine or the memory watch
    /// counted them, never as the shim reports. 0 for a provisioner that does not count.
    fn oom_kills(&self, id: SandboxId) -> BoxFuture<'_, Result<u64, SandboxError>> {
        let _ = id;
        Box::pin(async { Ok(0) })
    }

    /// The space that the files of the sandbox take, where it is watched ([`crate::Enforcement::Watched`]): measured
    /// now. `None` where the file system itself is the limit, or there is none.
    fn disk_use(&self, id: SandboxId) -> BoxFuture<'_, Result<Option<DiskUse>, SandboxError>> {
        let _ = id;
        Box::pin(async { Ok(None) })
    }

    /// Removes the files that are kept under a name ([`crate::Files::Session`]); nothing happens when there are none.
    ///
    /// # Errors
    /// When a sandbox still uses them.
    fn remove_files<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        let _ = name;
        Box::pin(async { Ok(()) })
    }

    /// The names under which files are kept, used by a sandbox or not.
    fn kept_files(&self) -> BoxFuture<'_, Result<Vec<String>, SandboxError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Ends and removes every sandbox that earlier gateway processes left, except `keep`; those of this process
    /// stay too. Gives back what was removed. One that cannot be removed is logged and does not stop the others.
    fn sweep(&self, keep: Vec<SandboxId>) -> BoxFuture<'_, Result<Vec<SandboxId>, SandboxError>>;

    /// All sandboxes in the place where replicas of this gateway make theirs, but those that this process knows. `None` where
    /// the place is this gateway's own: [`Self::sweep`] is for those, and this with [`Self::remove_strays`] for shared ones.
    fn strays(&self) -> BoxFuture<'_, Result<Option<Vec<OrphanSandbox>>, SandboxError>> {
        Box::pin(async { Ok(None) })
    }

    /// Ends and removes these strays. One that cannot be removed is logged and does not stop the others; gives back how many
    /// were removed.
    fn remove_strays(&self, ids: Vec<SandboxId>) -> BoxFuture<'_, usize> {
        let _ = ids;
        Box::pin(async { 0 })
    }

    /// Returns the sandboxes of the list on a machine that is being drained, or which others are ending: callers must not start anything in
    /// them. Empty for a provisioner with one machine.
    fn leaving(&self, ids: Vec<SandboxId>) -> BoxFuture<'_, Result<Vec<SandboxId>, SandboxError>> {
        let _ = ids;
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Ends what was created in advance and is not in use; nothing more is created in advance.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
