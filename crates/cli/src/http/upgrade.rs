//! The upgrade of a request to a WebSocket.

use anyhow::ensure;
use himalia_connect::Upgrade;
use reqwest::header::{HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL};
use reqwest::{Method, Upgraded};

use super::{Client, Reply, read};

impl Client {
    /// Opens a WebSocket: the bytes after the upgrade, or the answer that is none.
    pub(crate) async fn upgrade(
        &self,
        path: &str,
        upgrade: &Upgrade,
    ) -> anyhow::Result<Result<Upgraded, Reply>> {
        let mut request = self.request(Method::GET, path, "*/*");
        for (name, value) in upgrade.headers() {
            request = request.header(name, value);
        }
        let response = self.response(request).await?;
        if response.status() != 101 {
            return Ok(Err(read(response).await?));
        }
        let header = |name| response.headers().get(name).map(HeaderValue::as_bytes);
        let accepted = upgrade.is_accepted(header(SEC_WEBSOCKET_ACCEPT), header(SEC_WEBSOCKET_PROTOCOL));
        ensure!(accepted, "{} did not answer this upgrade", self.authority);
        let upgraded = response.upgrade().await;
        Ok(Ok(upgraded.map_err(|error| self.failed(&error))?))
    }
}
