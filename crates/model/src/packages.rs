//! The index of packages that sessions use through the gateway.

use std::fmt;

use crate::network::{Access, AllowList, Host};

/// An index of packages, as the operator names it.
#[derive(Clone, PartialEq, Eq)]
pub struct PackageIndex {
    /// Base URL, with an optional user name and password.
    pub url: String,
    /// Host of the URL.
    pub host: Host,
    /// Port of the URL.
    pub port: u16,
    /// True for HTTP without TLS.
    pub plain: bool,
    /// Bytes of files that are kept.
    pub cache_bytes: u64,
}

impl PackageIndex {
    /// Reads a URL of `http` or `https`.
    ///
    /// # Errors
    /// What is wrong with it, as in "is ...". The URL is not repeated.
    pub fn parse(url: &str, cache_bytes: u64) -> Result<Self, String> {
        let (plain, rest) = match url.split_once("://") {
            Some(("https", rest)) => (false, rest),
            Some(("http", rest)) => (true, rest),
            _ => return Err("is not a URL of http or https".to_owned()),
        };
        if rest.contains(['?', '#']) || rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("is more than a base URL such as https://pypi.org/simple/".to_owned());
        }
        let authority = rest.split('/').next().unwrap_or_default();
        let place = authority.rsplit('@').next().unwrap_or_default();
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let port = port.parse().ok().filter(|port| *port > 0);
                (host, port.ok_or("has a port that is not 1 to 65535")?)
            }
            _ => (place, if plain { 80 } else { 443 }),
        };
        let host = Host::parse(host).map_err(|reason| format!("has a host that {reason}"))?;
        Ok(Self {
            url: url.to_owned(),
            host,
            port,
            plain,
            cache_bytes,
        })
    }

    /// Returns true if a session with this allow list may use the index.
    pub fn is_permitted(&self, list: &AllowList) -> bool {
        list.permits(&self.host, self.port, self.access())
    }

    /// Access that a session needs to read the index.
    pub fn access(&self) -> Access<'static> {
        if self.plain {
            Access::Request("GET")
        } else {
            Access::Tunnel
        }
    }
}

impl fmt::Debug for PackageIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PackageIndex({}:{}, {} bytes)",
            self.host, self.port, self.cache_bytes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_a_port() {
        let read = |url: &str| {
            PackageIndex::parse(url, 1).map(|index| (index.host.to_string(), index.port, index.plain))
        };
        assert_eq!(
            read("https://pypi.org/simple/"),
            Ok(("pypi.org".to_owned(), 443, false))
        );
        assert_eq!(
            read("http://me:p:w@Index.test:8080/a"),
            Ok(("index.test".to_owned(), 8080, true))
        );
        assert_eq!(read("http://[::1]:81"), Ok(("[::1]".to_owned(), 81, true)));
        assert_eq!(read("http://[::1]/"), Ok(("[::1]".to_owned(), 80, true)));
        for bad in [
            "pypi.org",
            "ftp://a/",
            "https://",
            "https://a:b/",
            "https://a:0/",
            "https://a/?b=1",
            "https://a b/",
            "https://a_ /",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let secret = PackageIndex::parse("https://me:secret@a.test/", 1).unwrap();
        assert!(!format!("{secret:?}").contains("secret"));
    }

    #[test]
    fn a_list_that_has_it_permits_it() {
        let index = PackageIndex::parse("https://pypi.org/simple/", 1).unwrap();
        let list = |text: &str| serde_json::from_str::<AllowList>(text).unwrap();
        assert!(index.is_permitted(&list("[\"pypi.org\"]")) && index.is_permitted(&list("[\"*\"]")));
        assert!(
            !index.is_permitted(&list("[\"pypi.org:80\"]"))
                && !index.is_permitted(&list("[\"files.pythonhosted.org\"]"))
        );
    }
}
