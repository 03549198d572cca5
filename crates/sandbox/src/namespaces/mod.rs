//! Sandboxes of Linux namespaces on this host: level [`Isolation::Namespaces`](crate::Isolation::Namespaces).
//!
//! The binary `himalia-jail` makes them. This module says what each is made of, starts the shim in it or has a zygote's
//! child become it, counts its resources and watches its first process, with which the kernel ends all others.
//! After a start by a zygote, a standby sandbox is created for the next start with the same limits and paths.
//!
//! # Files
//! In the run directory, under the sandbox's secret name:
//!
//! | path | mode | what |
//! |---|---|---|
//! | `<id>/` | 0711 | the gateway listens here; inside `/himalia/gw`, read-only |
//! | `<id>.log` | 0600 | what the shim prints, emptied when it is over 256 KiB |
//! | `<id>.json` | 0600 | the record by which a later gateway process finds the sandbox again |
//! | `zygotes.log` | 0600 | what zygotes print |
//! | `zygotes/<random>/` | 0700 | the home directory of one zygote while it loads its modules, empty when it starts |
//!
//! Kept files lie in `<data directory>/files/<name>/`, mode 0700, owned by the user id of the sandboxes that use them:
//! as root each name has its own id from [`NamespacesConfig::host_uids`] for as long as the files exist.
//!
//! # Limits
//! Memory, processes and processor time are limited by control groups where this process may make them
//! ([`CgroupRoot::detect`]). Elsewhere memory is watched: measured each second, and ten times a second above half of
//! the limit; over it the biggest process of the sandbox is killed. A process that takes memory faster than that can
//! exceed the limit for up to a second. Processes are then limited by `RLIMIT_NPROC`, which counts each sandbox by
//! itself. Work directory, `/tmp` and `/dev/shm` are file systems in memory with a fixed size; kept files are measured
//! when [`Provisioner::disk_use`](crate::Provisioner::disk_use) is called.
//!
//! A living sandbox can be given other limits, except open files, a first limit of memory, and processes where
//! `RLIMIT_NPROC` limits them: those are set before its first process starts. Its file systems in memory are given
//! their new sizes by `himalia-jail resize`.
//!
//! # What this level does not give
//! All sandboxes share the host's kernel, and a hole in it is a way out. An ordinary user's sandboxes run under the
//! user's own id on the host.

mod binds;
mod cgroups;
mod change;
mod config;
mod ending;
mod files;
mod inner;
mod jail;
mod member;
mod memory;
mod provisioner;
mod record;
mod root;
mod shared;
mod standby;
mod start;
mod sweep;
mod try_out;
mod uids;
mod usage;
mod watch;
mod zygote;

pub use cgroups::CgroupRoot;
pub use config::{NamespacesConfig, Sizes};
pub use inner::host_uids_in_use;
pub use provisioner::NamespacesProvisioner;
pub use try_out::{TryOut, TryOutFailure, try_out};
