//! Names and keys of sandboxes: both are secrets of 128 bits and more.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::SandboxError;

/// Name of a sandbox: 128 random bits, written as 32 lower-case hexadecimal digits. Directories, sockets and
/// containers carry it, so that their names cannot be guessed.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SandboxId([u8; 16]);

impl SandboxId {
    /// A new name. Fails only if the system has no randomness.
    pub fn generate() -> Result<Self, SandboxError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| SandboxError::Randomness(error.to_string()))?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for SandboxId {
    /// The first digits only: debug texts end up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SandboxId({}…)", hex::encode(&self.0[..4]))
    }
}

impl FromStr for SandboxId {
    type Err = SandboxError;

    fn from_str(text: &str) -> Result<Self, SandboxError> {
        let mut bytes = [0; 16];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| SandboxError::BadId)?;
        let id = Self(bytes);
        // Upper-case digits are refused: an id has one text.
        if id.to_string() != text {
            return Err(SandboxError::BadId);
        }
        Ok(id)
    }
}

impl TryFrom<String> for SandboxId {
    type Error = SandboxError;

    fn try_from(text: String) -> Result<Self, SandboxError> {
        text.parse()
    }
}

impl From<SandboxId> for String {
    fn from(id: SandboxId) -> Self {
        id.to_string()
    }
}

/// Secret that authenticates a shim: 256 random bits as 64 lower-case hexadecimal digits. The shim reads it from a file before any kernel
/// exists; the gateway deletes that file after the authentication.
#[derive(Clone, Eq, PartialEq)]
pub struct SandboxKey(String);

impl SandboxKey {
    /// A new key. Fails only if the system has no randomness.
    pub fn generate() -> Result<Self, SandboxError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| SandboxError::Randomness(error.to_string()))?;
        Ok(Self(hex::encode(bytes)))
    }

    /// The key itself. Do not log it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SandboxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SandboxKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_from_text_and_nothing_else_is_one() {
        let id = SandboxId::generate().unwrap();
        assert_eq!(id.to_string().parse::<SandboxId>().unwrap(), id);
        assert_ne!(id, SandboxId::generate().unwrap());
        assert!(!format!("{id:?}").contains(&id.to_string()));
        let upper = "A".repeat(32);
        let wide = "é".repeat(16);
        for bad in ["", "..", "0123", &upper, &wide, &"0".repeat(33)] {
            assert!(bad.parse::<SandboxId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_is_not_in_its_debug_text() {
        let key = SandboxKey::generate().unwrap();
        assert_eq!(key.expose().len(), 64);
        assert!(!format!("{key:?}").contains(key.expose()));
    }
}
