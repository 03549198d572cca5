//! Message signatures: HMAC over the exact bytes of header, parent header, metadata and content.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use subtle::ConstantTimeEq;

use crate::{Error, Parts, Result};

/// Longest digest in bytes (SHA-512).
const MAX_DIGEST: usize = 64;

/// Signs and verifies with one key. Cheap to keep: the key is already mixed in, so that neither signing nor
/// verifying allocates more than the signature itself.
///
/// An empty key means no signatures, as in the reference: [`Signer::sign`] gives an empty string and
/// [`Signer::verify`] accepts everything.
#[derive(Clone)]
pub struct Signer {
    keyed: KeyedMac,
}

macro_rules! digests {
    ($($variant:ident, $name:literal, $digest:ty;)*) => {
        #[derive(Clone)]
        enum KeyedMac {
            None,
            $($variant(Hmac<$digest>),)*
        }

        impl KeyedMac {
            fn new(scheme: &str, key: &[u8]) -> Result<Self> {
                match scheme {
                    $($name => {
                        if key.is_empty() {
                            return Ok(Self::None);
                        }
                        let keyed = <Hmac<$digest> as KeyInit>::new_from_slice(key);
                        keyed.map(Self::$variant).map_err(|_| Error::UnknownScheme(scheme.to_owned()))
                    })*
                    _ => Err(Error::UnknownScheme(scheme.to_owned())),
                }
            }

            fn name(&self) -> &'static str {
                match self {
                    Self::None => "none",
                    $(Self::$variant(_) => $name,)*
                }
            }

            fn digest(&self, parts: [&[u8]; 4]) -> Option<Hex> {
                match self {
                    Self::None => None,
                    $(Self::$variant(keyed) => {
                        let mut mac = keyed.clone();
                        for part in parts {
                            mac.update(part);
                        }
                        Some(Hex::new(&mac.finalize().into_bytes()))
                    })*
                }
            }
        }
    };
}

digests! {
    Md5, "hmac-md5", md5::Md5;
    Sha1, "hmac-sha1", sha1::Sha1;
    Sha224, "hmac-sha224", sha2::Sha224;
    Sha256, "hmac-sha256", sha2::Sha256;
    Sha384, "hmac-sha384", sha2::Sha384;
    Sha512, "hmac-sha512", sha2::Sha512;
}

impl Signer {
    /// `scheme` as in a connection file, for example `hmac-sha256`.
    pub fn new(scheme: &str, key: &[u8]) -> Result<Self> {
        Ok(Self {
            keyed: KeyedMac::new(scheme, key)?,
        })
    }

    /// Lower-case hexadecimal signature; empty without a key. Buffers are not signed (protocol).
    pub fn sign(&self, parts: &Parts) -> String {
        let signature = self.keyed.digest(parts.signed().map(|part| &part[..]));
        signature.map_or_else(String::new, |hex| {
            String::from_utf8_lossy(hex.as_bytes()).into_owned()
        })
    }

    /// True if `signature` belongs to `parts`. Takes a time that does not depend on where they differ.
    pub fn verify(&self, signature: &[u8], parts: &Parts) -> bool {
        self.verify_raw(signature, parts.signed().map(|part| &part[..]))
    }

    /// As [`Signer::verify`], for header, parent header, metadata and content that are not in [`Parts`].
    pub fn verify_raw(&self, signature: &[u8], signed: [&[u8]; 4]) -> bool {
        match self.keyed.digest(signed) {
            None => true,
            Some(expected) => expected.as_bytes().ct_eq(signature).into(),
        }
    }

    /// True if messages are signed.
    pub fn is_signing(&self) -> bool {
        !matches!(self.keyed, KeyedMac::None)
    }
}

impl fmt::Debug for Signer {
    /// Names the scheme, never the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("scheme", &self.keyed.name())
            .finish_non_exhaustive()
    }
}

/// A digest as hexadecimal text, on the stack.
struct Hex {
    text: [u8; MAX_DIGEST * 2],
    len: usize,
}

impl Hex {
    fn new(digest: &[u8]) -> Self {
        let mut text = [0; MAX_DIGEST * 2];
        let mut len = 0_usize;
        for (pair, byte) in text.chunks_exact_mut(2).zip(digest) {
            pair.copy_from_slice(&[nibble(byte >> 4), nibble(byte & 15)]);
            len = len.saturating_add(2);
        }
        Self { text, len }
    }

    fn as_bytes(&self) -> &[u8] {
        self.text.get(..self.len).unwrap_or_default()
    }
}

fn nibble(value: u8) -> u8 {
    b"0123456789abcdef"
        .get(usize::from(value))
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn parts() -> Parts {
        Parts {
            header: Bytes::from_static(b"{\"a\":1}"),
            parent_header: Bytes::from_static(b"{}"),
            metadata: Bytes::from_static(b"{}"),
            content: Bytes::from_static(b"{\"code\":\"1\"}"),
            buffers: vec![Bytes::from_static(b"not signed")],
        }
    }

    #[test]
    fn every_scheme_signs_what_it_verifies() {
        for scheme in [
            "hmac-md5",
            "hmac-sha1",
            "hmac-sha224",
            "hmac-sha256",
            "hmac-sha384",
            "hmac-sha512",
        ] {
            let signer = Signer::new(scheme, b"key").unwrap();
            let signature = signer.sign(&parts());
            assert!(signer.verify(signature.as_bytes(), &parts()), "{scheme}");
            assert!(!signer.verify(&signature.as_bytes()[1..], &parts()));
            assert!(!signer.verify(b"", &parts()));
            assert!(
                !signer.verify(signature.to_uppercase().as_bytes(), &parts()),
                "{scheme}"
            );
            assert!(
                !Signer::new(scheme, b"kez")
                    .unwrap()
                    .verify(signature.as_bytes(), &parts())
            );
        }
    }

    #[test]
    fn one_changed_bit_anywhere_is_found() {
        let signer = Signer::new("hmac-sha256", b"key").unwrap();
        let signature = signer.sign(&parts());
        for index in 0..signature.len() {
            let mut forged = signature.clone().into_bytes();
            forged[index] ^= 1;
            assert!(!signer.verify(&forged, &parts()));
        }
        let changed = Parts {
            content: Bytes::from_static(b"{\"code\":\"2\"}"),
            ..parts()
        };
        assert!(!signer.verify(signature.as_bytes(), &changed));
    }

    #[test]
    fn an_empty_key_signs_nothing() {
        let signer = Signer::new("hmac-sha256", b"").unwrap();
        assert!(!signer.is_signing());
        assert_eq!(signer.sign(&parts()), "");
        assert!(signer.verify(b"anything", &parts()));
    }

    #[test]
    fn unknown_schemes_are_refused_even_without_a_key() {
        for scheme in ["", "sha256", "hmac-sha3_256", "HMAC-SHA256"] {
            assert!(
                matches!(Signer::new(scheme, b""), Err(Error::UnknownScheme(_))),
                "{scheme}"
            );
        }
    }

    #[test]
    fn debug_hides_the_key() {
        let text = format!("{:?}", Signer::new("hmac-sha256", b"sekret").unwrap());
        assert_eq!(text, "Signer { scheme: \"hmac-sha256\", .. }");
    }
}
