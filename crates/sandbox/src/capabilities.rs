//! What a provisioner can do. Callers test these capabilities, never the name of a provisioner.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Isolation, MountKind, SandboxError};

/// Which implementation of [`crate::Provisioner`] this is: its name in configuration, records and messages. What it can
/// do is in [`Capabilities`].
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
    /// Every kind.
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
                reason: "is none of local, docker, kubernetes".to_owned(),
            })
    }
}

/// Where the files come from that a sandbox's processes see.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RootFiles {
    /// They are the host's, at their own places. The sandbox has no work directory of its own.
    Host,
    /// A root that is built from the host's files: those of [`crate::SandboxSpec::binds`] and the system's own.
    Built,
    /// The root of an image.
    Image,
}

/// What a provisioner can do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent capabilities")]
pub struct Capabilities {
    /// The level of a sandbox whose spec names no runtime; [`crate::Provisioner::isolation_of`] has that of one that does.
    pub isolation: Isolation,
    /// Where the files of its sandboxes come from.
    pub root: RootFiles,
    /// Whether a sandbox can be joined to a network ([`crate::Network::Open`]).
    pub networks: bool,
    /// Whether a sandbox can reach the network through the gateway ([`crate::Network::Allow`]).
    pub proxy: bool,
    /// Whether sandboxes can be forks of a zygote ([`crate::SandboxSpec::zygote`]).
    pub zygotes: bool,
    /// Whether files outlive their sandbox, under a name ([`crate::Files::Session`]) or because they are the host's.
    pub kept_files: bool,
    /// What can be mounted into a sandbox ([`crate::SandboxSpec::mounts`]).
    pub mounts: &'static [MountKind],
    /// What measures the use of memory and processors.
    pub measured_by: MeasuredBy,
    /// How long after a process was killed for memory [`crate::Provisioner::oom_kills`] may still be without it, at most.
    pub oom_report_delay: Duration,
}

/// What measures the use of memory and processors by sandboxes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MeasuredBy {
    /// The provisioner, from outside ([`crate::Provisioner::inspect`], [`crate::Provisioner::memory`]).
    Provisioner,
    /// The shim of each sandbox, which reports it.
    Shim,
}

impl Capabilities {
    /// Whether specs may name an image and a runtime ([`crate::SandboxSpec::image`], [`crate::SandboxSpec::runtime`]).
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
