//! The cookie of a browser that signed in.
//!
//! Cookies know no ports, so its name has the port that the browser calls: gateways on one host do not sign each other's
//! users out. Over TLS the name has the prefix that browsers keep for what a page of this host has set over TLS: no other host of the
//! domain, and no page without TLS, can put a cookie in its place.

use std::time::Duration;

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};

/// Values that are looked at in one request; several stand there where base URLs are inside of each other.
const MOST: usize = 8;

/// Prefix of the name of a secure cookie for all paths of its host, and of another secure one.
const PREFIXES: [&str; 2] = ["__Host-", "__Secure-"];

/// The path below the base URL of the cookie of a sign-in that is under way.
const FLOW_PATH: &str = "/viewer/oidc";

/// The values that a request has.
pub(crate) fn presented(headers: &HeaderMap) -> Vec<&str> {
    named(headers, &name(headers))
}

/// The same of the cookie of a sign-in that is under way.
pub(crate) fn flows(headers: &HeaderMap) -> Vec<&str> {
    named(headers, &flow_name(headers))
}

/// With a prefix, which no page without TLS can have given it. Without one only if the browser does not call by TLS.
fn named<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let plain = !is_https(headers);
    let is_it = |given: &str| {
        let prefixed = PREFIXES.iter().find_map(|prefix| given.strip_prefix(prefix));
        prefixed.map_or(plain && given == name, |given| given == name)
    };
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(given, _)| is_it(given))
        .map(|(_, value)| value)
        .take(MOST)
        .collect()
}

/// A cookie that is to be set.
#[derive(Debug)]
pub(crate) struct Cookie {
    path: String,
    same_site: &'static str,
    is_secure: bool,
    lifetime: Option<Duration>,
    name: fn(&HeaderMap) -> String,
}

impl Cookie {
    /// The cookie of a sign-in. `base` is the base URL without its last slash. `is_secure`: browsers call by TLS, whatever a request shows.
    pub(crate) fn of_sign_in(base: &str, is_secure: bool) -> Self {
        Self {
            path: format!("{base}/"),
            same_site: "Strict",
            is_secure,
            lifetime: None,
            name,
        }
    }

    /// The cookie of a sign-in that is in progress at an identity provider. The provider's page sends the browser back, from another site:
    /// `Lax`.
    pub(crate) fn of_flow(base: &str, is_secure: bool, lifetime: Duration) -> Self {
        Self {
            path: format!("{base}{FLOW_PATH}"),
            same_site: "Lax",
            is_secure,
            lifetime: Some(lifetime),
            name: flow_name,
        }
    }

    /// `Set-Cookie` in the answer to this request; an empty value ends the cookie.
    pub(crate) fn set(&self, request: &HeaderMap, value: &str) -> Option<HeaderValue> {
        let [of_host, of_path] = PREFIXES;
        let (prefix, secure) = match self.is_secure || is_https(request) {
            true if self.path == "/" => (of_host, "; Secure"),
            true => (of_path, "; Secure"),
            false => ("", ""),
        };
        let age = match self.lifetime {
            _ if value.is_empty() => "; Max-Age=0".to_owned(),
            Some(time) => format!("; Max-Age={}", time.as_secs()),
            None => String::new(),
        };
        let (name, path, same_site) = ((self.name)(request), &self.path, self.same_site);
        let text =
            format!("{prefix}{name}={value}; Path={path}; HttpOnly; SameSite={same_site}{secure}{age}");
        HeaderValue::from_str(&text).ok()
    }
}

/// Checks whether the cookie of a request is accepted. The request has to come from a page of the gateway itself: browsers also send it for
/// pages of other ports of its host, which are the same site.
///
/// `Origin` has been judged before ([`judge`](super::origin::judge)); here it is the gateway's own, or absent. Browsers leave it
/// away only where nothing is changed.
pub(crate) fn counts(method: &Method, headers: &HeaderMap, is_own: bool) -> bool {
    if headers.contains_key(ORIGIN) {
        return is_own;
    }
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let harmless = method == Method::GET || method == Method::HEAD;
    harmless
        && !headers.contains_key(header::UPGRADE)
        && !headers.contains_key(header::SEC_WEBSOCKET_KEY)
        && matches!(site, None | Some(b"same-origin" | b"none"))
}

/// Returns true if the browser calls by TLS, as far as that can be known: a proxy says so, or the origin of the gateway's own page does.
pub(crate) fn is_https(headers: &HeaderMap) -> bool {
    let bytes = |name: HeaderName| headers.get(name).map(HeaderValue::as_bytes);
    let forwarded = bytes(HeaderName::from_static("x-forwarded-proto"));
    let origin = bytes(ORIGIN).and_then(|origin| origin.strip_prefix(b"https://"));
    forwarded.is_some_and(|proto| proto.eq_ignore_ascii_case(b"https"))
        || origin.is_some_and(|page| bytes(HOST).is_some_and(|host| page.eq_ignore_ascii_case(host)))
}

