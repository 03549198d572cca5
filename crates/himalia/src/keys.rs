//! Files with private keys that several gateways have.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::Context as _;

/// The text of a private key. A group may read it, as in a secret that is mounted into a pod.
///
/// # Errors
/// Names the setting and the file: it cannot be read, or every user may read it.
pub(crate) fn shared_key(setting: &str, path: &Path) -> anyhow::Result<String> {
    let what = || format!("{setting} {}", path.display());
    let text = std::fs::read_to_string(path).with_context(what)?;
    let mode = std::fs::metadata(path).with_context(what)?.mode();
    if mode & 0o007 != 0 {
        anyhow::bail!("{}: every user of this machine may read it", what());
    }
    Ok(text)
}
