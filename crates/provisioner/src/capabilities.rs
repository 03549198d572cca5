//! Capabilities of provisioners. Callers test these capabilities, never the name of a provisioner.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Isolation, MountKind, SandboxError};

/// Implementation of [`crate::Provisioner`], by its name in configuration, records and messages. [`Capabilities`] lists its features.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProvisionerKind {
    /// Processes of this host.
    Local,
    /// Containers of a Docker engine.
    Docker,
    /// Pods of a Kubernetes cluster.
    Kubernetes,
}

impl ProvisionerKind {
    pub const ALL: [Self; 3] = [Self::Local, Self::Docker, Self::Kubernetes];

    /// The spelling in configuration, records and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Docker => "docker",
            Self::Kubernetes => "kubernetes",
        }
    }
}

impl fmt::Display for ProvisionerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ProvisionerKind {
    type Err = SandboxError;

    fn from_str(text: &str) -> Result<Self, SandboxError> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.as_str() == text)
            .ok_or_else(|| SandboxError::BadSpec {
                field: "provisioner",
                reason: "must be one of local, docker, kubernetes".to_owned(),
            })
    }
}

/// Source of the files that a sandbox's processes see.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RootFiles {
    /// The files of the host, at their own paths. The sandbox has no work directory of its own.
    Host,
    /// A root that is built from the host's files: those of [`crate::SandboxSpec::binds`] and the system's own.
    Built,
    Image,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent capabilities")]
pub struct Capabilities {
    /// The level of a sandbox whose spec names no runtime; [`crate::Provisioner::isolation_of`] has that of one that does.
    pub isolation: Isolation,
    /// Source of the files of its sandboxes.
    pub root: RootFiles,
    /// True if a sandbox can be joined to a network ([`crate::Network::Open`]).
    pub networks: bool,
    /// True if a sandbox can reach the network through the gateway ([`crate::Network::Allow`]).
    pub proxy: bool,
    /// True if sandboxes can be forks of a zygote ([`crate::SandboxSpec::zygote`]).
    pub zygotes: bool,
    /// True if files can outlive their sandbox: under a name ([`crate::Files::Session`]), or because they are the host's.
    pub kept_files: bool,
    /// Kinds of mounts that a sandbox can have ([`crate::SandboxSpec::mounts`]).
    pub mounts: &'static [MountKind],
    /// Source of measurements of memory and processor time.
    pub measured_by: MeasuredBy,
    /// Upper bound of the delay after which [`crate::Provisioner::oom_kills`] includes an out-of-memory kill.
    pub oom_report_delay: Duration,
}

/// Source of measurements of a sandbox's memory and processor time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MeasuredBy {
    /// The provisioner, from outside ([`crate::Provisioner::inspect`], [`crate::Provisioner::memory`]).
    Provisioner,
    /// The shim of each sandbox, which reports it.
    Shim,
}

impl Capabilities {
    /// Returns true if specs may name an image and a runtime ([`crate::SandboxSpec::image`], [`crate::SandboxSpec::runtime`]).
    pub fn images(&self) -> bool {
        self.root == RootFiles::Image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_spelled_in_one_way() {
        for kind in ProvisionerKind::ALL {
            assert_eq!(kind.as_str().parse::<ProvisionerKind>().unwrap(), kind);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
        assert!("Docker".parse::<ProvisionerKind>().is_err());
    }
}
