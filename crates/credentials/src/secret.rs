//! A text that is shown nowhere.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

/// A secret. It is overwritten when it is dropped, and no debug text has it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// Takes a secret.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose())
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // An error of a derived form could quote what it found.
        let text = String::deserialize(deserializer);
        text.map(Self::new)
            .map_err(|_| D::Error::custom("must be a text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_quotes_nothing() {
        for wrong in ["12345678", "[\"s3cret\"]"] {
            let error = serde_json::from_str::<SecretText>(wrong).unwrap_err().to_string();
            assert!(
                error.starts_with("must be a text") && !error.contains("345"),
                "{error}"
            );
        }
    }
}
