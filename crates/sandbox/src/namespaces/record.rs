//! The fields that the record of a namespaces sandbox has in addition to those of every record.

use himalia_jail::HostIds;
use serde::{Deserialize, Serialize};

use super::cgroups::Groups;
use crate::{LimitReport, inside};

/// The record of a sandbox of namespaces. Its mark is also the name of its control groups.
pub(super) type Record = crate::host::record::Record<Details>;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Details {
    /// Ids on the host, if the gateway runs as root and assigned some.
    pub(super) host_ids: Option<HostIds>,
    /// Control groups of the sandbox.
    pub(super) groups: Groups,
    /// True if the work directory is at [`crate::inside::USER_HOME`].
    #[serde(default)]
    pub(super) in_user_home: bool,
    /// The name of its kept files.
    pub(super) files: Option<String>,
    /// True if the sandbox has a sleeping zygote.
    pub(super) zygote: bool,
    /// Mechanisms that enforce the limits.
    pub(super) limits: LimitReport,
    /// Memory that the watch holds it to, in bytes.
    pub(super) watched_memory: Option<u64>,
    /// Space for its kept files, in bytes.
    pub(super) watched_disk: Option<u64>,
}

impl Details {
    /// Path of the work directory.
    pub(super) fn work_dir(&self) -> &'static str {
        work_dir(self.in_user_home)
    }
}

/// Path of the work directory of a sandbox.
pub(super) fn work_dir(in_user_home: bool) -> &'static str {
    if in_user_home {
        inside::USER_HOME
    } else {
        inside::WORK_DIR
    }
}
