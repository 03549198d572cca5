//! Sandboxes: where kernels run, and who starts and ends them.
//!
//! A *sandbox* is one `himalia-shim` with everything below it. A [`Provisioner`] makes sandboxes of one kind
//! from a typed [`SandboxSpec`] and is the authority on their existence: it lists them, also those that an
//! earlier gateway process started, and says how one ended. It knows nothing of kernels, sessions or HTTP, and
//! nothing in it depends on the isolation level, so that namespaces and containers are further
//! implementations of the same trait.
//!
//! There are [`LocalProvisioner`] at level [`Isolation::None`] (plain processes of the gateway's user),
//! [`NamespacesProvisioner`] at level [`Isolation::Namespaces`], and `DockerProvisioner` at [`Isolation::Container`]
//! and [`Isolation::Gvisor`], with the cargo feature `docker`. The one of pods is the crate `kubernetes`.

mod capabilities;
mod change;
#[cfg(feature = "docker")]
mod docker;
mod error;
mod handle;
mod host;
mod id;
pub mod inside;
mod level;
mod local;
mod mount;
mod namespaces;
mod provisioner;
mod spec;

pub use capabilities::{Capabilities, MeasuredBy, ProvisionerKind, RootFiles};
pub use change::{FixedLimit, LimitChange};
#[cfg(feature = "docker")]
pub use docker::{DockerConfig, DockerProvisioner, EngineReport, SECCOMP_PROFILE};
pub use error::SandboxError;
pub use handle::{DiskUse, ExitCause, LOG_TAIL_BYTES, SandboxExit, SandboxHandle, SandboxInfo, Usage};
pub use host::layout::{RUNTIME_NAME_BYTES, SOCKET_PATH_BYTES, remove_run_dir};
pub use host::uids::{DEFAULT_HOST_UIDS, LOW_HOST_UIDS, host_uid_parts};
pub use id::{SandboxId, SandboxKey};
pub use level::{Enforcement, Isolation, LimitReport};
pub use local::{LocalConfig, LocalProvisioner};
pub use mount::{
    FileOwner, MAX_MOUNTS, MountKind, MountSource, SharedMount, check_kinds, check_mounts, check_target,
    overlapping, shows_data,
};
pub use namespaces::{
    CgroupRoot, NamespacesConfig, NamespacesProvisioner, Sizes, TryOut, TryOutFailure, host_uids_in_use,
    try_out,
};
pub use provisioner::{BoxFuture, OrphanSandbox, Provisioner};
pub use spec::{Files, Limits, MAX_LABEL_BYTES, MAX_LABELS, Network, SandboxSpec, ZygoteSpec};
