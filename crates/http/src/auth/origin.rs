//! Decides which web pages may call, by `Origin`.
//!
//! No `Origin` header: a script, allowed. An origin whose host and port are those of the `Host` header: our own pages,
//! allowed. Otherwise the origin must be in the configured list, character by character. `null` (sandboxed frames,
//! files) never is.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};

/// Origins that browsers may call from, beside our own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedOrigins(Vec<String>);

impl AllowedOrigins {
    /// From a list of origins such as `https://lab.example.org`, or `*` for any (but still not `null`).
    pub fn new(origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(
            origins
                .into_iter()
                .map(|o| o.into().trim_end_matches('/').to_owned())
                .collect(),
        )
    }

    fn contains(&self, origin: &str) -> bool {
        self.0.iter().any(|o| o == "*" || o == origin)
    }
}

/// The origin of a request, judged by its header `Origin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// No header, or our own page.
    Own,
    /// Another page that is allowed: the value to name in CORS headers.
    Allowed(String),
    /// A page that is not.
    Refused,
}

/// Judges the `Origin` header of a request.
pub(crate) fn judge(headers: &HeaderMap, allowed: &AllowedOrigins) -> Origin {
    let mut values = headers.get_all(header::ORIGIN).iter();
    let Some(value) = values.next() else {
        return Origin::Own;
    };
    let (Ok(origin), None) = (value.to_str(), values.next()) else {
        return Origin::Refused;
    };
    let Some((scheme, authority)) = origin.split_once("://") else {
        return Origin::Refused;
    };
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok());
    let web = scheme == "http" || scheme == "https";
    if web && host.is_some_and(|h| h.eq_ignore_ascii_case(authority)) {
        return Origin::Own;
    }
    if allowed.contains(origin) {
        Origin::Allowed(origin.to_owned())
    } else {
        Origin::Refused
    }
}

/// Checks whether a page that seems to be our own is at a name that any owner of a domain can give to this machine (DNS rebinding): neither
/// an address, nor `localhost`, nor in the list.
pub(crate) fn may_be_rebound(headers: &HeaderMap, allowed: &AllowedOrigins) -> bool {
    let Some(origin) = headers.get(header::ORIGIN).and_then(|o| o.to_str().ok()) else {
        return false;
    };
    let authority = origin
        .split_once("://")
        .map_or(origin, |(_, authority)| authority);
    let Ok(authority) = authority.parse::<Authority>() else {
        return true;
    };
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let ours = host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok();
    !ours && !allowed.contains(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(origin: &str, allowed: &[&str]) -> Origin {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "gw.example:8888".parse().unwrap());
        headers.insert(header::ORIGIN, origin.parse().unwrap());
        judge(&headers, &AllowedOrigins::new(allowed.iter().copied()))
    }

    #[test]
    fn own_pages_and_scripts_pass() {
        assert_eq!(judge(&HeaderMap::new(), &AllowedOrigins::default()), Origin::Own);
        assert_eq!(judged("http://gw.example:8888", &[]), Origin::Own);
        assert_eq!(judged("https://GW.example:8888", &[]), Origin::Own);
    }

    #[test]
    fn the_list_matches_exactly() {
        let list = ["https://trusted.example.com"];
        assert_eq!(
            judged("https://trusted.example.com", &list),
            Origin::Allowed("https://trusted.example.com".into())
        );
        for bad in [
            "https://trusted.example.com.evil.com",
            "https://eviltrusted.example.com",
            "http://trusted.example.com",
            "https://trusted.example.com:444",
            "https://trusted.example.com.",
            "https://TRUSTED.example.com",
            "null",
            "",
            "gw.example:8888",
            "file://gw.example:8888",
            "http://gw.example",
            "http://gw.example:8888.evil.com",
        ] {
            assert_eq!(judged(bad, &list), Origin::Refused, "{bad}");
        }
    }

    #[test]
    fn names_that_can_be_rebound_are_no_address_and_not_in_the_list() {
        let rebound = |origin: &str, allowed: &[&str]| {
            let headers = HeaderMap::from_iter([(header::ORIGIN, origin.parse().unwrap())]);
            may_be_rebound(&headers, &AllowedOrigins::new(allowed.iter().copied()))
        };
        for own in [
            "http://127.0.0.1:8888",
            "http://[::1]:8888",
            "http://LOCALHOST",
            "https://10.1.2.3",
        ] {
            assert!(!rebound(own, &[]), "{own}");
        }
        for name in [
            "http://evil.example:8888",
            "http://127.0.0.1.evil.example",
            "http://localhost.evil.example",
            "http://",
        ] {
            assert!(rebound(name, &[]), "{name}");
        }
        assert!(!rebound("https://gw.example", &["https://gw.example"]));
        assert!(!may_be_rebound(&HeaderMap::new(), &AllowedOrigins::default()));
    }

    #[test]
    fn the_star_does_not_cover_null() {
        assert_eq!(judged("null", &["*"]), Origin::Refused);
        assert!(matches!(judged("https://a.b", &["*"]), Origin::Allowed(_)));
    }
}
