//! Definition of a credential: kind, hosts and base URL, without the secret.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::oauth::{OAuth, OAuthFields};
use super::{BoundHost, MAX_CREDENTIAL_HOSTS};

/// Most bytes of a text in a definition.
const TEXT_BYTES: usize = 256;

/// Position of a secret in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialKind {
    /// A header of this name, with its value behind `prefix`.
    Header {
        /// Lower case.
        name: String,
        /// Text before the secret, for example `Token `; may be empty.
        prefix: String,
    },
    /// A parameter of the URL's query.
    Query {
        /// Name of the query parameter.
        parameter: String,
    },
    /// `Authorization: Bearer`.
    Bearer,
    /// `Authorization: Basic`, with this user.
    Basic {
        /// The user.
        user: String,
    },
    /// A signature of the request (AWS Signature Version 4) with a secret key.
    AwsSigV4 {
        /// The id of the key.
        access_key: String,
        /// Region, for example `eu-central-1`; `None`: the region of the original signature.
        region: Option<String>,
        /// Service, for example `s3`; `None`: the service of the original signature.
        service: Option<String>,
    },
    /// `Authorization: Bearer`, with a token that an authorization server gives (OAuth 2.1).
    OAuth(Box<OAuth>),
}

/// A credential without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CredentialFields", into = "CredentialFields")]
pub struct CredentialDefinition {
    hosts: Vec<BoundHost>,
    base: Option<BoundHost>,
    kind: CredentialKind,
}

impl CredentialDefinition {
    /// The hosts that it may be sent to.
    pub fn hosts(&self) -> &[BoundHost] {
        &self.hosts
    }

    /// The host that stands behind its internal name; `None`: it has names below a domain only.
    pub fn base(&self) -> Option<&BoundHost> {
        self.base
            .as_ref()
            .or_else(|| self.hosts.iter().find(|host| host.is_exact()))
    }

    /// Position of the secret in requests.
    pub fn kind(&self) -> &CredentialKind {
        &self.kind
    }
}

/// The members of a definition, as they are written. Which of them are needed follows from `kind`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "CredentialDefinition")]
pub struct CredentialFields {
    /// `header`, `query`, `bearer`, `basic`, `aws_sigv4` or `oauth2`.
    pub kind: String,
    /// Hosts that it is sent to: `api.example.org`, `*.example.org`, `api.example.org:8443`, or `http://…` for plain text.
    pub hosts: Vec<String>,
    /// The host behind the internal name, one of `hosts`. Default: the first one without a wildcard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// For `header`: name of the header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// For `header`: text before the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// For `query`: name of the parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// For `basic`: user name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// For `aws_sigv4`: id of the access key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key: Option<String>,
    /// For `aws_sigv4`: region. Default: the region of the original signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// For `aws_sigv4`: service. Default: the service of the original signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// For `oauth2`: token settings.
    #[serde(flatten)]
    pub oauth: OAuthFields,
}

impl TryFrom<CredentialFields> for CredentialDefinition {
    type Error = String;

    /// # Errors
    /// What is wrong, beginning with the name of the member.
    fn try_from(fields: CredentialFields) -> Result<Self, String> {
        if !(1..=MAX_CREDENTIAL_HOSTS).contains(&fields.hosts.len()) {
            return Err(format!("hosts: are not 1 to {MAX_CREDENTIAL_HOSTS}"));
        }
        let hosts = fields.hosts.iter().map(|host| host.parse());
        let hosts: Vec<BoundHost> = hosts
            .collect::<Result<_, String>>()
            .map_err(|reason| format!("hosts: {reason}"))?;
        let base = fields
            .base_url
            .as_deref()
            .map(|text| base(text, &hosts))
            .transpose()?;
        let kind = kind(&fields)?;
        if let CredentialKind::OAuth(oauth) = &kind
            && let Some(resource) = oauth.resource()
            && !hosts
                .iter()
                .any(|host| host.has(resource.scheme(), resource.host(), resource.port()))
        {
            return Err(format!("resource: {resource} is at none of hosts"));
        }
        for (member, text, kinds) in [
            ("header", &fields.header, "header"),
            ("prefix", &fields.prefix, "header"),
            ("parameter", &fields.parameter, "query"),
            ("user", &fields.user, "basic"),
            ("access_key", &fields.access_key, "aws_sigv4"),
            ("region", &fields.region, "aws_sigv4"),
            ("service", &fields.service, "aws_sigv4"),
            ("grant", &fields.oauth.grant, "oauth2"),
            ("issuer", &fields.oauth.issuer, "oauth2"),
            ("resource", &fields.oauth.resource, "oauth2"),
            ("authorization_url", &fields.oauth.authorization_url, "oauth2"),
            ("token_url", &fields.oauth.token_url, "oauth2"),
            ("client_id", &fields.oauth.client_id, "oauth2"),
            ("scope", &fields.oauth.scope, "oauth2"),
        ] {
            if text.is_some() && fields.kind != kinds {
                return Err(format!("{member}: is for kind {kinds} alone"));
            }
        }
        Ok(Self { hosts, base, kind })
    }
}

