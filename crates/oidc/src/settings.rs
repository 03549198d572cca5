//! Settings of the provider.

use std::fmt;

use himalia_oauth::is_safe;
use reqwest::{Certificate, Url};
use thiserror::Error;

use crate::{Algorithm, CookieKey};

/// Settings of the provider, and of this gateway as its client.
#[derive(Clone)]
pub struct ProviderSettings {
    /// The issuer, as its metadata and its tokens name it.
    pub issuer: String,
    /// The id of this gateway with the provider.
    pub client_id: String,
    /// Client secret. `None`: a public client, which only PKCE protects.
    pub client_secret: Option<String>,
    /// The address that the provider sends browsers back to.
    pub redirect_url: String,
    /// Scopes beside `openid`.
    pub scopes: Vec<String>,
    /// Signatures that are accepted.
    pub algorithms: Vec<Algorithm>,
    /// CAs (PEM) in place of the system's.
    pub ca: Option<Vec<u8>>,
    /// Key for the cookies of sign-ins in progress. Replicas share it.
    pub cookie_key: CookieKey,
}

impl fmt::Debug for ProviderSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderSettings")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{field}: {reason}")]
pub struct SettingsError {
    /// The field of [`ProviderSettings`].
    pub field: &'static str,
    /// One line.
    pub reason: String,
}

impl SettingsError {
    pub(crate) fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self {
            field,
            reason: reason.into(),
        }
    }
}

/// An `https` address, or an `http` one of this machine, without user, query and fragment.
pub(crate) fn address(field: &'static str, text: &str) -> Result<Url, SettingsError> {
    let bad = |reason: &str| Err(SettingsError::new(field, format!("{text:?} {reason}")));
    let Ok(url) = Url::parse(text) else {
        return bad("must be an address such as https://login.example.org");
    };
    if !is_safe(&url) {
        return bad(
            "is not https://; http:// is for addresses of this machine, such as http://127.0.0.1:8080",
        );
    }
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return bad("has a user, a query or a fragment");
    }
    Ok(url)
}

/// The CAs of a bundle.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<Certificate>, SettingsError> {
    let found = Certificate::from_pem_bundle(pem)
        .map_err(|error| SettingsError::new("ca", format!("cannot be read as PEM: {error}")))?;
    if found.is_empty() {
        return Err(SettingsError::new("ca", "there is no certificate (PEM) in it"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_machine() {
        for good in [
            "https://id.example/realms/x",
            "http://127.0.0.1:1/",
            "http://[::1]:1",
            "http://localhost",
        ] {
            assert!(address("issuer", good).is_ok(), "{good}");
        }
        for bad in [
            "http://id.example",
            "http://127.0.0.1.evil.example",
            "ftp://127.0.0.1",
            "id.example",
            "https://u:p@id.example",
            "https://id.example/?x",
            "https://id.example/#x",
        ] {
            assert_eq!(address("issuer", bad).unwrap_err().field, "issuer", "{bad}");
        }
    }
}
