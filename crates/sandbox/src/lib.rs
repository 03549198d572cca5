//! Provisioners of sandboxes on this host, and in the containers of an engine.
//!
//! There are [`LocalProvisioner`] at level [`Isolation::None`] (plain processes of the gateway's user),
//! [`NamespacesProvisioner`] at level [`Isolation::Namespaces`], and `DockerProvisioner` at [`Isolation::Container`]
//! and [`Isolation::Gvisor`], with the cargo feature `docker`. The one of pods is the crate `kubernetes`.

#[cfg(feature = "docker")]
mod docker;
mod host;
mod local;
mod namespaces;

use himalia_provisioner::{
    BoxFuture, Capabilities, ChangedLimit, DiskUse, Enforcement, ExitCause, FileOwner, Files, FixedLimit,
    Isolation, LOG_TAIL_BYTES, LimitChange, LimitReport, Limits, MeasuredBy, MountKind, MountSource, Network,
    Provisioner, ProvisionerKind, RootFiles, SandboxError, SandboxExit, SandboxHandle, SandboxId,
    SandboxInfo, SandboxKey, SandboxSpec, SharedMount, Usage, ZygoteSpec, check_kinds, check_mounts, inside,
    shows_data,
};

#[cfg(feature = "docker")]
pub use docker::{DockerConfig, DockerProvisioner, EngineReport, SECCOMP_PROFILE};
pub use host::layout::{RUNTIME_NAME_BYTES, SOCKET_PATH_BYTES, remove_run_dir};
pub use host::uids::{DEFAULT_HOST_UIDS, LOW_HOST_UIDS, host_uid_parts};
pub use local::{LocalConfig, LocalProvisioner};
pub use namespaces::{
    CgroupRoot, NamespacesConfig, NamespacesProvisioner, Sizes, TryOut, TryOutFailure, host_uids_in_use,
    try_out,
};
