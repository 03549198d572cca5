//! Responses that are parts of something: a secret that is cut into several of them cannot be found in any.

use himalia_model::credential::CredentialKind;
use http::header::{CONTENT_TYPE, HeaderMap, IF_RANGE, RANGE};
use http::{HeaderValue, StatusCode};

use crate::Credential;

impl Credential {
    /// True if hosts get the secret itself, which they could repeat in parts. A signature does not have its key.
    pub fn sends_secret(&self) -> bool {
        !matches!(self.definition.kind(), CredentialKind::AwsSigV4 { .. })
    }
}

/// Removes the headers of a request that ask for a part of the response. Servers send all of it then.
pub fn ask_for_whole(headers: &mut HeaderMap) {
    headers.remove(RANGE);
    headers.remove(IF_RANGE);
}

/// True if a response is a part, or has several.
pub fn is_part(status: StatusCode, headers: &HeaderMap) -> bool {
    let is_of_parts = |value: &HeaderValue| {
        let kind = value.as_bytes().trim_ascii().to_ascii_lowercase();
        kind.starts_with(b"multipart/byteranges")
    };
    status == StatusCode::PARTIAL_CONTENT || headers.get_all(CONTENT_TYPE).iter().any(is_of_parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_status_and_type() {
        let of = |kind: &'static str| HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        assert!(is_part(StatusCode::PARTIAL_CONTENT, &of("text/plain")));
        assert!(is_part(StatusCode::OK, &of("Multipart/ByteRanges; boundary=x")));
        assert!(!is_part(StatusCode::OK, &of("multipart/form-data; boundary=x")));
        let mut headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_static("bytes=0-3"))]);
        headers.insert(IF_RANGE, HeaderValue::from_static("\"x\""));
        ask_for_whole(&mut headers);
        assert!(headers.is_empty());
    }
}
