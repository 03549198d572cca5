//! Requests to authorization servers, with the same rules for addresses as the hosts of sessions.

use bytes::Bytes;
use himalia_egress::Outbound;
use himalia_model::network::PrivateAddresses;
use himalia_model::{EngineConfig, OPERATOR};
use himalia_oauth::{MAX_RESPONSE_BYTES, ResponseFuture, Transport};
use http::header::{ACCEPT_ENCODING, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::timeout;

/// Longest time for a request and its response.
const REQUEST_TIME: Duration = Duration::from_secs(20);

/// Transports by author of the addresses: the author of an authorization server's addresses decides which private ones may be reached.
#[derive(Clone)]
pub(crate) struct Transports {
    operator: Arc<dyn Transport>,
    tenant: Arc<dyn Transport>,
}

impl Transports {
    /// From this process. The operator's credentials reach `private_addresses`, as sessions do whose templates the operator wrote. A tenant
    /// chooses the addresses of its credentials as those of its callbacks, without the allow list of a template: `callback_addresses`.
    pub(crate) fn new(config: &EngineConfig) -> Self {
        Self {
            operator: Arc::new(FromHere::new(config.private_addresses.clone())),
            tenant: Arc::new(FromHere::new(config.callback_addresses.clone())),
        }
    }

    /// For a credential that this caller has set; empty: one of the configuration.
    pub(super) fn of(&self, set_by: &str) -> &dyn Transport {
        let owner = set_by.split('/').next().unwrap_or_default();
        if owner.is_empty() || owner == OPERATOR {
            &*self.operator
        } else {
            &*self.tenant
        }
    }

    #[cfg(test)]
    pub(super) fn all(one: &Arc<dyn Transport>) -> Self {
        Self {
            operator: Arc::clone(one),
            tenant: Arc::clone(one),
        }
    }
}

/// Reaches them from this process. The certificates of the machine are read at the first request.
pub(crate) struct FromHere {
    exceptions: Vec<PrivateAddresses>,
    outbound: OnceCell<Outbound>,
}

impl FromHere {
    /// With these addresses beside the public ones.
    pub(crate) fn new(exceptions: Vec<PrivateAddresses>) -> Self {
        Self {
            exceptions,
            outbound: OnceCell::new(),
        }
    }

    async fn outbound(&self) -> Result<&Outbound, String> {
        let opened = self.outbound.get_or_try_init(|| async {
            let exceptions = self.exceptions.clone();
            let opened = tokio::task::spawn_blocking(move || Outbound::of_this_process(exceptions)).await;
            match opened {
                Ok(Ok(outbound)) => Ok(outbound),
                Ok(Err(error)) => Err(format!("TLS cannot be set up: {error}")),
                Err(error) => Err(error.to_string()),
            }
        });
        opened.await
    }

    async fn exchange(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let headers = request.headers_mut();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("himalia/", env!("CARGO_PKG_VERSION"))),
        );
        let body = |bytes: Bytes| Full::new(bytes).map_err(|never| match never {}).boxed();
        let response = self.outbound().await?.send(request.map(body)).await;
        let (head, body) = response.map_err(|denial| denial.to_string())?.into_parts();
        let whole = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
        let whole = whole.map_err(|error| {
            format!("the response did not end, or is longer than {MAX_RESPONSE_BYTES} bytes: {error}")
        })?;
        Ok(Response::from_parts(head, whole.to_bytes()))
    }
}

impl Transport for FromHere {
    fn send(&self, request: Request<Bytes>) -> ResponseFuture<'_> {
        Box::pin(async move {
            let answered = timeout(REQUEST_TIME, self.exchange(request)).await;
            answered.unwrap_or_else(|_| Err(format!("no answer within {} s", REQUEST_TIME.as_secs())))
        })
    }
}
