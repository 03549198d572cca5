//! The provisioner of pods, in a build without it.

use super::SandboxSetup;
use crate::config::{Config, Kubernetes};

#[expect(clippy::unused_async, reason = "as with the feature")]
pub(super) async fn choose(_config: &Config, settings: &Kubernetes) -> anyhow::Result<SandboxSetup> {
    match *settings {}
}