fn base(text: &str, hosts: &[BoundHost]) -> Result<BoundHost, String> {
    let base: BoundHost = text.parse().map_err(|reason| format!("base_url: {reason}"))?;
    let bound = |host: &BoundHost| host.has(base.scheme(), base.host(), base.port());
    if !base.is_exact() || !hosts.iter().any(bound) {
        return Err(format!(
            "base_url: {text:?} must be one of the exact hosts in hosts"
        ));
    }
    Ok(base)
}

fn kind(fields: &CredentialFields) -> Result<CredentialKind, String> {
    Ok(match fields.kind.as_str() {
        "header" => CredentialKind::Header {
            name: header_name(fields.header.as_deref())?,
            prefix: printable("prefix", fields.prefix.as_deref().unwrap_or_default())?,
        },
        "query" => CredentialKind::Query {
            parameter: word("parameter", fields.parameter.as_deref())?,
        },
        "bearer" => CredentialKind::Bearer,
        "basic" => {
            let user = printable("user", fields.user.as_deref().unwrap_or_default())?;
            if user.contains(':') {
                return Err("user: has a colon".to_owned());
            }
            CredentialKind::Basic { user }
        }
        "aws_sigv4" => CredentialKind::AwsSigV4 {
            access_key: word("access_key", fields.access_key.as_deref())?,
            region: part_of_scope("region", fields.region.as_deref())?,
            service: part_of_scope("service", fields.service.as_deref())?,
        },
        "oauth2" => CredentialKind::OAuth(Box::new(OAuth::try_from(&fields.oauth)?)),
        "" => return Err("kind: is needed".to_owned()),
        other => {
            return Err(format!(
                "kind: {other:?} must be one of header, query, bearer, basic, aws_sigv4, oauth2"
            ));
        }
    })
}

/// Headers that the gateway writes itself, or that say how a request ends.
const OWN_HEADERS: &[&str] = &[
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "proxy-connection",
    "proxy-authorization",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "accept-encoding",
];

fn header_name(name: Option<&str>) -> Result<String, String> {
    let name = name.ok_or("header: is needed")?.to_ascii_lowercase();
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > TEXT_BYTES || !name.bytes().all(token) {
        return Err("header: must be a header name: letters, digits, '-', '_' and '.'".to_owned());
    }
    if OWN_HEADERS.contains(&name.as_str()) {
        return Err(format!("header: {name} is written by the gateway"));
    }
    Ok(name)
}

/// Text that may stand in a header.
fn printable(member: &str, text: &str) -> Result<String, String> {
    if text.len() > TEXT_BYTES || !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err(format!(
            "{member}: has not at most {TEXT_BYTES} printable ASCII characters"
        ));
    }
    Ok(text.to_owned())
}

fn word(member: &str, text: Option<&str>) -> Result<String, String> {
    let text = text.filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| format!("{member}: is needed"))?;
    if text.len() > TEXT_BYTES
        || !text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.~[]".contains(&byte))
    {
        return Err(format!(
            "{member}: has other characters than letters, digits, '-', '_', '.', '~', '[' and ']'"
        ));
    }
    Ok(text.to_owned())
}

fn part_of_scope(member: &str, text: Option<&str>) -> Result<Option<String>, String> {
    text.map(|text| word(member, Some(text))).transpose()
}

impl From<CredentialDefinition> for CredentialFields {
    fn from(definition: CredentialDefinition) -> Self {
        let mut fields = Self {
            hosts: definition.hosts.iter().map(BoundHost::to_string).collect(),
            base_url: definition
                .base
                .as_ref()
                .map(|base| format!("{}://{}", base.scheme().as_str(), without_scheme(base))),
            ..Self::default()
        };
        let kind = match definition.kind {
            CredentialKind::Header { name, prefix } => {
                fields.header = Some(name);
                fields.prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
                "header"
            }
            CredentialKind::Query { parameter } => {
                fields.parameter = Some(parameter);
                "query"
            }
            CredentialKind::Bearer => "bearer",
            CredentialKind::Basic { user } => {
                fields.user = Some(user);
                "basic"
            }
            CredentialKind::AwsSigV4 {
                access_key,
                region,
                service,
            } => {
                fields.access_key = Some(access_key);
                (fields.region, fields.service) = (region, service);
                "aws_sigv4"
            }
            CredentialKind::OAuth(oauth) => {
                fields.oauth = (*oauth).into();
                "oauth2"
            }
        };
        Self {
            kind: kind.to_owned(),
            ..fields
        }
    }
}

