//! Isolation levels, and how each limit is enforced.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SandboxError;

/// Isolation levels, weakest first; they compare in this order.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// A plain process of the gateway's user. For development.
    #[default]
    None,
    /// Linux namespaces, seccomp and a built root. Not for tenants that are hostile to each other.
    Namespaces,
    /// A hardened container.
    Container,
    /// A container under gVisor.
    Gvisor,
    /// A virtual machine of its own.
    Microvm,
}

impl Isolation {
    /// Every level, weakest first.
    pub const ALL: [Self; 5] = [
        Self::None,
        Self::Namespaces,
        Self::Container,
        Self::Gvisor,
        Self::Microvm,
    ];

    /// The spelling in configuration, API and store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Namespaces => "namespaces",
            Self::Container => "container",
            Self::Gvisor => "gvisor",
            Self::Microvm => "microvm",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Isolation {
    type Err = SandboxError;

    fn from_str(text: &str) -> Result<Self, SandboxError> {
        Self::ALL
            .into_iter()
            .find(|level| level.as_str() == text)
            .ok_or_else(|| SandboxError::BadSpec {
                field: "isolation",
                reason: "must be one of none, namespaces, container, gvisor, microvm".to_owned(),
            })
    }
}

/// Mechanism that enforces a limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Enforcement {
    /// The limit is not enforced.
    #[default]
    None,
    /// It is measured now and then, and what exceeds it is ended.
    Watched,
    /// A resource limit of each process.
    Rlimit,
    /// The kernel, for the sandbox as a whole.
    Cgroup,
    /// A file system that is full.
    Hard,
}

/// Mechanism that enforces each limit of a sandbox. Reported next to the level, because the two are independent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct LimitReport {
    pub memory: Enforcement,
    /// Number of processes.
    pub pids: Enforcement,
    /// Processor time.
    pub cpu: Enforcement,
    /// Disk space.
    pub disk: Enforcement,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_spelled_in_one_way() {
        assert!(Isolation::ALL.is_sorted());
        for level in Isolation::ALL {
            assert_eq!(level.as_str().parse::<Isolation>().unwrap(), level);
            assert_eq!(serde_json::to_string(&level).unwrap(), format!("\"{level}\""));
        }
        assert!("docker".parse::<Isolation>().is_err());
    }
}
