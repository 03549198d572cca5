//! Settings of the provisioner for sandboxes of namespaces.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::cgroups::CgroupRoot;
use crate::{DEFAULT_HOST_UIDS, host_uid_parts};

/// Settings of a [`crate::NamespacesProvisioner`].
#[derive(Clone, Debug)]
pub struct NamespacesConfig {
    /// The directory for sockets: short, mode 0700, owned by this user, used by no other provisioner. Made when it is
    /// missing.
    pub run_dir: PathBuf,
    /// The gateway's data directory. Kept files of sandboxes lie in `files` below it, a directory for each name.
    pub data_dir: PathBuf,
    /// Further directories that no sandbox may see. `run_dir` and `data_dir` are always among them.
    pub private_dirs: Vec<PathBuf>,
    /// The `himalia-shim` binary, linked statically.
    pub shim: PathBuf,
    /// The `himalia-jail` binary.
    pub jail: PathBuf,
    /// The directory that holds the Python package `himalia_kernel`.
    pub kernel_package_dir: PathBuf,
    /// As root: ranges of user and group ids on the host, of whose lower halves each sandbox gets one for itself. Nothing
    /// else may use them, other gateways included. An ordinary user's sandboxes run under the user's own id.
    pub host_uids: Vec<RangeInclusive<u32>>,
    /// Ranges that kept files from before may have ids of, and whose ids no sandbox gets anew.
    pub host_uids_of_files: Vec<RangeInclusive<u32>>,
    /// Control groups; [`CgroupRoot::detect`] finds them, the default has none.
    pub cgroups: CgroupRoot,
    /// Sizes of file systems in memory for specs that do not say.
    pub sizes: Sizes,
    /// True if the work directory is at [`crate::inside::USER_HOME`], in sandboxes where nothing else is there.
    pub in_user_home: bool,
    /// Memory that a shim may have (`RLIMIT_DATA`) in a sandbox whose memory no control group limits.
    pub shim_memory_bytes: Option<u64>,
}

/// Sizes of file systems in memory, in bytes. What they hold counts as memory of the host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sizes {
    /// The work directory of a sandbox without kept files.
    pub session_bytes: u64,
    /// `/tmp`.
    pub tmp_bytes: u64,
    /// `/dev/shm`.
    pub shm_bytes: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            session_bytes: 1 << 30,
            tmp_bytes: 256 << 20,
            shm_bytes: 256 << 20,
        }
    }
}

impl NamespacesConfig {
    /// The settings for these directories and binaries; no control groups, 1.5 GiB for a shim.
    pub fn new(
        run_dir: impl Into<PathBuf>,
        data_dir: impl Into<PathBuf>,
        shim: impl Into<PathBuf>,
        jail: impl Into<PathBuf>,
        kernel_package_dir: impl Into<PathBuf>,
    ) -> Self {
        Self {
            run_dir: run_dir.into(),
            data_dir: data_dir.into(),
            private_dirs: Vec::new(),
            shim: shim.into(),
            jail: jail.into(),
            kernel_package_dir: kernel_package_dir.into(),
            host_uids: host_uid_parts(&DEFAULT_HOST_UIDS),
            host_uids_of_files: Vec::new(),
            cgroups: CgroupRoot::default(),
            sizes: Sizes::default(),
            in_user_home: false,
            shim_memory_bytes: Some(3 << 29),
        }
    }
}
