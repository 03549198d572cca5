//! Files with secrets that are given to the gateway, or that it makes.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::config::Config;
use crate::private_file;

/// Random bytes of a secret that is made here.
const SECRET_BYTES: usize = 32;

/// A secret behind what clients keep, such as tokens. Replicas that relay to each other use their shared key, since one may get a token of
/// another; other gateways use the secret of an earlier start, in `file` of the data directory, or create one. `what` names it in errors.
pub(crate) fn secret(config: &Config, file: &str, what: &str) -> anyhow::Result<String> {
    if let Some(relay) = &config.replica.relay {
        return shared_key("--replica-key", &relay.key);
    }
    let path = config.data_dir.join(file);
    if path.exists() {
        return std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()));
    }
    private_file::make(&path, SECRET_BYTES, what)
}

/// The text of a private key. A group may read it, as in a secret that is mounted into a pod.
///
/// # Errors
/// Names the setting and the file: it cannot be read, or others than its owner and its group may use it.
pub(crate) fn shared_key(setting: &str, path: &Path) -> anyhow::Result<String> {
    let what = || format!("{setting} {}", path.display());
    let text = std::fs::read_to_string(path).with_context(what)?;
    let meta = std::fs::metadata(path).with_context(what)?;
    check_access(setting, path, &meta)?;
    Ok(text)
}

/// Refuses a secret file that other users may read, or that its group may write: the group of a pod (`fsGroup`) only reads.
///
/// # Errors
/// Names the setting, the file, its mode, and the command that changes it.
pub(crate) fn check_access(setting: &str, path: &Path, meta: &Metadata) -> anyhow::Result<()> {
    let (mode, shown) = (meta.mode() & 0o7777, path.display());
    if mode & 0o007 != 0 {
        bail!(
            "{setting}: every user of this machine may use {shown} (mode {mode:o}); only its owner and its group may read it: chmod 640 {shown}"
        );
    }
    check_writers(setting, path, meta)
}

/// Refuses a secret file that others than its owner may write.
///
/// # Errors
/// As [`check_access`].
pub(crate) fn check_writers(setting: &str, path: &Path, meta: &Metadata) -> anyhow::Result<()> {
    let (mode, shown) = (meta.mode() & 0o7777, path.display());
    if mode & 0o022 != 0 {
        bail!(
            "{setting}: others than its owner may write {shown} (mode {mode:o}); its group may only read it: chmod 640 {shown}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_group_may_read_a_key_and_not_write_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, "a key").unwrap();
        let with = |mode: u32| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            shared_key("--replica-key", &path).map_err(|error| error.to_string())
        };
        for mode in [0o400, 0o600, 0o440, 0o640] {
            assert_eq!(with(mode).as_deref(), Ok("a key"), "{mode:o}");
        }
        for (mode, word) in [(0o644, "every user"), (0o602, "every user"), (0o660, "may write")] {
            let refused = with(mode).unwrap_err();
            assert!(
                refused.starts_with("--replica-key: ") && refused.contains(word),
                "{refused}"
            );
        }
    }
}
