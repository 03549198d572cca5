//! Calls to the provider: bounded in time and length, no redirects.

use std::error::Error as _;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, StatusCode, redirect};
use serde::de::DeserializeOwned;

use crate::settings::{SettingsError, certificates};
use crate::{ProviderSettings, SignInError};

/// Longest wait for a connection, its TLS handshake included.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest wait for an answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of an answer.
const MOST_BYTES: usize = 256 << 10;

/// The HTTP client. `plain`: it is not asked for TLS, so it needs no CA.
pub(crate) fn client(settings: &ProviderSettings, plain: bool) -> Result<Client, SettingsError> {
    himalia_tls::install_provider();
    let builder = Client::builder()
        .connect_timeout(CONNECT)
        .timeout(DEADLINE)
        .redirect(redirect::Policy::none());
    let builder = match &settings.ca {
        _ if plain => builder.no_proxy().tls_certs_only([]),
        Some(pem) => builder.tls_certs_only(certificates(pem)?),
        None => builder,
    };
    builder
        .build()
        .map_err(|error| SettingsError::new("ca", format!("TLS cannot be set up: {}", innermost(&error))))
}

/// An answer: its status and the value in it.
pub(crate) async fn json<T: DeserializeOwned>(
    what: &'static str,
    request: RequestBuilder,
) -> Result<(StatusCode, T), SignInError> {
    let unreachable = |error: reqwest::Error| SignInError::Unreachable {
        what,
        reason: if error.is_timeout() {
            format!("no answer in {} s", DEADLINE.as_secs())
        } else {
            innermost(&error)
        },
    };
    let answer = |reason: String| SignInError::Answer { what, reason };
    let mut response = request
        .header("accept", "application/json")
        .send()
        .await
        .map_err(unreachable)?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len().saturating_add(chunk.len()) > MOST_BYTES {
            return Err(answer(format!("is longer than {MOST_BYTES} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    if status.is_server_error() {
        return Err(SignInError::Unreachable {
            what,
            reason: format!("status {}", status.as_u16()),
        });
    }
    match serde_json::from_slice(&body) {
        Ok(value) => Ok((status, value)),
        // The text of the error may quote the answer, which may have a token: only where it is.
        Err(error) => Err(answer(format!(
            "status {}, and the body is not the JSON that was expected (line {}, column {})",
            status.as_u16(),
            error.line(),
            error.column()
        ))),
    }
}

/// The cause at the bottom, without the layers above it. It has no address with a query.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if error.source().is_none() {
        "failed".to_owned()
    } else {
        cause.to_string()
    }
}
