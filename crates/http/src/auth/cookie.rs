//! The cookie of a browser that signed in.
//!
//! Cookies know no ports, so its name has the port that the browser calls: gateways on one host do not sign each other's
//! users out.

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method, header};

/// Values that are looked at in one request; several stand there where base URLs are inside of each other.
const MOST: usize = 8;

/// The values that a request has.
pub(crate) fn presented(headers: &HeaderMap) -> Vec<&str> {
    let name = name(headers);
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(given, _)| *given == name)
        .map(|(_, value)| value)
        .take(MOST)
        .collect()
}

/// `Set-Cookie` for a sign-in, or with an empty value for its end. `base` is the base URL without its last slash.
pub(crate) fn set(request: &HeaderMap, base: &str, value: &str) -> Option<HeaderValue> {
    let secure = if is_https(request) { "; Secure" } else { "" };
    let end = if value.is_empty() { "; Max-Age=0" } else { "" };
    let name = name(request);
    let text = format!("{name}={value}; Path={base}/; HttpOnly; SameSite=Strict{secure}{end}");
    HeaderValue::from_str(&text).ok()
}

/// Whether the cookie of a request counts. It has to come from a page of the gateway itself: browsers also send it for pages of
/// other ports of its host, which are the same site.
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

/// Whether the browser calls by TLS, as far as that can be known: a proxy says so, or the page's origin does.
pub(crate) fn is_https(headers: &HeaderMap) -> bool {
    let forwarded = headers.get("x-forwarded-proto").map(HeaderValue::as_bytes);
    let origin = headers.get(ORIGIN).map(HeaderValue::as_bytes);
    forwarded.is_some_and(|proto| proto.eq_ignore_ascii_case(b"https"))
        || origin.is_some_and(|origin| origin.starts_with(b"https://"))
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
    fn it_is_as_narrow_as_can_be() {
        let set = |pairs: &[(&'static str, &str)], base, value| {
            let set = set(&headers(pairs), base, value).unwrap();
            set.to_str().unwrap().to_owned()
        };
        assert_eq!(
            set(&[("host", "h:1")], "", "v"),
            "himalia-1=v; Path=/; HttpOnly; SameSite=Strict"
        );
        assert_eq!(
            set(&[("host", "h"), ("origin", "https://h")], "/a/b", "v"),
            "himalia=v; Path=/a/b/; HttpOnly; SameSite=Strict; Secure"
        );
        assert_eq!(
            set(&[("host", "h"), ("x-forwarded-proto", "https")], "", ""),
            "himalia=; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=0"
        );
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
