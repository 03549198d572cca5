//! Seals the cookie of a sign-in: encrypted and authenticated (ChaCha20-Poly1305).

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::{Digest as _, Sha256};

/// Purpose of a seal. Another use of the same secret has another text.
const PURPOSE: &[u8] = b"himalia oidc sign-in\0";
/// Bytes of the secret, at least.
const SECRET_BYTES: usize = 32;

/// Seals and opens cookies.
#[derive(Clone)]
pub struct CookieKey(Arc<LessSafeKey>);

impl fmt::Debug for CookieKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieKey(…)")
    }
}

impl CookieKey {
    /// From a random secret of 32 bytes or more; a reason if it is shorter.
    pub fn new(secret: &[u8]) -> Result<Self, String> {
        if secret.len() < SECRET_BYTES {
            return Err(format!(
                "has {} bytes, and needs {SECRET_BYTES} random ones; openssl rand -hex 32 makes a key",
                secret.len()
            ));
        }
        let bytes = Sha256::new()
            .chain_update(PURPOSE)
            .chain_update(secret)
            .finalize();
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_| "cannot be used".to_owned())?;
        Ok(Self(Arc::new(LessSafeKey::new(key))))
    }

    /// `None` when the system has no randomness.
    pub(crate) fn seal(&self, plain: &[u8]) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut sealed)
            .ok()?;
        Some(URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
    }

    /// Opens a text that this key sealed.
    pub(crate) fn open(&self, text: &str) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = self.0.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
        Some(plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn only_what_was_sealed_here_is_opened(plain: Vec<u8>, at: usize, noise: String) {
            let (key, other) = (CookieKey::new(&[1; 32]).unwrap(), CookieKey::new(&[2; 32]).unwrap());
            let sealed = key.seal(&plain).unwrap();
            prop_assert_ne!(&key.seal(&plain).unwrap(), &sealed);
            prop_assert_eq!(key.open(&sealed), Some(plain));
            prop_assert_eq!(other.open(&sealed), None);
            let mut bytes = URL_SAFE_NO_PAD.decode(&sealed).unwrap();
            let at = at % bytes.len();
            bytes[at] ^= 1;
            prop_assert_eq!(key.open(&URL_SAFE_NO_PAD.encode(bytes)), None);
            prop_assert_eq!(key.open(&noise), None);
        }
    }

    #[test]
    fn a_short_secret_is_refused() {
        assert!(CookieKey::new(&[0; 31]).unwrap_err().contains("31 bytes"));
    }
}
