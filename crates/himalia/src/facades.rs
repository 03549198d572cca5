//! The APIs of other services that the gateway serves, and the secret behind the tokens of E2B's sandboxes.

use std::fs;
use std::sync::Arc;

use anyhow::Context as _;
use himalia_engine::{Engine, Principal};
use himalia_http::{E2b, Mounted, SandboxTokens, e2b_sandbox_of_key};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::keys::shared_key;
use crate::private_file;

/// Random bytes of the secret of E2B's tokens.
const SECRET_BYTES: usize = 32;
/// The file of the secret in the data directory.
const SECRET_FILE: &str = "e2b-secret";

/// The facade for E2B's clients; `None` unless the configuration has it.
pub(crate) fn e2b(
    config: &Config,
    engine: &Engine,
    shutdown: &CancellationToken,
) -> anyhow::Result<Option<E2b>> {
    if !config.facades.e2b {
        return Ok(None);
    }
    let tokens = SandboxTokens::new(secret(config)?.as_bytes());
    let issuing = tokens.clone();
    let issue = move |principal: &Principal, sandbox: &str| issuing.issue(principal, sandbox);
    let service = himalia_e2b::service(
        engine.clone(),
        Arc::new(issue),
        e2b_sandbox_of_key,
        shutdown.clone(),
    );
    Ok(Some(E2b {
        service: Mounted::new(service),
        tokens,
    }))
}

/// Secret of the tokens. Replicas that relay to each other use their shared key, since one may get a token of another; other gateways use
/// the secret of an earlier start or create one.
fn secret(config: &Config) -> anyhow::Result<String> {
    if let Some(relay) = &config.replica.relay {
        return shared_key("--replica-key", &relay.key);
    }
    let path = config.data_dir.join(SECRET_FILE);
    if path.exists() {
        return fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()));
    }
    private_file::make(&path, SECRET_BYTES, "the secret of E2B's sandboxes")
}

/// The facade of Azure's dynamic sessions; `None` unless the configuration has it.
#[expect(clippy::unnecessary_wraps, reason = "without the feature there are errors")]
pub(crate) fn azure(config: &Config, engine: &Engine) -> anyhow::Result<Option<Mounted>> {
    let service = || himalia_azure::service(engine.clone(), himalia_http::azure_session_name);
    Ok(config.facades.azure_sessions.then(|| Mounted::new(service())))
}

/// The facade of `OpenAI`'s containers; `None` unless the configuration has it.
#[expect(clippy::unnecessary_wraps, reason = "without the feature there are errors")]
pub(crate) fn openai(config: &Config, engine: &Engine) -> anyhow::Result<Option<Mounted>> {
    let service = || himalia_openai::service(engine.clone());
    Ok(config.facades.openai_containers.then(|| Mounted::new(service())))
}
