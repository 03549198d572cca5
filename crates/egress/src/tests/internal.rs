//! Services of the gateway at names of their own.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use himalia_model::network::Access;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::json;

use super::support::{Host, Proxy};
use crate::{Body, Denial, InternalService, NetworkAccess, Target};

/// Answers with what it was sent, for sessions that may reach `a.test`.
struct Echo;

impl InternalService for Echo {
    fn is_at(&self, name: &str) -> bool {
        name == "echo.internal"
    }

    fn respond(
        self: Arc<Self>,
        request: Request<Body>,
        session: Arc<NetworkAccess>,
    ) -> BoxFuture<'static, Result<Response<Body>, Denial>> {
        Box::pin(async move {
            let target = Target {
                host: himalia_model::network::Host::parse("a.test").unwrap(),
                port: 443,
            };
            assert!(!request.uri().path().ends_with("/panic"), "a service that panics");
            session.permits(&target, Access::Tunnel)?;
            let path = request.uri().path().to_owned();
            let sent = request.into_body().collect().await.unwrap().to_bytes();
            let text = format!("{path} {}", String::from_utf8_lossy(&sent));
            Ok(Response::new(
                Full::from(text).map_err(|never| match never {}).boxed(),
            ))
        })
    }
}

const ASK: &[u8] = b"POST http://Echo.Internal/here HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";

#[tokio::test]
async fn a_service_answers_at_its_name_and_is_a_record() {
    let proxy = Proxy::serving(json!(["a.test"]), Arc::new(Echo));
    let text = proxy.says(ASK).await;
    assert!(
        text.starts_with("HTTP/1.1 200 ") && text.ends_with("/here hello"),
        "{text}"
    );
    let [report] = &proxy.reports(1).await[..] else {
        panic!()
    };
    assert_eq!(
        (
            report.target.to_string().as_str(),
            report.sent_bytes,
            report.received_bytes
        ),
        ("echo.internal:80", 5, 11)
    );
    assert_eq!(report.denial, None);
}

#[tokio::test]
async fn a_service_that_panics_is_answered() {
    let proxy = Proxy::serving(json!(["a.test"]), Arc::new(Echo));
    let text = String::from_utf8(ASK.to_vec())
        .unwrap()
        .replace("/here", "/panic");
    let text = proxy.says(text.as_bytes()).await;
    assert!(
        text.starts_with("HTTP/1.1 500 ") && text.contains("its log has the reason"),
        "{text}"
    );
    assert!(proxy.says(ASK).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_service_asks_what_the_session_may() {
    let proxy = Proxy::serving(json!(["b.test"]), Arc::new(Echo));
    let text = proxy.says(ASK).await;
    assert!(
        text.starts_with("HTTP/1.1 403 egress_denied: a.test:443 is not on"),
        "{text}"
    );
    let [report] = &proxy.reports(1).await[..] else {
        panic!()
    };
    assert!(report.denial.is_some());
}

#[tokio::test]
async fn a_name_without_a_service_is_a_host_like_any() {
    let host = Host::http().await;
    let proxy = Proxy::serving(json!([format!("other.internal:{}", host.port())]), Arc::new(Echo));
    let text = proxy
        .says(
            format!(
                "GET http://other.internal:{}/ HTTP/1.1\r\nhost: x\r\n\r\n",
                host.port()
            )
            .as_bytes(),
        )
        .await;
    assert!(
        text.contains("egress_unreachable: the name other.internal was not resolved"),
        "{text}"
    );
    let tunnel = proxy
        .says(b"CONNECT echo.internal:443 HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    assert!(
        tunnel.starts_with("HTTP/1.1 403 egress_denied: echo.internal:443"),
        "{tunnel}"
    );
}
