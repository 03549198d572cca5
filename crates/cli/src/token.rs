//! Tokens in files, and the requirements for all tokens.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::values::Secret;

/// The longest token.
const MAX_BYTES: usize = 512;

/// Checks a token.
///
/// # Errors
/// What is wrong with it, without quoting it.
pub fn check(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("is empty".into());
    }
    if text.len() > MAX_BYTES {
        return Err(format!("is longer than {MAX_BYTES} bytes"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("has a space, a control character or a character beyond ASCII".into());
    }
    Ok(())
}

/// Reads the token in the first line of a file.
///
/// # Errors
/// The file cannot be read, or what it has is no token.
pub fn read(path: &Path) -> anyhow::Result<Secret> {
    let what = || format!("cannot read the token from {}", path.display());
    let text = fs::read_to_string(path).with_context(what)?;
    let text = text.lines().next().unwrap_or_default().trim();
    if let Err(reason) = check(text) {
        bail!("the token in {} {reason}", path.display());
    }
    let mode = fs::metadata(path).with_context(what)?.permissions().mode();
    // A group may read it, as that of a pod does; it may not replace it.
    if mode & 0o027 != 0 {
        tracing::warn!(file = %path.display(), mode = format!("{:o}", mode & 0o777), "other users can use the token file; only its owner and its group may read it");
    }
    Ok(Secret(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log lines of a read of a token file with this mode.
    fn logged(mode: u32) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        fs::write(&path, "s3cret").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let log = dir.path().join("log");
        let subscriber = tracing_subscriber::fmt()
            .with_writer(fs::File::create(&log).unwrap())
            .finish();
        tracing::subscriber::with_default(subscriber, || read(&path).unwrap());
        fs::read_to_string(log).unwrap()
    }

    #[test]
    fn a_token_that_others_than_the_group_can_use_is_warned_of() {
        for mode in [0o400, 0o600, 0o440, 0o640] {
            assert_eq!(logged(mode), "", "{mode:o}");
        }
        for mode in [0o644, 0o660, 0o602] {
            assert!(
                logged(mode).contains("other users can use the token file"),
                "{mode:o}"
            );
        }
    }

    #[test]
    fn a_token_file_may_end_in_a_newline_and_must_hold_something() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        fs::write(&path, "s3cret\n").unwrap();
        assert_eq!(read(&path).unwrap().0, "s3cret");
        for bad in ["", "\n", "a b", "gehe\u{ed}m"] {
            fs::write(&path, bad).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.starts_with("the token in "), "{error}");
        }
        assert!(read(&dir.path().join("none")).is_err());
    }
}
