//! Credentials of the configuration, and the keys of those in the store.

use std::fmt;
use std::path::PathBuf;

use super::CredentialDefinition;

/// Credentials that the operator has configured.
#[derive(Clone, Debug, Default)]
pub struct CredentialSettings {
    /// The keys that values in the store are sealed with; `None`: none can be stored.
    pub keys: Option<CredentialKeys>,
    /// Credentials whose values are elsewhere.
    pub configured: Vec<ConfiguredCredential>,
}

/// Keys, one on a line, as 64 hexadecimal digits. The first one seals. No debug text has them.
#[derive(Clone)]
pub struct CredentialKeys(pub String);

impl fmt::Debug for CredentialKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialKeys(…)")
    }
}

/// A credential of the configuration. It is changed there alone, its value where that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredCredential {
    /// Name, unique for its owner.
    pub name: String,
    /// A tenant, or `operator`.
    pub owner: String,
    /// Kind and hosts, without the secret.
    pub definition: CredentialDefinition,
    /// Source of the secret; `None`: the kind needs no secret.
    pub value: Option<ValueSource>,
    /// Source of the client secret; only for `oauth2`.
    pub client_secret: Option<ValueSource>,
    /// Source of the session token; only for `aws_sigv4`.
    pub session_token: Option<ValueSource>,
}

/// Source of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// In a file, which is read for each request. A line end at its end does not count.
    File(PathBuf),
    /// In a variable of the gateway's environment.
    Variable(String),
}