fn without_scheme(base: &BoundHost) -> String {
    let text = base.to_string();
    text.strip_prefix("http://").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> Result<CredentialDefinition, String> {
        CredentialDefinition::try_from(serde_json::from_value::<CredentialFields>(value).unwrap())
    }

    #[test]
    fn a_definition_is_written_as_it_was_read() {
        for value in [
            json!({"kind": "bearer", "hosts": ["api.stripe.com"]}),
            json!({"kind": "header", "hosts": ["*.a.test", "b.test:8443"], "header": "x-api-key", "prefix": "Token "}),
            json!({"kind": "query", "hosts": ["http://a.test"], "parameter": "key"}),
            json!({"kind": "basic", "hosts": ["a.test"], "user": "u"}),
            json!({"kind": "aws_sigv4", "hosts": ["*.amazonaws.com"], "base_url": "https://s3.eu-central-1.amazonaws.com",
                   "access_key": "AKIA", "region": "eu-central-1", "service": "s3"}),
            json!({"kind": "oauth2", "hosts": ["a.test"], "grant": "authorization_code", "resource": "https://a.test/mcp"}),
            json!({"kind": "oauth2", "hosts": ["a.test"], "grant": "client_credentials", "issuer": "https://id.test",
                   "client_id": "c", "scope": "read write"}),
            json!({"kind": "oauth2", "hosts": ["a.test"], "grant": "refresh_token", "token_url": "https://id.test/token", "client_id": "c"}),
        ] {
            let definition = read(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(definition).unwrap(), value);
        }
    }

    #[test]
    fn an_error_names_its_member() {
        for (value, member) in [
            (json!({"hosts": ["a"]}), "kind"),
            (json!({"kind": "x", "hosts": ["a"]}), "kind"),
            (json!({"kind": "bearer"}), "hosts"),
            (json!({"kind": "bearer", "hosts": ["*"]}), "hosts"),
            (
                json!({"kind": "bearer", "hosts": ["a"], "base_url": "https://b"}),
                "base_url",
            ),
            (
                json!({"kind": "bearer", "hosts": ["a"], "base_url": "http://a"}),
                "base_url",
            ),
            (json!({"kind": "bearer", "hosts": ["a"], "header": "x"}), "header"),
            (json!({"kind": "header", "hosts": ["a"]}), "header"),
            (
                json!({"kind": "header", "hosts": ["a"], "header": "Host"}),
                "header",
            ),
            (
                json!({"kind": "header", "hosts": ["a"], "header": "a b"}),
                "header",
            ),
            (
                json!({"kind": "header", "hosts": ["a"], "header": "a", "prefix": "x\r\ny: z"}),
                "prefix",
            ),
            (
                json!({"kind": "query", "hosts": ["a"], "parameter": "a&b"}),
                "parameter",
            ),
            (json!({"kind": "basic", "hosts": ["a"], "user": "a:b"}), "user"),
            (json!({"kind": "aws_sigv4", "hosts": ["a"]}), "access_key"),
            (json!({"kind": "bearer", "hosts": ["a"], "scope": "x"}), "scope"),
            (json!({"kind": "oauth2", "hosts": ["a"]}), "grant"),
            (
                json!({"kind": "oauth2", "hosts": ["a"], "grant": "password"}),
                "grant",
            ),
            (
                json!({"kind": "oauth2", "hosts": ["a"], "grant": "client_credentials", "client_id": "c"}),
                "issuer",
            ),
            (
                json!({"kind": "oauth2", "hosts": ["a"], "grant": "client_credentials", "issuer": "https://i"}),
                "client_id",
            ),
            (
                json!({"kind": "oauth2", "hosts": ["a"], "grant": "authorization_code", "token_url": "https://i/t", "client_id": "c"}),
                "authorization_url",
            ),
            (
                json!({"kind": "oauth2", "hosts": ["a"], "grant": "authorization_code", "authorization_url": "https://i/a", "issuer": "https://i"}),
                "token_url",
            ),
            (
                json!({"kind": "oauth2", "hosts": ["a"], "grant": "authorization_code", "issuer": "http://i"}),
                "issuer",
            ),
            (
                json!({"kind": "oauth2", "hosts": ["a"], "grant": "authorization_code", "resource": "https://b"}),
                "resource",
            ),
            (
                json!({"kind": "oauth2", "hosts": ["a"], "grant": "authorization_code", "issuer": "https://i", "scope": "a\u{e4}"}),
                "scope",
            ),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert!(error.starts_with(&format!("{member}: ")), "{value}: {error}");
        }
    }

    #[test]
    fn the_base_is_the_first_host_that_is_one() {
        let base = |hosts: &[&str]| {
            let definition = read(json!({"kind": "bearer", "hosts": hosts})).unwrap();
            definition.base().map(BoundHost::to_string)
        };
        assert_eq!(base(&["*.a.test", "b.test", "c.test"]).as_deref(), Some("b.test"));
        assert_eq!(base(&["*.a.test"]), None);
    }
}
