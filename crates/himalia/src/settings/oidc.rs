//! `[oidc]` of the configuration file.

use std::path::PathBuf;

use himalia_cli::values::Seconds;
use serde::Deserialize;

use super::tenants::Scope;

/// `[oidc]`; what is `None` was not said.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OidcTable {
    /// The provider, as its metadata names it.
    pub(crate) issuer: Option<String>,
    /// Name of the provider for people.
    pub(crate) name: Option<String>,
    /// Client id of this gateway at the provider.
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret_file: Option<PathBuf>,
    /// The address of this gateway that the provider sends browsers back to.
    pub(crate) redirect_url: Option<String>,
    /// Scopes that the provider is asked for, beside `openid`.
    pub(crate) scopes: Option<Vec<String>>,
    /// Signatures of id tokens that are accepted.
    pub(crate) algorithms: Option<Vec<String>>,
    /// CAs in place of the system's.
    pub(crate) ca_file: Option<PathBuf>,
    /// The key of cookies, which replicas share.
    pub(crate) cookie_key_file: Option<PathBuf>,
    pub(crate) caller_claim: Option<String>,
    /// The claim that `grants` are compared with.
    pub(crate) grants_claim: Option<String>,
    /// Lifetime of a sign-in.
    pub(crate) lifetime: Option<Seconds>,
    pub(crate) grants: Vec<GrantTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrantTable {
    /// A value of the claim.
    pub(crate) value: String,
    /// Tenant of these people; the operator if it is missing.
    pub(crate) tenant: Option<String>,
    pub(crate) scope: Scope,
}

impl OidcTable {
    /// The files that it names.
    pub(super) fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let files = [
            &mut self.client_secret_file,
            &mut self.ca_file,
            &mut self.cookie_key_file,
        ];
        files.into_iter().flatten()
    }
}
