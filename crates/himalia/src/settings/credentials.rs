//! `[credentials.NAME]` of the configuration file.

use std::path::PathBuf;

use serde::Deserialize;

/// `[credentials.NAME]`; what is `None` was not said. A value itself is never in the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CredentialTable {
    /// `header`, `query`, `bearer`, `basic` or `aws_sigv4`.
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
    /// A tenant; the operator's, which all have, without one.
    pub(crate) tenant: Option<String>,
    /// File with the value, which is read for each request.
    pub(crate) value_file: Option<PathBuf>,
    /// Variable of the gateway's environment with the value.
    pub(crate) value_env: Option<String>,
    /// The same of the token of a session.
    pub(crate) session_token_file: Option<PathBuf>,
    pub(crate) session_token_env: Option<String>,
}

impl CredentialTable {
    /// The files that it names.
    pub(crate) fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.value_file.iter_mut().chain(&mut self.session_token_file)
    }
}
