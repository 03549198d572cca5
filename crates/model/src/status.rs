//! Pools and provisioners as status pages show them.

use himalia_provisioner::{Isolation, LimitReport};

/// A pool, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    /// The template.
    pub template: String,
    /// Kernels that can be claimed.
    pub ready: u32,
    /// Kernels that are being started.
    pub starting: u32,
    /// Current target number of kernels, between `size` and `max`; it follows the rate of claims.
    pub target: u32,
    /// `pool.size` of the template.
    pub size: u32,
    /// `pool.max` of the template.
    pub max: u32,
    /// Claims that were served.
    pub hits: u64,
    /// Claims that found none ready.
    pub misses: u64,
    /// Starts that failed.
    pub failures: u64,
    /// Error of the latest start; `None` after a success.
    pub problem: Option<String>,
}

/// A provisioner, for `doctor` and status pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvisionerInfo {
    /// `local`, `docker`.
    pub kind: String,
    /// The level of its sandboxes, of those with the default runtime.
    pub isolation: Isolation,
    /// Mechanisms that enforce the limits.
    pub enforcement: LimitReport,
}
