//! The upgrade (RFC 6455 §4.2).

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::error::ApiError;
use crate::listen::LingeringStream;
use crate::socket::Stream;

/// A request that may become a WebSocket. Until it is accepted, it can be refused with any status.
#[derive(Debug)]
pub(crate) struct Handshake {
    upgrade: OnUpgrade,
    accept: HeaderValue,
    protocols: Vec<String>,
}

/// The socket after the upgrade.
#[derive(Debug)]
pub(crate) struct UpgradedSocket {
    pub(crate) stream: Stream,
    /// Bytes that were received together with the request.
    pub(crate) early: bytes::Bytes,
}

impl Handshake {
    /// Checks whether a request asks for a WebSocket, valid or not.
    pub(crate) fn is_asked(headers: &HeaderMap) -> bool {
        has_token(headers, header::UPGRADE, "websocket")
    }

    /// Checks the request: 426 if it asks for no upgrade to the version that we speak, 400 if it does so wrongly.
    pub(crate) fn new(request: &mut Request) -> Result<Self, ApiError> {
        let headers = request.headers();
        let upgrade = has_token(headers, header::CONNECTION, "upgrade")
            && has_token(headers, header::UPGRADE, "websocket");
        if request.method() != Method::GET || !upgrade {
            return Err(required("this address is a WebSocket"));
        }
        if headers
            .get(header::SEC_WEBSOCKET_VERSION)
            .is_none_or(|v| v.as_bytes() != b"13")
        {
            return Err(required("only version 13 of the WebSocket protocol is spoken"));
        }
        let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY) else {
            return Err(ApiError::bad_request("Sec-WebSocket-Key is missing"));
        };
        if key.len() != 24 || STANDARD.decode(key.as_bytes()).is_err() {
            return Err(ApiError::bad_request("Sec-WebSocket-Key: not 16 bytes in base64"));
        }
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()))
            .map_err(|_| ApiError::internal("answering the handshake"))?;
        let protocols = tokens(headers, header::SEC_WEBSOCKET_PROTOCOL)
            .map(str::to_owned)
            .collect();
        match request.extensions_mut().remove::<OnUpgrade>() {
            Some(upgrade) => Ok(Self {
                upgrade,
                accept,
                protocols,
            }),
            None => Err(ApiError::bad_request("this connection cannot be upgraded")),
        }
    }

    /// Checks whether the client offers a subprotocol.
    pub(crate) fn offers(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|p| p == protocol)
    }

    /// Checks whether the client offers any subprotocol.
    pub(crate) fn offers_any(&self) -> bool {
        !self.protocols.is_empty()
    }

    /// The 101 reply, and the wait for the socket, which ends once that reply is written. `None` if the client went away.
    pub(crate) fn accept(
        self,
        protocol: Option<&'static str>,
    ) -> (Response, impl Future<Output = Option<UpgradedSocket>> + Send) {
        let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept);
        if let Some(protocol) = protocol {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        }
        let upgrade = self.upgrade;
        let socket = async move {
            let upgraded = upgrade.await.ok()?;
            let parts = upgraded.downcast::<TokioIo<LingeringStream<Stream>>>().ok()?;
            Some(UpgradedSocket {
                stream: parts.io.into_inner().into_inner(),
                early: parts.read_buf,
            })
        };
        (response, socket)
    }
}

fn required(message: &str) -> ApiError {
    ApiError::new(StatusCode::UPGRADE_REQUIRED, "websocket_required", message)
}

fn tokens(headers: &HeaderMap, name: header::HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|v| v.to_str().ok());
    values
        .flat_map(|v| v.split(','))
        .map(str::trim)
        .filter(|t| !t.is_empty())
}

fn has_token(headers: &HeaderMap, name: header::HeaderName, token: &str) -> bool {
    tokens(headers, name).any(|t| t.eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_lists() {
        let mut headers = HeaderMap::new();
        headers.append(header::CONNECTION, "keep-alive, Upgrade".parse().unwrap());
        assert!(has_token(&headers, header::CONNECTION, "upgrade"));
        assert!(!has_token(&headers, header::CONNECTION, "up"));
    }
}
