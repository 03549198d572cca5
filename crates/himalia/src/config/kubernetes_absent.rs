//! Settings of a cluster, in a build without it.

use super::ConfigError;
use super::sandboxes::Docker;
use crate::settings::KubernetesTable;
use himalia_cli::features;

#[derive(Clone, Debug)]
pub(crate) enum Kubernetes {}

impl Kubernetes {
    pub(super) fn check(_table: KubernetesTable) -> Result<Self, ConfigError> {
        Err(ConfigError::new("kubernetes", features::missing("kubernetes")))
    }

    pub(super) fn check_shared(&self, _shares: bool) -> Result<(), ConfigError> {
        match *self {}
    }

    pub(super) fn offer(&self) -> Docker {
        match *self {}
    }
}
