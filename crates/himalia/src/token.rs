//! The operator's token, and the requirements for all tokens.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::private_file;
use crate::settings::Secret;

/// Bytes of randomness in a token that is made here; written as twice as many hexadecimal digits.
const RANDOM_BYTES: usize = 24;
/// The longest token.
const MAX_BYTES: usize = 512;
/// Below this length a token that strangers can try is refused.
const SHORT: usize = 16;
/// Different characters of a tenant's token, at least.
const VARIED: usize = 8;

/// Where the token comes from.
#[derive(Clone, Debug)]
pub(crate) enum TokenSource {
    /// It was said.
    Given(Secret),
    /// It is the first line of this file.
    File(PathBuf),
    /// One is made, for loopback only.
    Made,
}

/// A token and how clients learn it.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) text: Secret,
    pub(crate) origin: Origin,
}

/// How clients learn a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The process that started the gateway knows it.
    Given,
    /// It is in this file.
    File(PathBuf),
    /// It was made here, kept in this file, and is printed.
    Made(PathBuf),
}

/// Gets the token. One that is made is kept in the data directory (0600), so that clients of a gateway that was
/// restarted are still let in; removing the file makes a new one.
pub(crate) fn obtain(source: &TokenSource, data_dir: &Path) -> anyhow::Result<Token> {
    match source {
        TokenSource::Given(text) => Ok(Token {
            text: text.clone(),
            origin: Origin::Given,
        }),
        TokenSource::File(path) => Ok(Token {
            text: read(path)?,
            origin: Origin::File(path.clone()),
        }),
        TokenSource::Made => {
            let path = data_dir.join("token");
            let text = if path.exists() { read(&path)? } else { make(&path)? };
            Ok(Token {
                text,
                origin: Origin::Made(path),
            })
        }
    }
}

/// What is wrong with a token, without quoting it.
pub(crate) fn check(text: &str) -> Result<(), String> {
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

/// What makes a token too easy to guess, without quoting it. The operator's may be so on loopback; a tenant's may not,
/// since tenants are behind it that must not reach each other.
pub(crate) fn check_strength(text: &str) -> Result<(), String> {
    let different: BTreeSet<u8> = text.bytes().collect();
    if text.len() < SHORT || different.len() < VARIED {
        return Err(format!(
            "is too weak: it needs {SHORT} characters, {VARIED} of them different; openssl rand -hex 24 makes one"
        ));
    }
    Ok(())
}

/// The token in the first line of a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Secret> {
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

fn make(path: &Path) -> anyhow::Result<Secret> {
    private_file::make(path, RANDOM_BYTES, "the token").map(Secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_token_is_long_private_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let first = obtain(&TokenSource::Made, dir.path()).unwrap();
        let second = obtain(&TokenSource::Made, dir.path()).unwrap();
        assert_eq!(first.text.0, second.text.0);
        assert_eq!(first.text.0.len(), 48);
        let Origin::Made(path) = second.origin else {
            panic!("made")
        };
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(
            obtain(&TokenSource::Made, other.path()).unwrap().text.0,
            first.text.0
        );
    }

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
        assert_eq!(
            obtain(&TokenSource::File(path.clone()), dir.path())
                .unwrap()
                .text
                .0,
            "s3cret"
        );
        for bad in ["", "\n", "a b", "gehe\u{ed}m"] {
            fs::write(&path, bad).unwrap();
            let error = obtain(&TokenSource::File(path.clone()), dir.path())
                .unwrap_err()
                .to_string();
            assert!(error.starts_with("the token in "), "{error}");
        }
        assert!(obtain(&TokenSource::File(dir.path().join("none")), dir.path()).is_err());
    }
}
