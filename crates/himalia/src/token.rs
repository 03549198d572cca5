//! The operator's token, and the requirements for all tokens.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(crate) use himalia_cli::token::{check, read};

use crate::private_file;
use crate::settings::Secret;

/// Bytes of randomness in a token that is made here; written as twice as many hexadecimal digits.
const RANDOM_BYTES: usize = 24;
/// Below this length a token that strangers can try is refused.
const SHORT: usize = 16;
/// Different characters of a tenant's token, at least.
const VARIED: usize = 8;

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

/// Origin of a token, for the instructions to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The process that started the gateway knows it.
    Given,
    File(PathBuf),
    /// It was made here, kept in this file, and is printed.
    Made(PathBuf),
}

impl Origin {
    /// The file that the token is in, if it is in one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Given => None,
            Self::File(path) | Self::Made(path) => Some(path),
        }
    }
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

/// Checks that a token is not easy to guess; the error does not quote it. The operator's token may be weak on loopback; a tenant's may not,
/// since tenants must not reach each other.
pub(crate) fn check_strength(text: &str) -> Result<(), String> {
    let different: BTreeSet<u8> = text.bytes().collect();
    if text.len() < SHORT || different.len() < VARIED {
        return Err(format!(
            "is too weak: it needs {SHORT} characters, {VARIED} of them different; openssl rand -hex 24 makes one"
        ));
    }
    Ok(())
}

fn make(path: &Path) -> anyhow::Result<Secret> {
    private_file::make(path, RANDOM_BYTES, "the token").map(Secret)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

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
}
