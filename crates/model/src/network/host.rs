//! A host as a client or a rule names it.

use std::fmt;
use std::net::IpAddr;

/// Most bytes of a name (RFC 1035).
const NAME_BYTES: usize = 253;
/// Most bytes of a label.
const LABEL_BYTES: usize = 63;

/// A host, in its one spelling: lower case, without a dot at the end, an address as an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name that is resolved.
    Name(String),
    /// An address.
    Address(IpAddr),
}

impl Host {
    /// Reads a host. An IPv6 address may have brackets.
    ///
    /// # Errors
    /// What is wrong with it, as in "is ...". Names are ASCII (IDNA in its `xn--` form), and none of them could be read as an
    /// address in an unusual spelling, such as `0x7f.1` or `2130706433`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse::<IpAddr>() {
            if bare.is_some() && address.is_ipv4() {
                return Err("is not an IPv6 address in brackets");
            }
            return Ok(Self::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.is_empty() || name.len() > NAME_BYTES {
            return Err("is not a host: it must have 1 to 253 characters");
        }
        let label = |label: &str| {
            (1..=LABEL_BYTES).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|byte| byte == b'-' || byte == b'_' || byte.is_ascii_alphanumeric())
        };
        if !name.split('.').all(label) {
            return Err(
                "is not a host: it may have letters, digits, '-' and '_' between dots (IDNA as xn--)",
            );
        }
        // What the resolver of the system would read as an address.
        let last = name.rsplit('.').next().unwrap_or_default();
        if last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") {
            return Err("is not a host: a name must not end with a number");
        }
        Ok(Self::Name(name))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_spelling() {
        let name = |text: &str| Host::Name(text.to_owned());
        assert_eq!(Host::parse("PyPI.org."), Ok(name("pypi.org")));
        assert_eq!(Host::parse("_dmarc.a-b.example"), Ok(name("_dmarc.a-b.example")));
        let v4 = Host::Address("10.0.0.1".parse().unwrap());
        for text in ["10.0.0.1", "::ffff:10.0.0.1", "[::ffff:a00:1]"] {
            assert_eq!(Host::parse(text), Ok(v4.clone()), "{text}");
        }
        assert_eq!(Host::parse("[2001:DB8::1]").unwrap().to_string(), "[2001:db8::1]");
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            ".",
            "a..b",
            "a b",
            "a/b",
            "a@b",
            "a:80",
            "-a.b",
            "a-.b",
            "ü.example",
            "*.a.b",
            "0x7f.1",
            "2130706433",
            "127.1",
            "a.0x1",
            "[10.0.0.1]",
            "[::1",
            "a\0b",
            "a\r\nb",
        ] {
            assert!(Host::parse(text).is_err(), "{text:?}");
        }
        assert!(Host::parse(&"a".repeat(64)).is_err());
        assert!(Host::parse(&["a"; 128].join(".")).is_err());
    }
}
