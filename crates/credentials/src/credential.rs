//! A credential with its value.

use std::fmt;

use himalia_model::credential::UrlScheme;
use himalia_model::credential::{CredentialDefinition, CredentialKind, OAuthGrant, TokenSource, placeholder};
use himalia_model::network::Host;
use serde::{Deserialize, Serialize};

use crate::{KnownSecrets, SecretText};

/// Fewest bytes of a value: a shorter one could not be found in responses without masking what is no secret.
pub const MIN_VALUE_BYTES: usize = 8;
/// Most bytes of a value.
const MAX_VALUE_BYTES: usize = 16 * 1024;

/// The secret part of a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialValue {
    /// The token, the value of the header or the parameter, the password or the secret key.
    pub value: SecretText,
    /// Session token of `aws_sigv4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_token: Option<SecretText>,
    /// Client secret of the gateway at the authorization server, for `oauth2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<SecretText>,
}

/// The secrets of a credential as they are given. Which of them are needed follows from its kind.
#[derive(Clone, Debug, Default)]
pub struct GivenSecrets {
    /// The token, the value of the header or the parameter, the password or the secret key; of `oauth2` the refresh token.
    pub value: Option<SecretText>,
    /// Session token of `aws_sigv4`.
    pub session_token: Option<SecretText>,
    /// Client secret of `oauth2`.
    pub client_secret: Option<SecretText>,
}

impl CredentialValue {
    /// Checks a value for this kind. It stands in a header or a URL, so it has printable ASCII characters only.
    ///
    /// # Errors
    /// What is wrong, beginning with the name of the member, without a part of the value.
    pub fn new(kind: &CredentialKind, given: GivenSecrets) -> Result<Self, String> {
        let GivenSecrets {
            value,
            session_token,
            client_secret,
        } = given;
        if session_token.is_some() && !matches!(kind, CredentialKind::AwsSigV4 { .. }) {
            return Err("session_token: is for kind aws_sigv4 alone".to_owned());
        }
        match kind {
            CredentialKind::OAuth(oauth) => {
                let is_refresh = oauth.grant() == OAuthGrant::RefreshToken;
                if is_refresh && value.is_none() {
                    return Err("value: is needed: the refresh token".to_owned());
                }
                if !is_refresh && value.is_some() {
                    return Err("value: is for grant refresh_token alone; give client_secret".to_owned());
                }
                if oauth.grant() == OAuthGrant::ClientCredentials && client_secret.is_none() {
                    return Err("client_secret: is needed".to_owned());
                }
                if client_secret.is_some() && oauth.client_id().is_none() {
                    return Err("client_secret: needs a client_id".to_owned());
                }
                if client_secret.is_some() && *oauth.source() == TokenSource::Resource {
                    return Err(
                        "client_secret: needs an issuer, or a token_url: the resource must not choose where it is sent"
                            .to_owned(),
                    );
                }
            }
            _ if value.is_none() => return Err("value: is needed".to_owned()),
            _ if client_secret.is_some() => {
                return Err("client_secret: is for kind oauth2 alone".to_owned());
            }
            _ => {}
        }
        for (member, text) in [
            ("value", value.as_ref()),
            ("session_token", session_token.as_ref()),
            ("client_secret", client_secret.as_ref()),
        ] {
            if let Some(text) = text {
                check_secret(text).map_err(|reason| format!("{member}: {reason}"))?;
            }
        }
        Ok(Self {
            value: value.unwrap_or_default(),
            session_token,
            client_secret,
        })
    }
}

/// Checks that a secret can be sent in a header and found in a response.
///
/// # Errors
/// What is wrong, without a part of it.
pub fn check_secret(secret: &SecretText) -> Result<(), String> {
    let text = secret.expose();
    if !(MIN_VALUE_BYTES..=MAX_VALUE_BYTES).contains(&text.len()) {
        return Err(format!("has not {MIN_VALUE_BYTES} to {MAX_VALUE_BYTES} bytes"));
    }
    if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) || text.trim() != text {
        return Err("has other characters than printable ASCII ones, or a space at an end".to_owned());
    }
    Ok(())
}

/// A credential that can be added to requests.
#[derive(Clone)]
pub struct Credential {
    pub name: String,
    pub definition: CredentialDefinition,
    /// The secret. For `oauth2`, the access token, which is empty if there is none.
    pub value: CredentialValue,
    /// Further secrets of `oauth2`, such as earlier access tokens. They are looked for in responses too.
    pub known: KnownSecrets,
    /// Reason why it cannot be added to requests. `None`: it can.
    pub unusable: Option<Unusable>,
}

/// Reasons why a credential has no secret for requests. No text has a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// A person has to grant it, or to set it again: the text says how.
    NoGrant(String),
    /// No token was got for it this time.
    NoToken(String),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGrant(reason) | Self::NoToken(reason) => f.write_str(reason),
        }
    }
}

