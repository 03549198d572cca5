//! Java reads no variables of proxies and certificates, but options of its own from a variable.

use std::path::Path;

use himalia_model::Session;

use super::packages::{PROXY_HOST, PROXY_PORT};
use crate::credentials::certificates;

/// Variable from which every Java machine takes options. It names them on its standard error when it starts.
pub(crate) const VARIABLE: &str = "JAVA_TOOL_OPTIONS";

/// The value of [`VARIABLE`] for a session with this work directory, if its programs reach a network through the gateway.
pub(crate) fn options(work_dir: &Path, session: &Session) -> Option<String> {
    if !session.sandbox.has_proxy() {
        return None;
    }
    let mut options = Vec::new();
    for scheme in ["http", "https"] {
        options.push(format!("-D{scheme}.proxyHost={PROXY_HOST}"));
        options.push(format!("-D{scheme}.proxyPort={PROXY_PORT}"));
    }
    if let Some(file) = certificates::key_store(work_dir, session) {
        options.push(format!("-Djavax.net.ssl.trustStore={file}"));
        options.push("-Djavax.net.ssl.trustStoreType=JKS".to_owned());
    }
    Some(options.join(" "))
}