fn flow_name(headers: &HeaderMap) -> String {
    format!("{}-oidc", name(headers))
}

fn name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let port = host.and_then(|host| host.rsplit_once(':')).map(|(_, port)| port);
    match port.filter(|port| (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit())) {
        Some(port) => format!("himalia-{port}"),
        None => "himalia".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn it_is_found_by_the_port() {
        let request = headers(&[
            ("host", "127.0.0.1:8888"),
            ("cookie", "himalia=a; himalia-8888=b;himalia-9999=c"),
            ("cookie", "himalia-8888=d"),
        ]);
        assert_eq!(presented(&request), ["b", "d"]);
        for host in ["gw.example", "[::1]", "gw.example:x", "gw.example:"] {
            let request = headers(&[("host", host), ("cookie", "himalia=a; himalia-8888=b")]);
            assert_eq!(presented(&request), ["a"], "{host}");
        }
    }

    #[test]
    fn over_tls_only_a_name_with_a_prefix_counts() {
        let all = "himalia-1=a; __Host-himalia-1=b; __Secure-himalia-1=c; __Host-himalia-2=d; __Host-himalia-1-oidc=e";
        let plain = headers(&[("host", "h:1"), ("cookie", all)]);
        assert_eq!(
            (presented(&plain), flows(&plain)),
            (vec!["a", "b", "c"], vec!["e"])
        );
        for (name, value) in [("x-forwarded-proto", "https"), ("origin", "https://h:1")] {
            let secure = headers(&[("host", "h:1"), ("cookie", all), (name, value)]);
            assert_eq!(presented(&secure), ["b", "c"], "{name}");
        }
    }

    #[test]
    fn it_is_as_narrow_as_can_be() {
        let set = |pairs: &[(&'static str, &str)], base, value| {
            let set = Cookie::of_sign_in(base, false)
                .set(&headers(pairs), value)
                .unwrap();
            set.to_str().unwrap().to_owned()
        };
        assert_eq!(
            set(&[("host", "h:1")], "", "v"),
            "himalia-1=v; Path=/; HttpOnly; SameSite=Strict"
        );
        assert_eq!(
            set(&[("host", "h"), ("origin", "https://h")], "/a/b", "v"),
            "__Secure-himalia=v; Path=/a/b/; HttpOnly; SameSite=Strict; Secure"
        );
        assert_eq!(
            set(&[("host", "h"), ("x-forwarded-proto", "https")], "", ""),
            "__Host-himalia=; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=0"
        );
    }

    #[test]
    fn that_of_a_sign_in_under_way_is_sent_back_from_another_site() {
        let cookie = Cookie::of_flow("/a", true, Duration::from_mins(10));
        let set = |value| {
            let set = cookie.set(&headers(&[("host", "h:1")]), value).unwrap();
            set.to_str().unwrap().to_owned()
        };
        let narrow = "Path=/a/viewer/oidc; HttpOnly; SameSite=Lax; Secure";
        assert_eq!(
            set("v"),
            format!("__Secure-himalia-1-oidc=v; {narrow}; Max-Age=600")
        );
        assert_eq!(set(""), format!("__Secure-himalia-1-oidc=; {narrow}; Max-Age=0"));
        let request = headers(&[("host", "h:1"), ("cookie", "himalia-1=s; himalia-1-oidc=f")]);
        assert_eq!((presented(&request), flows(&request)), (vec!["s"], vec!["f"]));
    }

    #[test]
    fn it_counts_for_own_pages() {
        let counts = |method: &str, pairs: &[(&'static str, &str)], is_own| {
            super::counts(&method.parse().unwrap(), &headers(pairs), is_own)
        };
        assert!(counts("GET", &[], true));
        assert!(counts("HEAD", &[("sec-fetch-site", "none")], true));
        assert!(counts("POST", &[("origin", "http://h")], true));
        assert!(!counts("POST", &[], true));
        assert!(!counts("DELETE", &[("sec-fetch-site", "same-origin")], true));
        assert!(!counts("GET", &[("sec-fetch-site", "same-site")], true));
        assert!(!counts("GET", &[("origin", "http://allowed")], false));
        assert!(!counts("GET", &[("sec-websocket-key", "x")], true));
        assert!(counts(
            "GET",
            &[("sec-websocket-key", "x"), ("origin", "http://h")],
            true
        ));
    }
}
