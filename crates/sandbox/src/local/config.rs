//! Settings of the local provisioner.

use std::path::PathBuf;

/// Settings of a [`crate::LocalProvisioner`].
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// The directory for sockets: short, mode 0700, owned by this user. Made when it is missing.
    pub run_dir: PathBuf,
    /// The `himalia-shim` binary.
    pub shim: PathBuf,
    /// `PATH` of the shim. It is not given to kernels: their environment is part of their start command.
    pub path: String,
    /// `LANG` of the shim.
    pub lang: String,
    /// Directory for output that a shim cannot keep in memory, on a disk with room. Made when it is missing, mode 0700.
    /// Its files have no names, so nothing is left in it. `None`: the run directory, which is often in memory.
    pub spill_dir: Option<PathBuf>,
    /// Memory that a shim may have (`RLIMIT_DATA`), since a hostile kernel can make it allocate; `None` is no limit.
    /// A message of the largest size needs about a gibibyte.
    pub shim_memory_bytes: Option<u64>,
}

impl LocalConfig {
    /// The settings for this run directory and shim, with a plain `PATH`, UTF-8 and 1.5 GiB for a shim.
    pub fn new(run_dir: impl Into<PathBuf>, shim: impl Into<PathBuf>) -> Self {
        Self {
            run_dir: run_dir.into(),
            shim: shim.into(),
            path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            lang: "C.UTF-8".to_owned(),
            spill_dir: None,
            shim_memory_bytes: Some(3 << 29),
        }
    }
}
