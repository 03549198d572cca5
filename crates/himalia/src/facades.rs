//! The APIs of other services that the gateway serves.

use std::sync::Arc;

use himalia_engine::{Engine, Principal};
use himalia_http::{E2b, MountedService, SandboxTokens, e2b_sandbox_of_key};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::keys;

/// The facade for E2B's clients; `None` unless the configuration has it.
pub(crate) fn e2b(
    config: &Config,
    engine: &Engine,
    shutdown: &CancellationToken,
) -> anyhow::Result<Option<E2b>> {
    if !config.facades.e2b {
        return Ok(None);
    }
    let secret = keys::secret(config, "e2b-secret", "the secret of E2B's sandboxes")?;
    let tokens = SandboxTokens::new(secret.as_bytes());
    let issuing = tokens.clone();
    let issue = move |principal: &Principal, sandbox: &str| issuing.issue(principal, sandbox);
    let service = himalia_e2b::service(
        engine.clone(),
        Arc::new(issue),
        e2b_sandbox_of_key,
        shutdown.clone(),
    );
    Ok(Some(E2b {
        service: MountedService::new(service),
        tokens,
    }))
}

/// The facade of Azure's dynamic sessions; `None` unless the configuration has it.
#[expect(clippy::unnecessary_wraps, reason = "without the feature there are errors")]
pub(crate) fn azure(config: &Config, engine: &Engine) -> anyhow::Result<Option<MountedService>> {
    let service = || himalia_azure::service(engine.clone(), himalia_http::azure_session_name);
    Ok(config
        .facades
        .azure_sessions
        .then(|| MountedService::new(service())))
}

/// The facade of `OpenAI`'s containers; `None` unless the configuration has it.
#[expect(clippy::unnecessary_wraps, reason = "without the feature there are errors")]
pub(crate) fn openai(config: &Config, engine: &Engine) -> anyhow::Result<Option<MountedService>> {
    let service = || himalia_openai::service(engine.clone());
    Ok(config
        .facades
        .openai_containers
        .then(|| MountedService::new(service())))
}
