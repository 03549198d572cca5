//! A token, kept as a hash.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A token. Only its SHA-256 is kept, and it is compared in constant time, so that neither a core dump nor a clock
/// tells anything about it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    hash: [u8; 32],
    empty: bool,
}

impl Token {
    /// From the text that clients present.
    pub fn new(text: &str) -> Self {
        Self {
            hash: hash(text.as_bytes()),
            empty: text.is_empty(),
        }
    }

    /// A token of which only the SHA-256 is known.
    pub fn of_digest(hash: [u8; 32]) -> Self {
        Self { hash, empty: false }
    }

    pub(super) fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// Checks whether a presented text is this token. An empty text never is.
    pub(crate) fn matches(&self, presented: &[u8]) -> bool {
        let equal: bool = self.hash.ct_eq(&hash(presented)).into();
        equal && !self.empty
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.empty
    }
}

pub(crate) fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_text_matches() {
        let token = Token::new("s3cret");
        assert!(token.matches(b"s3cret"));
        let long = vec![b's'; 1 << 20];
        for wrong in [
            &b""[..],
            b"s3cre",
            b"s3cret ",
            b"S3CRET",
            b"s3creT",
            &[0xff, 0xfe],
            &long,
        ] {
            assert!(!token.matches(wrong));
        }
        assert!(!Token::new("").matches(b""));
    }
}