impl Credential {
    /// One whose value is as it was set.
    pub fn new(name: impl Into<String>, definition: CredentialDefinition, value: CredentialValue) -> Self {
        Self {
            name: name.into(),
            definition,
            value,
            known: KnownSecrets::default(),
            unusable: None,
        }
    }

    /// True if the gateway gets its value as tokens of an authorization server.
    pub fn has_tokens(&self) -> bool {
        matches!(self.definition.kind(), CredentialKind::OAuth(_))
    }

    /// Placeholder for the secret in sandboxes.
    pub fn placeholder(&self) -> String {
        placeholder(&self.name)
    }

    /// True if it may be sent to a host.
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
        let value = CredentialValue {
            value: SecretText::new(value.to_owned()),
            session_token: None,
            client_secret: None,
        };
        Credential::new("api", fields.try_into().unwrap(), value)
    }

    #[test]
    fn no_debug_text_has_a_secret() {
        let one = credential(json!({"kind": "bearer", "hosts": ["a"]}), "s3cret-s3cret");
        let text = format!("{one:?} {:?} {:#?}", one.value, one.value.value);
        assert!(text.contains("api") && !text.contains("s3cret"), "{text}");
    }

    #[test]
    fn a_value_can_be_sent_and_found() {
        let secret = |text: &str| SecretText::new(text.to_owned());
        let new = |value: &str, token: Option<&str>| {
            let given = GivenSecrets {
                value: Some(secret(value)),
                session_token: token.map(secret),
                client_secret: None,
            };
            CredentialValue::new(&CredentialKind::Bearer, given)
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

    #[test]
    fn a_secret_goes_to_a_server_that_the_definition_names() {
        let definition = |mut fields: Value| {
            fields["kind"] = "oauth2".into();
            fields["hosts"] = json!(["a"]);
            fields["client_id"] = "c".into();
            let fields: CredentialFields = serde_json::from_value(fields).unwrap();
            CredentialDefinition::try_from(fields)
        };
        for grant in ["client_credentials", "refresh_token"] {
            let refused = definition(json!({"grant": grant, "resource": "https://a/mcp"})).unwrap_err();
            assert!(
                refused.starts_with("issuer: is needed, or token_url"),
                "{refused}"
            );
            definition(json!({"grant": grant, "resource": "https://a/mcp", "token_url": "https://id/token"}))
                .unwrap();
        }
        let given = || GivenSecrets {
            client_secret: Some(SecretText::new("12345678".to_owned())),
            ..GivenSecrets::default()
        };
        let code = json!({"grant": "authorization_code", "resource": "https://a/mcp"});
        let by_resource = definition(code.clone()).unwrap();
        assert!(CredentialValue::new(by_resource.kind(), GivenSecrets::default()).is_ok());
        let refused = CredentialValue::new(by_resource.kind(), given()).unwrap_err();
        assert!(refused.starts_with("client_secret: needs an issuer"), "{refused}");
        let mut named = code;
        named["issuer"] = "https://id".into();
        assert!(CredentialValue::new(definition(named).unwrap().kind(), given()).is_ok());
    }

    #[test]
    fn each_grant_has_its_secrets() {
        let checked = |grant: &str, client_id: bool, value: bool, client_secret: bool| {
            let mut definition =
                json!({"kind": "oauth2", "hosts": ["a"], "grant": grant, "issuer": "https://id"});
            if client_id {
                definition["client_id"] = "c".into();
            }
            let fields: CredentialFields = serde_json::from_value(definition).unwrap();
            let definition = CredentialDefinition::try_from(fields).unwrap();
            let secret = |given: bool| given.then(|| SecretText::new("12345678".to_owned()));
            let given = GivenSecrets {
                value: secret(value),
                client_secret: secret(client_secret),
                session_token: None,
            };
            CredentialValue::new(definition.kind(), given)
        };
        assert!(checked("client_credentials", true, false, true).is_ok());
        assert!(checked("refresh_token", true, true, false).is_ok());
        assert!(checked("refresh_token", true, true, true).is_ok());
        assert!(checked("authorization_code", false, false, false).is_ok());
        assert!(checked("authorization_code", true, false, true).is_ok());
        for (wrong, member) in [
            (checked("client_credentials", true, false, false), "client_secret"),
            (checked("client_credentials", true, true, true), "value"),
            (checked("refresh_token", true, false, true), "value"),
            (checked("authorization_code", false, false, true), "client_secret"),
            (checked("authorization_code", true, true, false), "value"),
        ] {
            let error = wrong.unwrap_err();
            assert!(error.starts_with(&format!("{member}: ")), "{error}");
        }
    }
}
