//! Requests to the index.

use std::time::Duration;

use bytes::Bytes;
use himalia_egress::{Body, Denial, Outbound};
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, IF_NONE_MATCH, LOCATION, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use tokio::time::timeout;
use url::Url;

/// Redirects in a row.
const REDIRECTS_MAX: usize = 5;
/// Longest pause of the index in the middle of a response.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);

/// The index, and how it is reached.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    outbound: Outbound,
    /// Origin that gets the credentials: scheme, host and port.
    origin: url::Origin,
    authorization: Option<HeaderValue>,
}

/// Headers of a request in addition to its URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestHeaders {
    pub(crate) accept: Option<HeaderValue>,
    pub(crate) compressed: bool,
    pub(crate) unless: Option<HeaderValue>,
}

impl Fetch {
    /// `index` may have a user name and a password, which are for its own host alone.
    pub(crate) fn new(index: &Url, outbound: Outbound) -> Self {
        use base64::Engine as _;
        let authorization = (!index.username().is_empty()).then(|| {
            let decoded = |text: &str| String::from_utf8_lossy(&percent_decoded(text)).into_owned();
            let pair = format!(
                "{}:{}",
                decoded(index.username()),
                decoded(index.password().unwrap_or_default())
            );
            let pair = base64::engine::general_purpose::STANDARD.encode(pair);
            HeaderValue::try_from(format!("Basic {pair}"))
                .ok()
                .map(|mut value| {
                    value.set_sensitive(true);
                    value
                })
        });
        Self {
            outbound,
            origin: index.origin(),
            authorization: authorization.flatten(),
        }
    }

    /// The response for a URL, and the URL that it is of after redirects.
    pub(crate) async fn get(
        &self,
        url: &Url,
        wanted: &RequestHeaders,
    ) -> Result<(Url, Response<Incoming>), Denial> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let response = self.outbound.send(self.request(&url, wanted)?).await?;
            if !response.status().is_redirection() || response.status() == http::StatusCode::NOT_MODIFIED {
                return Ok((url, response));
            }
            let location = response
                .headers()
                .get(LOCATION)
                .and_then(|value| value.to_str().ok());
            let next = location.and_then(|location| url.join(location).ok());
            url = next
                .ok_or_else(|| Denial::unreachable(format_args!("{} redirects to nowhere", shown(&url))))?;
        }
        Err(Denial::unreachable(format_args!(
            "{} redirects too often",
            shown(&url)
        )))
    }

    fn request(&self, url: &Url, wanted: &RequestHeaders) -> Result<Request<Body>, Denial> {
        let mut plain = url.clone();
        plain.set_fragment(None);
        // Credentials are in a header, if at all.
        let _ = plain.set_username("");
        let _ = plain.set_password(None);
        let body = Empty::<Bytes>::new().map_err(|never| match never {}).boxed();
        let mut request = Request::get(plain.as_str())
            .body(body)
            .map_err(|error| Denial::unreachable(format_args!("{}: {error}", shown(url))))?;
        let headers = request.headers_mut();
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("himalia/", env!("CARGO_PKG_VERSION"))),
        );
        let encoding = if wanted.compressed { "gzip" } else { "identity" };
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding));
        if let Some(accept) = &wanted.accept {
            headers.insert(ACCEPT, accept.clone());
        }
        if let Some(unless) = &wanted.unless {
            headers.insert(IF_NONE_MATCH, unless.clone());
        }
        if let Some(authorization) = self
            .authorization
            .as_ref()
            .filter(|_| url.origin() == self.origin)
        {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        Ok(request)
    }
}

/// The next bytes of a body; `None` at its end.
pub(crate) async fn next(body: &mut Incoming) -> Result<Option<Bytes>, String> {
    loop {
        let frame = timeout(SILENCE, body.frame()).await;
        let frame = frame.map_err(|_| format!("the index sent nothing for {} s", SILENCE.as_secs()))?;
        match frame {
            None => return Ok(None),
            Some(Err(error)) => return Err(error.to_string()),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// A URL in a message: without what may be secret.
pub(crate) fn shown(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!(
        "{}://{}{port}{}",
        url.scheme(),
        url.host_str().unwrap_or_default(),
        url.path()
    )
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, after @ ..] = rest {
        let escaped = match (first, after) {
            (b'%', [high, low, after @ ..]) => hex::decode([*high, *low]).ok().map(|byte| (byte, after)),
            _ => None,
        };
        let (bytes, after) = escaped.unwrap_or_else(|| (vec![*first], after));
        out.extend(bytes);
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_a_url_are_decoded_and_not_shown() {
        assert_eq!(percent_decoded("a%40b%zz%"), b"a@b%zz%");
        let url = Url::parse("https://me:secret@index.test:8443/simple/?token=1").unwrap();
        assert_eq!(shown(&url), "https://index.test:8443/simple/");
    }
}
