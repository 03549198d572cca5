//! The interface of provisioners.
//!
//! A *sandbox* is one `himalia-shim` with everything below it. A [`Provisioner`] makes sandboxes of one kind
//! from a typed [`SandboxSpec`] and is the authority on their existence: it lists them, also those that an
//! earlier gateway process started, and says how one ended. It knows nothing of kernels, sessions or HTTP, and
//! nothing in it depends on the isolation level. The crate `sandbox` has processes, namespaces and containers,
//! the crate `kubernetes` has pods.

mod capabilities;
mod change;
mod error;
mod handle;
mod id;
pub mod inside;
mod level;
mod mount;
mod provisioner;
mod spec;

pub use capabilities::{Capabilities, MeasuredBy, ProvisionerKind, RootFiles};
pub use change::{ChangedLimit, FixedLimit, LimitChange};
pub use error::SandboxError;
pub use handle::{DiskUse, ExitCause, LOG_TAIL_BYTES, SandboxExit, SandboxHandle, SandboxInfo, Usage};
pub use id::{SandboxId, SandboxKey};
pub use level::{Enforcement, Isolation, LimitReport};
pub use mount::{
    FileOwner, MAX_MOUNTS, MountKind, MountSource, SharedMount, check_kinds, check_mounts, check_target,
    overlapping, shows_data,
};
pub use provisioner::{BoxFuture, OrphanSandbox, Provisioner};
pub use spec::{Files, Limits, MAX_LABEL_BYTES, MAX_LABELS, Network, SandboxSpec, ZygoteSpec};
