//! The id of a request.

use axum::extract::Request;
use axum::http::HeaderName;
use uuid::Uuid;

pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// Most characters of an id from a client.
const MAX_CHARS: usize = 64;

/// The id of a request: in its extensions, in the header of its response, in its log lines, and in the bodies of errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(String);

impl RequestId {
    /// Takes the client's id if it is 1 to 64 letters, digits, `.`, `_` and `-`, else creates one.
    pub(crate) fn of(request: &Request) -> Self {
        let mut given = request.headers().get_all(HEADER).iter();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let sane = |text: &&str| (1..=MAX_CHARS).contains(&text.len()) && text.bytes().all(plain);
        let (first, more) = (given.next(), given.next());
        let sane = first
            .filter(|_| more.is_none())
            .and_then(|text| text.to_str().ok())
            .filter(sane);
        Self(sane.map_or_else(|| Uuid::new_v4().simple().to_string(), str::to_owned))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The span of the request's log lines. It is enabled at every log level, so that each line has it.
    pub(crate) fn span(&self) -> tracing::Span {
        tracing::error_span!("request", id = self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn id(values: &[&str]) -> String {
        let mut request = Request::builder();
        for value in values {
            request = request.header(HEADER, *value);
        }
        RequestId::of(&request.body(Body::empty()).unwrap()).0
    }

    #[test]
    fn a_sane_id_is_kept_and_another_one_is_replaced() {
        assert_eq!(id(&["a.B_9-"]), "a.B_9-");
        assert_eq!(id(&[&"x".repeat(64)]), "x".repeat(64));
        for bad in [
            &["a b"][..],
            &[""],
            &["a", "a"],
            &["\u{e4}"],
            &["a\"b"],
            &[],
            &["a/b"],
        ] {
            let made = id(bad);
            assert_eq!(made.len(), 32, "{bad:?} {made}");
        }
        assert_eq!(id(&[&"x".repeat(65)]).len(), 32);
        assert_ne!(id(&[]), id(&[]));
    }
}
