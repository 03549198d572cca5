//! Credentials of templates and sessions.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::{BoundHost, MAX_CREDENTIAL_HOSTS, UrlScheme, check_credential_name};
use crate::network::Host;

/// Most variables of one credential.
const VARIABLES_MAX: usize = 8;

/// Placeholder that sandboxes see instead of a secret. The text is public.
pub fn placeholder(name: &str) -> String {
    format!("himalia-credential-{name}-placeholder")
}

/// A credential that a template lets its sessions use. Written as its name, or as a table with `name` and `env`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateCredential {
    /// The name of the credential.
    pub name: String,
    /// Variables that have the placeholder.
    pub env: Vec<String>,
}

impl TemplateCredential {
    /// Checks both. Without variables, there is one of the name: `STRIPE_KEY`.
    ///
    /// # Errors
    /// What is wrong.
    pub fn new(name: String, env: Option<Vec<String>>) -> Result<Self, String> {
        check_credential_name(&name).map_err(|reason| format!("{name:?}: {reason}"))?;
        let env = env.unwrap_or_else(|| vec![format!("{}_KEY", name.to_ascii_uppercase().replace('-', "_"))]);
        let plain = |variable: &String| {
            !variable.is_empty() && variable.len() <= 255 && !variable.contains(['=', '\0'])
        };
        if env.len() > VARIABLES_MAX || !env.iter().all(plain) {
            return Err(format!(
                "env of {name:?} is not at most {VARIABLES_MAX} names of variables"
            ));
        }
        Ok(Self { name, env })
    }
}

/// One name, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a credential: \"NAME\", or name and env")]
enum CredentialForm {
    Name(String),
    Table(Table),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: String,
    env: Option<Names>,
}

impl<'de> Deserialize<'de> for TemplateCredential {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (name, env) = match CredentialForm::deserialize(deserializer)? {
            CredentialForm::Name(name) => (name, None),
            CredentialForm::Table(Table { name, env }) => (
                name,
                env.map(|env| match env {
                    Names::One(name) => vec![name],
                    Names::Many(names) => names,
                }),
            ),
        };
        Self::new(name, env).map_err(serde::de::Error::custom)
    }
}

/// Hosts whose TLS the gateway reads. Written as `true` for all hosts of the session's credentials, or as a list of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Intercept {
    /// None.
    #[default]
    None,
    /// The hosts that the session's credentials are bound to.
    Bound(bool),
    /// These.
    Hosts(Vec<BoundHost>),
}

impl Intercept {
    /// Returns true if no TLS is intercepted.
    pub fn is_none(&self) -> bool {
        match self {
            Self::None => true,
            Self::Bound(on) => !on,
            Self::Hosts(hosts) => hosts.is_empty(),
        }
    }

    /// Returns true if the list contains the host and port.
    pub fn names(&self, host: &Host, port: u16) -> bool {
        match self {
            Self::Hosts(hosts) => hosts.iter().any(|one| one.has(UrlScheme::Https, host, port)),
            Self::None | Self::Bound(_) => false,
        }
    }

    /// Returns true if the hosts of credentials are intercepted.
    pub fn is_bound(&self) -> bool {
        *self == Self::Bound(true)
    }
}

impl<'de> Deserialize<'de> for Intercept {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "true, false or a list of hosts")]
        enum Read {
            Bound(bool),
            Hosts(Vec<String>),
            Nothing(()),
        }
        let bad = <D::Error as serde::de::Error>::custom::<String>;
        match Read::deserialize(deserializer)? {
            Read::Bound(true) => Ok(Self::Bound(true)),
            Read::Bound(false) | Read::Nothing(()) => Ok(Self::None),
            Read::Hosts(hosts) if hosts.len() > MAX_CREDENTIAL_HOSTS => {
                Err(bad(format!("has more than {MAX_CREDENTIAL_HOSTS} hosts")))
            }
            Read::Hosts(hosts) => {
                let hosts: Vec<BoundHost> = hosts
                    .iter()
                    .map(|host| host.parse())
                    .collect::<Result<_, _>>()
                    .map_err(bad)?;
                if hosts.iter().any(|host| host.scheme() == UrlScheme::Http) {
                    return Err(bad("has a host with http://, which has no TLS".to_owned()));
                }
                Ok(Self::Hosts(hosts))
            }
        }
    }
}

impl JsonSchema for Intercept {
    fn schema_name() -> Cow<'static, str> {
        "Intercept".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "boolean" }, { "type": "array", "items": { "type": "string" }, "maxItems": MAX_CREDENTIAL_HOSTS }],
            "description": "Hosts whose TLS the gateway reads: true for those of the credentials, or a list.",
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_credential_of_a_template_has_a_variable_of_its_name() {
        let read = |value: Value| serde_json::from_value::<TemplateCredential>(value);
        assert_eq!(read(json!("my-api")).unwrap().env, ["MY_API_KEY"]);
        assert_eq!(read(json!({"name": "a", "env": "X"})).unwrap().env, ["X"]);
        assert_eq!(
            read(json!({"name": "a", "env": ["X", "Y"]})).unwrap().env,
            ["X", "Y"]
        );
        assert!(read(json!({"name": "a", "env": []})).unwrap().env.is_empty());
        for bad in [
            json!("A"),
            json!("-a"),
            json!("a.b"),
            json!(""),
            json!({"name": "a", "env": "x=y"}),
            json!({"name": "a", "x": 1}),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn intercept_is_stored_as_it_is_written() {
        for value in [json!(true), json!(["a.test", "*.b.test:8443"])] {
            let intercept: Intercept = serde_json::from_value(value.clone()).unwrap();
            assert!(!intercept.is_none());
            assert_eq!(serde_json::to_value(&intercept).unwrap(), value);
        }
        for value in [json!(false), json!(null)] {
            let intercept: Intercept = serde_json::from_value(value).unwrap();
            assert!(intercept.is_none());
            assert_eq!(serde_json::to_value(&intercept).unwrap(), json!(null));
        }
        assert!(serde_json::from_value::<Intercept>(json!(["http://a.test"])).is_err());
    }
}
