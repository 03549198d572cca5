//! A host that a credential may be sent to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::network::Host;

/// Scheme of requests to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UrlScheme {
    /// Over TLS, with a verified certificate.
    Https,
    /// In plain text, for hosts of a trusted network.
    Http,
}

impl UrlScheme {
    /// As in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }

    /// The port of a URL that names none.
    pub fn port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }
}

/// A host, or all names below one, with scheme and port. Written as `api.example.org`, `*.example.org`, `api.example.org:8443` or
/// `http://intern.example.org`; without a scheme it is `https`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BoundHost {
    scheme: UrlScheme,
    /// Names below `host` instead of itself.
    below: bool,
    host: Host,
    port: u16,
}

impl BoundHost {
    /// Returns true for this host and port with this scheme.
    pub fn has(&self, scheme: UrlScheme, host: &Host, port: u16) -> bool {
        let named = match (&self.host, host) {
            (Host::Name(domain), Host::Name(name)) if self.below => name
                .strip_suffix(domain.as_str())
                .is_some_and(|front| front.len() > 1 && front.ends_with('.')),
            (own, other) => !self.below && own == other,
        };
        named && self.scheme == scheme && self.port == port
    }

    /// Returns true if the pattern names exactly one host.
    pub fn is_exact(&self) -> bool {
        !self.below
    }

    /// Scheme of the requests.
    pub fn scheme(&self) -> UrlScheme {
        self.scheme
    }

    /// The host, or the one whose names below it are meant.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for BoundHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |reason: &str| format!("{text:?} {reason}");
        let (scheme, rest) = match text.split_once("://") {
            Some(("https", rest)) => (UrlScheme::Https, rest),
            Some(("http", rest)) => (UrlScheme::Http, rest),
            Some(_) => return Err(bad("is neither https:// nor http://")),
            None => (UrlScheme::Https, text),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.rsplit_once(':') {
            // An IPv6 address without a port.
            Some((host, _)) if host.contains(':') && !host.ends_with(']') => (rest, None),
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        };
        let port = match port {
            None => scheme.port(),
            Some(port) => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| bad("has no port from 1 to 65535"))?,
        };
        let (below, host) = match host.strip_prefix("*.") {
            Some(domain) => (true, domain),
            None => (false, host),
        };
        let host = Host::parse(host).map_err(bad)?;
        if below && matches!(host, Host::Address(_)) {
            return Err(bad("needs a host name after '*.'"));
        }
        Ok(Self {
            scheme,
            below,
            host,
            port,
        })
    }
}

impl fmt::Display for BoundHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scheme == UrlScheme::Http {
            f.write_str("http://")?;
        }
        if self.below {
            f.write_str("*.")?;
        }
        self.host.fmt(f)?;
        if self.port == self.scheme.port() {
            return Ok(());
        }
        write!(f, ":{}", self.port)
    }
}

impl TryFrom<String> for BoundHost {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<BoundHost> for String {
    fn from(host: BoundHost) -> Self {
        host.to_string()
    }
}

#[cfg(test)]
mod tests {
    use UrlScheme::{Http, Https};

    use super::*;

    #[test]
    fn a_host_is_bound_with_its_scheme_and_port() {
        let bound = |text: &str| text.parse::<BoundHost>().unwrap();
        let has =
            |text: &str, scheme, host: &str, port| bound(text).has(scheme, &Host::parse(host).unwrap(), port);
        assert!(has("api.example.org", Https, "API.example.org", 443));
        assert!(!has("api.example.org", Http, "api.example.org", 443));
        assert!(!has("api.example.org", Https, "api.example.org", 8443));
        assert!(!has("api.example.org", Https, "x.api.example.org", 443));
        assert!(has("*.example.org", Https, "a.b.example.org", 443));
        assert!(!has("*.example.org", Https, "example.org", 443));
        assert!(!has("*.example.org", Https, "evilexample.org", 443));
        assert!(has("http://a.test:81/", Http, "a.test", 81));
        for text in [
            "api.example.org",
            "*.example.org:8443",
            "http://a.test",
            "http://[::1]:8080",
        ] {
            assert_eq!(bound(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            "*",
            "ftp://a",
            "a:0",
            "a:x",
            "*.10.0.0.1",
            "a/b",
            "https://a/b",
            "user@a",
        ] {
            assert!(text.parse::<BoundHost>().is_err(), "{text}");
        }
    }
}
