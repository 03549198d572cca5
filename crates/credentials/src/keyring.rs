//! Values at rest: AES-256-GCM with a key of the operator's.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::{Digest, Sha256};
use thiserror::Error;
use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;
/// Most keys of a file.
const KEYS_MAX: usize = 16;

/// The keys of a file: the first one seals, each one opens what it has sealed.
pub struct KeyRing(Vec<Key>);

struct Key {
    id: String,
    key: LessSafeKey,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedValue {
    /// Id of the key that sealed it.
    pub key_id: String,
    /// The nonce, then the encrypted value with its tag.
    pub bytes: Vec<u8>,
}

/// Errors of a key file. No text has a part of a key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// There is none.
    #[error("has no key: 64 hexadecimal digits on a line")]
    Empty,
    /// A line is no key.
    #[error("line {0}: a key must have 64 hexadecimal digits")]
    Line(usize),
    #[error("has more than {KEYS_MAX} keys")]
    TooMany,
}

/// Reasons why a value cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The key with this id is not in the file.
    #[error("it is sealed with the key {0}, which the key file does not have")]
    NoKey(String),
    /// It was changed, or was sealed for something else.
    #[error("it was changed, or sealed for another name, owner or definition")]
    Changed,
}

impl KeyRing {
    /// Reads keys: one on a line, as 64 hexadecimal digits. Empty lines and those with `#` in front are left out.
    ///
    /// # Errors
    /// What is wrong with which line.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut keys = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut bytes = Zeroizing::new([0; KEY_BYTES]);
            hex::decode_to_slice(line, &mut *bytes).map_err(|_| KeyError::Line(number + 1))?;
            let key =
                UnboundKey::new(&AES_256_GCM, bytes.as_ref()).map_err(|_| KeyError::Line(number + 1))?;
            keys.push(Key {
                id: hex::encode(Sha256::digest(bytes.as_ref()).get(..4).unwrap_or_default()),
                key: LessSafeKey::new(key),
            });
        }
        match keys.len() {
            0 => Err(KeyError::Empty),
            1..=KEYS_MAX => Ok(Self(keys)),
            _ => Err(KeyError::TooMany),
        }
    }

    /// The name of the key that seals.
    pub fn current(&self) -> &str {
        self.0.first().map_or("", |key| &key.id)
    }

    /// Seals a value for these texts, which must be the same when it is opened.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn seal(&self, bound: &[&str], value: &[u8]) -> Result<SealedValue, getrandom::Error> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce)?;
        let mut sealed = value.to_vec();
        let key = self.0.first().ok_or(getrandom::Error::UNEXPECTED)?;
        let tag = key
            .key
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(associated(bound)),
                &mut sealed,
            )
            .map_err(|_| getrandom::Error::UNEXPECTED)?;
        Ok(SealedValue {
            key_id: key.id.clone(),
            bytes: [&nonce[..], &sealed, tag.as_ref()].concat(),
        })
    }

    /// Opens a value.
    ///
    /// # Errors
    /// Its key is missing, or it is not what was sealed for these texts.
    pub fn open(&self, bound: &[&str], sealed: &SealedValue) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        let key = self.0.iter().find(|key| key.id == sealed.key_id);
        let key = key.ok_or_else(|| OpenError::NoKey(sealed.key_id.clone()))?;
        let (nonce, encrypted) = sealed
            .bytes
            .split_first_chunk::<NONCE_LEN>()
            .ok_or(OpenError::Changed)?;
        let mut value = Zeroizing::new(encrypted.to_vec());
        let length = key
            .key
            .open_in_place(
                Nonce::assume_unique_for_key(*nonce),
                Aad::from(associated(bound)),
                &mut value,
            )
            .map_err(|_| OpenError::Changed)?
            .len();
        value.truncate(length);
        Ok(value)
    }
}

/// Each text with its length in front, so that no two lists are the same bytes.
fn associated(bound: &[&str]) -> Vec<u8> {
    let mut bytes = b"himalia credential 1".to_vec();
    for text in bound {
        bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(keys: &[u8]) -> KeyRing {
        let lines: Vec<String> = keys.iter().map(|byte| hex::encode([*byte; 32])).collect();
        KeyRing::parse(&lines.join("\n")).unwrap()
    }

    #[test]
    fn a_value_opens_for_what_it_was_sealed_for_alone() {
        let keys = ring(&[1]);
        let sealed = keys.seal(&["acme", "stripe"], b"s3cret").unwrap();
        assert_eq!(**keys.open(&["acme", "stripe"], &sealed).unwrap(), *b"s3cret");
        for other in [
            &["acme", "other"][..],
            &["other", "stripe"],
            &["acmes", "tripe"],
            &["acme"],
        ] {
            assert_eq!(keys.open(other, &sealed), Err(OpenError::Changed), "{other:?}");
        }
        for at in 0..sealed.bytes.len() {
            let mut changed = sealed.clone();
            changed.bytes[at] ^= 1;
            assert_eq!(keys.open(&["acme", "stripe"], &changed), Err(OpenError::Changed));
        }
        let short = SealedValue {
            bytes: vec![1; 11],
            ..sealed.clone()
        };
        assert_eq!(keys.open(&["acme", "stripe"], &short), Err(OpenError::Changed));
        assert!(!sealed.bytes.windows(6).any(|part| part == b"s3cret"));
    }

    #[test]
    fn a_new_first_key_seals_and_the_ones_before_open() {
        let (old, both, new) = (ring(&[1]), ring(&[2, 1]), ring(&[2]));
        let sealed = old.seal(&["a"], b"x").unwrap();
        assert!(both.open(&["a"], &sealed).is_ok());
        assert_eq!(
            new.open(&["a"], &sealed),
            Err(OpenError::NoKey(old.current().to_owned()))
        );
        let again = both.seal(&["a"], b"x").unwrap();
        assert_eq!(again.key_id, new.current());
        assert!(new.open(&["a"], &again).is_ok() && old.open(&["a"], &again).is_err());
    }

    #[test]
    fn a_file_of_keys_has_keys_alone() {
        assert_eq!(KeyRing::parse("# nothing\n\n").unwrap_err(), KeyError::Empty);
        let good = "ab".repeat(32);
        assert!(KeyRing::parse(&format!("# one\n{good}\n")).is_ok());
        let error = KeyRing::parse(&format!("{good}\n{good}x")).unwrap_err();
        assert_eq!(error, KeyError::Line(2));
        assert!(!error.to_string().contains("abab"));
        assert!(!format!("{:?}", ring(&[7])).contains("0707"));
    }
}
