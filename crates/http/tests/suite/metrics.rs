//! `/metrics`, `/readyz`, and the ids of requests.

use crate::common;
use crate::tenants::fixture::{ADA, Request, call, gateway, stop};

use axum::body::Body;
use common::{Gateway, TOKEN, engine};
use himalia_http::HttpConfig;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_the_operators() {
    let (gateway, engine) = gateway().await;
    let request = Request {
        method: "GET".into(),
        path: "/metrics".into(),
        body: String::new(),
        upgrade: false,
    };
    assert_eq!(call(&gateway, ADA, &request).await.status, 403);
    assert_eq!(gateway.bare("GET", "/metrics", &[], "").await.status, 401);
    gateway.call("POST", "/v1/sessions", &[], "{").await;
    let reply = gateway.get("/metrics").await;
    assert_eq!(reply.status, 200);
    assert!(
        reply
            .header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text")
    );
    let text = String::from_utf8(reply.body).unwrap();
    for line in [
        "himalia_http_requests_total{method=\"GET\",route=\"/metrics\",status=\"403\"} 1",
        "himalia_http_requests_total{method=\"GET\",route=\"/metrics\",status=\"401\"} 1",
        "himalia_http_requests_total{method=\"POST\",route=\"/v1/sessions\",status=\"400\"} 1",
        "himalia_client_bytes_total{direction=\"in\",transport=\"http\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    assert!(
        text.lines().any(|line| line.starts_with("himalia_connections ")),
        "{text}"
    );
    stop(engine).await;
}

#[tokio::test]
async fn a_path_that_a_caller_makes_up_is_no_label() {
    let gateway = Gateway::start().await;
    for path in ["/made-up", "/v1/sessions/made-up/made-up", "/api/kernels/made-up"] {
        gateway.get(path).await;
    }
    gateway.call("BREW", "/api", &[], "").await;
    let text = String::from_utf8(gateway.get("/metrics").await.body).unwrap();
    assert!(!text.contains("made-up") && !text.contains("BREW"), "{text}");
    let other = "himalia_http_requests_total{method=\"GET\",route=\"other\",status=\"404\"} 2";
    assert!(text.contains(other), "{text}");
}

#[tokio::test]
async fn each_response_has_the_id_of_its_request() {
    let gateway = Gateway::start().await;
    let reply = gateway
        .call("GET", "/v1/sessions/none", &["X-Request-Id: mine.1"], "")
        .await;
    assert_eq!(
        (reply.status, reply.header("x-request-id")),
        (404, Some("mine.1"))
    );
    assert_eq!(reply.json()["request_id"], "mine.1");
    let reply = gateway.call("GET", "/api", &["X-Request-Id: not sane"], "").await;
    let made = reply.header("x-request-id").unwrap();
    assert_eq!(made.len(), 32);
    let other = gateway.bare("GET", "/healthz", &[], "").await;
    assert_ne!(other.header("x-request-id").unwrap(), made);
}

#[tokio::test]
async fn a_gateway_that_drains_is_not_ready_and_says_why() {
    let gateway = Gateway::start().await;
    let ready = gateway.bare("GET", "/readyz", &[], "").await;
    assert_eq!((ready.status, ready.json()), (200, json!({ "status": "ready" })));
    let dir = tempfile::tempdir().unwrap();
    let shutdown = CancellationToken::new();
    let engine = engine(dir.path()).await;
    let router = himalia_http::router(
        himalia_runs::Runs::open(engine),
        HttpConfig::new(TOKEN),
        shutdown.clone(),
    )
    .unwrap();
    let probe = async |path: &str| {
        let request = axum::extract::Request::get(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 10).await.unwrap();
        (status, serde_json::from_slice::<Value>(&body).unwrap())
    };
    assert_eq!(probe("/readyz").await.0, 200);
    shutdown.cancel();
    let body = json!({ "status": "not ready", "reasons": ["draining"] });
    assert_eq!(probe("/readyz").await, (503, body));
    assert_eq!(probe("/healthz").await.0, 200);
}
