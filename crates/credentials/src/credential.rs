//! A credential with its value.

use std::fmt;

use himalia_model::credential::UrlScheme;
use himalia_model::credential::{CredentialDefinition, CredentialKind, placeholder};
use himalia_model::network::Host;
use serde::{Deserialize, Serialize};

use crate::SecretText;

/// Fewest bytes of a value: a shorter one could not be found in responses without masking what is no secret.
pub const MIN_VALUE_BYTES: usize = 8;
/// Most bytes of a value.
const MAX_VALUE_BYTES: usize = 16 * 1024;

/// The secret part of a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialValue {
    /// The token, the value of the header or the parameter, the password or the secret key.
    pub value: SecretText,
    /// Of `aws_sigv4`: the token of a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_token: Option<SecretText>,
}

impl CredentialValue {
    /// Checks a value for this kind. It stands in a header or a URL, so it has printable ASCII characters only.
    ///
    /// # Errors
    /// What is wrong, beginning with the name of the member, without a part of the value.
    pub fn new(
        kind: &CredentialKind,
        value: SecretText,
        session_token: Option<SecretText>,
    ) -> Result<Self, String> {
        if session_token.is_some() && !matches!(kind, CredentialKind::AwsSigV4 { .. }) {
            return Err("session_token: is for kind aws_sigv4 alone".to_owned());
        }
        for (member, text) in [("value", Some(&value)), ("session_token", session_token.as_ref())] {
            let Some(text) = text.map(SecretText::expose) else {
                continue;
            };
            if !(MIN_VALUE_BYTES..=MAX_VALUE_BYTES).contains(&text.len()) {
                return Err(format!(
                    "{member}: has not {MIN_VALUE_BYTES} to {MAX_VALUE_BYTES} bytes"
                ));
            }
            if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) || text.trim() != text {
                return Err(format!(
                    "{member}: has other characters than printable ASCII ones, or a space at an end"
                ));
            }
        }
        Ok(Self { value, session_token })
    }
}

/// A credential that can be added to requests.
#[derive(Clone)]
pub struct Credential {
    /// Its name.
    pub name: String,
    /// What it is.
    pub definition: CredentialDefinition,
    /// Its value.
    pub value: CredentialValue,
}

impl Credential {
    /// What stands for it in sandboxes.
    pub fn placeholder(&self) -> String {
        placeholder(&self.name)
    }

    /// Whether it may be sent to a host.
    pub fn is_bound_to(&self, scheme: UrlScheme, host: &Host, port: u16) -> bool {
        self.definition
            .hosts()
            .iter()
            .any(|bound| bound.has(scheme, host, port))
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use himalia_model::credential::CredentialFields;
    use serde_json::{Value, json};

    use super::*;

    pub(crate) fn credential(definition: Value, value: &str) -> Credential {
        let fields: CredentialFields = serde_json::from_value(definition).unwrap();
        Credential {
            name: "api".to_owned(),
            definition: fields.try_into().unwrap(),
            value: CredentialValue {
                value: SecretText::new(value.to_owned()),
                session_token: None,
            },
        }
    }

    #[test]
    fn no_debug_text_has_a_secret() {
        let one = credential(json!({"kind": "bearer", "hosts": ["a"]}), "s3cret-s3cret");
        let text = format!("{one:?} {:?} {:#?}", one.value, one.value.value);
        assert!(text.contains("api") && !text.contains("s3cret"), "{text}");
    }

    #[test]
    fn a_value_can_be_sent_and_found() {
        let new = |value: &str, token: Option<&str>| {
            let secret = |text: &str| SecretText::new(text.to_owned());
            CredentialValue::new(&CredentialKind::Bearer, secret(value), token.map(secret))
        };
        assert!(new("12345678", None).is_ok());
        for value in [
            "1234567",
            "12345678\r\nx: y",
            " 12345678",
            "12345678\n",
            "pässword",
            &"x".repeat(20_000),
        ] {
            let error = new(value, None).unwrap_err();
            assert!(
                error.starts_with("value: ") && !error.contains("12345"),
                "{error}"
            );
        }
        assert!(
            new("12345678", Some("12345678"))
                .unwrap_err()
                .starts_with("session_token")
        );
    }
}
