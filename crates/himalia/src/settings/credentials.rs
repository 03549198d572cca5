//! `[credentials.NAME]` of the configuration file.

use std::path::PathBuf;

use serde::Deserialize;

/// `[credentials.NAME]`; what is `None` was not said. A value itself is never in the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CredentialTable {
    /// `header`, `query`, `bearer`, `basic`, `aws_sigv4` or `oauth2`.
    pub(crate) kind: String,
    /// Hosts that it is sent to.
    pub(crate) hosts: Vec<String>,
    /// The host behind its internal name.
    pub(crate) base_url: Option<String>,
    pub(crate) header: Option<String>,
    pub(crate) prefix: Option<String>,
    pub(crate) parameter: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) access_key: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) service: Option<String>,
    /// For `oauth2`: `client_credentials`, `authorization_code` or `refresh_token`.
    pub(crate) grant: Option<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) resource: Option<String>,
    pub(crate) authorization_url: Option<String>,
    pub(crate) token_url: Option<String>,
    pub(crate) client_id: Option<String>,
    pub(crate) scope: Option<String>,
    /// A tenant; the operator's, which all have, without one.
    pub(crate) tenant: Option<String>,
    /// File with the value, which is read for each request.
    pub(crate) value_file: Option<PathBuf>,
    /// Variable of the gateway's environment with the value.
    pub(crate) value_env: Option<String>,
    /// The same of the token of a session.
    pub(crate) session_token_file: Option<PathBuf>,
    pub(crate) session_token_env: Option<String>,
    /// The same of the secret of the client.
    pub(crate) client_secret_file: Option<PathBuf>,
    pub(crate) client_secret_env: Option<String>,
}

impl CredentialTable {
    /// The files that it names.
    pub(crate) fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let others = self
            .session_token_file
            .iter_mut()
            .chain(&mut self.client_secret_file);
        self.value_file.iter_mut().chain(others)
    }
}
