//! The APIs of other services, in a build without them.

use anyhow::bail;
use himalia_engine::Engine;
use himalia_http::{E2b, MountedService};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use himalia_cli::features;

pub(crate) fn e2b(
    config: &Config,
    _engine: &Engine,
    _shutdown: &CancellationToken,
) -> anyhow::Result<Option<E2b>> {
    refuse("e2b", config.facades.e2b)
}

pub(crate) fn azure(config: &Config, _engine: &Engine) -> anyhow::Result<Option<MountedService>> {
    refuse("azure_sessions", config.facades.azure_sessions)
}

pub(crate) fn openai(config: &Config, _engine: &Engine) -> anyhow::Result<Option<MountedService>> {
    refuse("openai_containers", config.facades.openai_containers)
}

fn refuse<T>(setting: &str, is_set: bool) -> anyhow::Result<Option<T>> {
    if is_set {
        bail!("{setting}: {}", features::missing("facades"));
    }
    Ok(None)
}
