//! The identity provider: its files are read here.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use himalia_http::Oidc;
use himalia_oidc::{CookieKey, Provider, ProviderSettings};

use crate::config::OidcSettings;
use crate::{keys, private_file};

/// Random bytes of a key that is made here.
const KEY_BYTES: usize = 32;

/// Reads the files, and makes the key of cookies where no file is named. The provider is not asked yet.
pub(crate) fn open(settings: &OidcSettings, data_dir: &Path) -> anyhow::Result<Oidc> {
    let cookie_key = match &settings.cookie_key {
        Some(path) => secret("oidc.cookie_key_file", path)?,
        None => made(&data_dir.join("oidc-cookie-key"))?,
    };
    let cookie_key = CookieKey::new(cookie_key.as_bytes());
    let cookie_key = cookie_key.map_err(|reason| anyhow!("oidc.cookie_key_file: the key {reason}"))?;
    let client_secret = settings
        .client_secret
        .as_deref()
        .map(|path| secret("oidc.client_secret_file", path))
        .transpose()?;
    let ca = settings.ca.as_deref().map(fs::read).transpose();
    let provider = Provider::new(ProviderSettings {
        issuer: settings.issuer.clone(),
        client_id: settings.client_id.clone(),
        client_secret,
        redirect_url: settings.redirect_url.clone(),
        scopes: settings.scopes.clone(),
        algorithms: settings.algorithms.clone(),
        ca: ca.context("oidc.ca_file: cannot read it")?,
        cookie_key,
    });
    Ok(Oidc {
        provider: provider.map_err(|error| anyhow!("oidc.{error}"))?,
        name: settings.name.clone(),
        caller_claim: settings.caller_claim.clone(),
        grants_claim: settings.grants_claim.clone(),
        grants: settings.grants.clone(),
        lifetime: settings.lifetime,
    })
}

/// The first line of a file that not all users can read.
fn secret(field: &str, path: &Path) -> anyhow::Result<String> {
    let what = || format!("{field}: cannot read {}", path.display());
    let text = fs::read_to_string(path).with_context(what)?;
    keys::check_access(field, path, &fs::metadata(path).with_context(what)?)?;
    let line = text.lines().next().unwrap_or_default().trim();
    if line.is_empty() {
        bail!("{field}: {} is empty", path.display());
    }
    Ok(line.to_owned())
}

/// The key of an earlier start, or a new one.
fn made(path: &Path) -> anyhow::Result<String> {
    if path.exists() {
        return secret("oidc", path);
    }
    private_file::make(path, KEY_BYTES, "a key")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_made_key_is_private_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let first = made(&path).unwrap();
        assert_eq!((first.len(), made(&path).unwrap()), (2 * KEY_BYTES, first));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_secret_that_all_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "canary\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let said = secret("oidc.client_secret_file", &path).unwrap_err().to_string();
        assert!(
            said.starts_with("oidc.client_secret_file: every user") && !said.contains("canary"),
            "{said}"
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(secret("x", &path).unwrap(), "canary");
    }
}
