//! The facade for E2B's clients, and the secret behind the tokens of its sandboxes.

use std::fs;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use himalia_engine::{Engine, Principal};
use himalia_http::{E2b, Mounted, SandboxTokens, e2b_sandbox_of_key};
use tokio_util::sync::CancellationToken;

use crate::cli::GatewayArgs;
use crate::client::find_gateway;
use crate::config::Config;
use crate::keys::shared_key;
use crate::private_file;

/// Random bytes of a secret that is made here.
const SECRET_BYTES: usize = 32;
/// Its file in the data directory.
const FILE: &str = "e2b-secret";

/// The facade; `None` if it is not wanted.
pub(crate) fn open(
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

/// Of replicas that relay to each other, the key that they share, since a token of one is shown to another; else the secret of an
/// earlier start, or a new one.
fn secret(config: &Config) -> anyhow::Result<String> {
    if let Some(relay) = &config.replica.relay {
        return shared_key("--replica-key", &relay.key);
    }
    let path = config.data_dir.join(FILE);
    if path.exists() {
        return fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()));
    }
    private_file::make(&path, SECRET_BYTES, "the secret of E2B's sandboxes")
}

/// Prints what points E2B's clients at a gateway, for a shell to evaluate.
pub(crate) fn print_variables(args: &GatewayArgs) -> anyhow::Result<ExitCode> {
    let target = find_gateway(args)?;
    let url = format!("{}/e2b", target.url.trim_end_matches('/'));
    let variables = [
        ("E2B_API_KEY", target.token.0.as_str()),
        ("E2B_API_URL", &url),
        ("E2B_SANDBOX_URL", &url),
    ];
    let mut out = std::io::stdout().lock();
    if args.json {
        let object: serde_json::Map<_, _> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).into()))
            .collect();
        writeln!(out, "{}", serde_json::Value::from(object))?;
    } else {
        for (name, value) in variables {
            writeln!(out, "export {name}={}", quoted(value))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_shell_is_one_word() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
