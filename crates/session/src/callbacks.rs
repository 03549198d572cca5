//! Results that are posted to URLs of tenants: with the rules for addresses that their sessions have, without redirects, once.

use bytes::Bytes;
use himalia_oauth::Transport as _;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request};

use crate::SessionManager;

impl SessionManager {
    /// Posts JSON; the status of the response. It takes at most 20 s.
    ///
    /// # Errors
    /// Why there is no response: the host may not be reached, or does not answer.
    pub async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Result<u16, String> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(url)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request
            .body(Bytes::from(body))
            .map_err(|error| error.to_string())?;
        Ok(self.network.callbacks.send(request).await?.status().as_u16())
    }
}
