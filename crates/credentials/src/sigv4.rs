//! AWS Signature Version 4, in a header of the request.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HOST};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::macros::format_description;

use crate::mask::percent_encoded;

/// Services whose paths are encoded once, and are not normalised.
const S3: &[&str] = &["s3", "s3-object-lambda", "s3express"];
/// Characters besides letters and digits that stay as they are.
const UNRESERVED: &str = "-_.~";

/// Key and scope of a signature.
#[derive(Clone, Copy)]
pub(crate) struct Signing<'a> {
    pub(crate) access_key: &'a str,
    pub(crate) secret_key: &'a str,
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
    pub(crate) now: OffsetDateTime,
}

/// True if the hash of a body may be left out of a signature, over TLS.
pub(crate) fn is_s3(service: &str) -> bool {
    S3.contains(&service)
}

/// The time as in `x-amz-date`.
pub(crate) fn date(now: OffsetDateTime) -> String {
    now.format(format_description!("[year][month][day]T[hour][minute][second]Z"))
        .unwrap_or_default()
}

impl Signing<'_> {
    /// The value of `authorization` for a request, whose headers `host` and `x-amz-date` are set.
    pub(crate) fn authorization(
        &self,
        method: &str,
        path: &str,
        query: &str,
        headers: &HeaderMap,
        payload_hash: &str,
    ) -> String {
        let (signed, canonical) = canonical_headers(headers);
        let request = [
            method,
            &self.canonical_path(path),
            &canonical_query(query),
            &canonical,
            &signed,
            payload_hash,
        ]
        .join("\n");
        let date = date(self.now);
        let day = date.get(..8).unwrap_or_default();
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let to_sign = format!(
            "AWS4-HMAC-SHA256\n{date}\n{scope}\n{}",
            hex::encode(Sha256::digest(request.as_bytes()))
        );
        let mut key = keyed(format!("AWS4{}", self.secret_key).as_bytes(), day.as_bytes());
        for part in [self.region, self.service, "aws4_request"] {
            key = keyed(&key, part.as_bytes());
        }
        let signature = hex::encode(keyed(&key, to_sign.as_bytes()));
        format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={signed}, Signature={signature}",
            self.access_key
        )
    }

    fn canonical_path(&self, path: &str) -> String {
        let path = if path.is_empty() { "/" } else { path };
        if is_s3(self.service) {
            return path.to_owned();
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let end = if path.ends_with('/') && !parts.is_empty() {
            "/"
        } else {
            ""
        };
        let path = format!("/{}{end}", parts.join("/"));
        percent_encoded(&path, "-_.~/")
    }
}

fn keyed(key: &[u8], text: &[u8]) -> [u8; 32] {
    // A key of any length will do.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return [0; 32];
    };
    mac.update(text);
    mac.finalize().into_bytes().into()
}

/// The names, and the lines.
fn canonical_headers(headers: &HeaderMap) -> (String, String) {
    let is_signed = |name: &str| {
        name == HOST.as_str()
            || name == CONTENT_TYPE.as_str()
            || name == "content-md5"
            || name.starts_with("x-amz-")
    };
    let mut names: Vec<&str> = headers
        .keys()
        .map(http::HeaderName::as_str)
        .filter(|name| is_signed(name))
        .collect();
    names.sort_unstable();
    let mut lines = String::new();
    for name in &names {
        let values: Vec<String> = headers
            .get_all(*name)
            .iter()
            .map(|value| {
                String::from_utf8_lossy(value.as_bytes())
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        // A text takes all that is written.
        let _ = writeln!(lines, "{name}:{}", values.join(","));
    }
    (names.join(";"), lines)
}

fn canonical_query(query: &str) -> String {
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (encoded_again(name), encoded_again(value))
        })
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

/// The one encoding of a part of a query.
fn encoded_again(part: &str) -> String {
    let mut decoded = String::new();
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('%') {
        decoded.push_str(&percent_encoded(before, UNRESERVED));
        let escaped = after
            .split_at_checked(2)
            .filter(|(digits, _)| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some((digits, after)) = escaped else {
            decoded.push_str("%25");
            rest = after;
            continue;
        };
        let byte = u8::from_str_radix(digits, 16).unwrap_or(0);
        if byte.is_ascii_alphanumeric() || UNRESERVED.as_bytes().contains(&byte) {
            decoded.push(char::from(byte));
        } else {
            decoded.push('%');
            decoded.push_str(&digits.to_ascii_uppercase());
        }
        rest = after;
    }
    decoded.push_str(&percent_encoded(rest, UNRESERVED));
    decoded
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use time::macros::datetime;

    use super::*;

    const SIGNING: Signing<'_> = Signing {
        access_key: "AKIDEXAMPLE",
        secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        region: "us-east-1",
        service: "service",
        now: datetime!(2015-08-30 12:36:00 UTC),
    };

    fn signature(
        method: &str,
        path: &str,
        query: &str,
        more: &[(&'static str, &'static str)],
        body: &str,
    ) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("example.amazonaws.com"));
        headers.insert("x-amz-date", HeaderValue::from_static("20150830T123600Z"));
        for (name, value) in more {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let hash = hex::encode(Sha256::digest(body));
        let text = SIGNING.authorization(method, path, query, &headers, &hash);
        text.rsplit('=').next().unwrap().to_owned()
    }

    /// From AWS's test suite of this signature.
    #[test]
    fn published_requests_have_their_published_signatures() {
        let form = ("content-type", "application/x-www-form-urlencoded");
        for (method, path, query, more, body, expected) in [
            (
                "GET",
                "/",
                "",
                &[][..],
                "",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "GET",
                "/",
                "Param2=value2&Param1=value1",
                &[],
                "",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "GET",
                "/",
                "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
                &[],
                "",
                "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
            ),
            (
                "GET",
                "/example1/example2/../..",
                "",
                &[],
                "",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "GET",
                "//./",
                "",
                &[],
                "",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "POST",
                "/",
                "",
                &[],
                "",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "POST",
                "/",
                "",
                &[form],
                "Param1=value1",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
        ] {
            assert_eq!(
                signature(method, path, query, more, body),
                expected,
                "{method} {path}?{query} {more:?}"
            );
        }
    }

    #[test]
    fn what_decides_about_a_request_is_signed() {
        let of = |headers: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            SIGNING.authorization("GET", "/", "", &map, "UNSIGNED-PAYLOAD")
        };
        let text = of(&[
            ("host", "a"),
            ("x-amz-security-token", "t"),
            ("accept", "x"),
            ("x-amz-date", "d"),
        ]);
        assert!(
            text.contains("SignedHeaders=host;x-amz-date;x-amz-security-token, "),
            "{text}"
        );
    }

    #[test]
    fn a_path_of_s3_is_as_it_was_sent() {
        let s3 = Signing {
            service: "s3",
            ..SIGNING
        };
        assert_eq!(s3.canonical_path("/a//b/../c%20d"), "/a//b/../c%20d");
        assert_eq!(SIGNING.canonical_path("/a//b/../c%20d/"), "/a/c%2520d/");
    }

    #[test]
    fn a_query_has_one_encoding() {
        assert_eq!(canonical_query("b=%2f&a=x+y&a=%7E&c"), "a=x%2By&a=~&b=%2F&c=");
        assert_eq!(canonical_query("a=100%"), "a=100%25");
        assert_eq!(
            canonical_query("list-type=2&prefix=a/b"),
            "list-type=2&prefix=a%2Fb"
        );
    }
}
