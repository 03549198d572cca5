//! One rule of a list of what a session may reach.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::Host;

/// Ports of a rule that names none.
const PORTS: [u16; 2] = [80, 443];
/// Most ports of a rule.
const PORTS_MAX: usize = 32;
/// Most methods of a rule.
const METHODS_MAX: usize = 16;
/// Most bytes of a method.
const METHOD_BYTES: usize = 32;

/// Hosts, ports and methods that a session may reach. Written as `HOST` or `HOST:PORT`, or as a table with `host`, `ports` and
/// `methods`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "RuleForm")]
pub struct Rule {
    hosts: Hosts,
    /// Sorted; never empty.
    ports: Vec<u16>,
    /// Upper case, sorted; empty: all.
    methods: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    /// `*`: every name, and no address.
    AllNames,
    /// `*.example.org`: names below it, not itself.
    Below(String),
    One(Host),
}

/// Kind of access to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access<'a> {
    /// Bytes that the gateway does not read, such as TLS: no method can be checked.
    Tunnel,
    /// HTTP with this method.
    Request(&'a str),
    /// HTTP, of which each request is checked.
    Http,
}

impl Rule {
    /// Checks the parts of a rule. No ports: 80 and 443. No methods: all.
    ///
    /// # Errors
    /// What is wrong, naming the member.
    pub fn new(host: &str, ports: &[u16], methods: &[String]) -> Result<Self, String> {
        let bad_host = |reason| format!("host {host:?} {reason}");
        let hosts = if host == "*" {
            Hosts::AllNames
        } else if let Some(domain) = host.strip_prefix("*.") {
            match Host::parse(domain).map_err(bad_host)? {
                Host::Name(name) => Hosts::Below(name),
                Host::Address(_) => return Err(bad_host("needs a host name after '*.'")),
            }
        } else {
            Hosts::One(Host::parse(host).map_err(bad_host)?)
        };
        if ports.len() > PORTS_MAX || ports.contains(&0) {
            return Err(format!(
                "ports of {host:?} are not at most {PORTS_MAX} from 1 to 65535"
            ));
        }
        let mut ports = if ports.is_empty() {
            PORTS.to_vec()
        } else {
            ports.to_vec()
        };
        ports.sort_unstable();
        ports.dedup();
        let method = |method: &String| {
            (1..=METHOD_BYTES).contains(&method.len())
                && method.bytes().all(|byte| byte.is_ascii_alphabetic())
        };
        if methods.len() > METHODS_MAX || !methods.iter().all(method) {
            return Err(format!(
                "methods of {host:?} are not at most {METHODS_MAX} such as GET"
            ));
        }
        let mut methods: Vec<String> = methods.iter().map(|method| method.to_ascii_uppercase()).collect();
        methods.sort_unstable();
        methods.dedup();
        Ok(Self {
            hosts,
            ports,
            methods,
        })
    }

    /// Returns true if the rule allows the access.
    pub fn permits(&self, host: &Host, port: u16, access: Access<'_>) -> bool {
        let methods = match access {
            Access::Tunnel => self.methods.is_empty(),
            Access::Http => true,
            Access::Request(method) => {
                self.methods.is_empty() || self.methods.iter().any(|one| one == method)
            }
        };
        methods && self.ports.contains(&port) && self.hosts.have(host)
    }

    /// Returns true if `others` together allow everything that this rule allows.
    pub(super) fn is_within(&self, others: &[Self]) -> bool {
        let methods = |other: &Self| {
            other.methods.is_empty()
                || (!self.methods.is_empty() && self.methods.iter().all(|one| other.methods.contains(one)))
        };
        self.ports.iter().all(|port| {
            let covers =
                |other: &Self| other.ports.contains(port) && methods(other) && other.hosts.cover(&self.hosts);
            others.iter().any(covers)
        })
    }
}

impl Hosts {
    fn have(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::AllNames, Host::Name(_)) => true,
            (Self::Below(domain), Host::Name(name)) => is_below(name, domain),
            (Self::One(one), host) => one == host,
            (_, Host::Address(_)) => false,
        }
    }

    fn cover(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::One(host)) => self.have(host),
            (Self::AllNames, _) => true,
            (Self::Below(domain), Self::Below(below)) => below == domain || is_below(below, domain),
            _ => false,
        }
    }
}

fn is_below(name: &str, domain: &str) -> bool {
    let front = name.strip_suffix(domain);
    front.is_some_and(|front| front.len() > 1 && front.ends_with('.'))
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.methods.is_empty() {
            write!(f, "{} ", self.methods.join(","))?;
        }
        self.hosts.fmt(f)?;
        if self.ports == PORTS {
            return Ok(());
        }
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        write!(f, ":{}", ports.join(","))
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllNames => f.write_str("*"),
            Self::Below(domain) => write!(f, "*.{domain}"),
            Self::One(host) => host.fmt(f),
        }
    }
}

impl FromStr for Rule {
    type Err = String;

    /// Reads `HOST` or `HOST:PORT`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = match text.rsplit_once(':') {
            // An IPv6 address without a port.
            Some((host, _)) if host.contains(':') && !host.ends_with(']') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let port = port.map(|port| {
            port.parse::<u16>()
                .map_err(|_| format!("port of {text:?} is not from 1 to 65535"))
        });
        Self::new(host, port.transpose()?.as_slice(), &[])
    }
}

/// The spelling of a rule.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "NetworkRule")]
enum RuleForm {
    /// `HOST` or `HOST:PORT`.
    Short(String),
    /// With ports and methods.
    Full(FullRule),
}

/// A rule with ports and methods.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FullNetworkRule")]
struct FullRule {
    /// `example.org`, `*.example.org` for the names below it, or `*` for every name.
    host: String,
    /// Without any: 80 and 443.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ports: Vec<u16>,
    /// Methods of plain HTTP; without any, all. A rule with methods allows no TLS, in which they cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    methods: Vec<String>,
}

impl<'de> Deserialize<'de> for Rule {
    /// Unlike a derived form, an error says what is wrong.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Rule;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rule: \"HOST\", \"HOST:PORT\", or host, ports and methods")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Rule, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Rule, A::Error> {
        let FullRule { host, ports, methods } = FullRule::deserialize(MapAccessDeserializer::new(map))?;
        Rule::new(&host, &ports, &methods).map_err(de::Error::custom)
    }
}

impl From<Rule> for RuleForm {
    fn from(rule: Rule) -> Self {
        let text = rule.to_string();
        if rule.methods.is_empty() && (rule.ports == PORTS || rule.ports.len() == 1) {
            return Self::Short(text);
        }
        let ports = if rule.ports == PORTS {
            Vec::new()
        } else {
            rule.ports
        };
        Self::Full(FullRule {
            host: rule.hosts.to_string(),
            ports,
            methods: rule.methods,
        })
    }
}

impl JsonSchema for Rule {
    fn inline_schema() -> bool {
        RuleForm::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        RuleForm::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        RuleForm::json_schema(generator)
    }
}
