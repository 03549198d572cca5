//! Another facade's service at `/mcp` stands behind the same doors, and its replies go out as they are.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use crate::common;

use std::convert::Infallible;

use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use common::{Gateway, Reply, TOKEN};
use himalia_engine::Principal;
use himalia_http::MountedService;
use himalia_testkit::patience::within;
use tokio::io::AsyncWriteExt as _;
use tower::service_fn;

/// Answers with the name of the principal and the body, as an error.
async fn echo(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let principal = request
        .extensions()
        .get::<Principal>()
        .map(|one| one.name().to_owned());
    let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let text = format!(
        "{} says {}",
        principal.unwrap_or_default(),
        String::from_utf8_lossy(&body)
    );
    Ok(Response::builder().status(400).body(Body::from(text)).unwrap())
}

/// The same for a request that says so; for any other one it panics.
async fn calm(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    assert!(request.headers().contains_key("x-calm"), "canary of a panic");
    echo(request).await
}

#[tokio::test]
async fn it_gets_who_calls_and_answers_in_its_own_words() {
    let gateway = Gateway::with(|config| {
        config.mcp = Some(MountedService::new(service_fn(echo)));
        config.body_bytes = 1000;
    })
    .await;
    let reply = gateway.call("POST", "/mcp", &[], "hello").await;
    assert_eq!(
        (reply.status, reply.body.as_slice()),
        (400, &b"operator says hello"[..])
    );
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(gateway.bare("POST", "/mcp", &[], "hello").await.status, 401);
    let long = gateway.call("POST", "/mcp", &[], &"x".repeat(1001)).await;
    assert_eq!(long.status, 413, "the limits on bodies hold");
    let other = gateway.call("GET", "/mcp", &[], "").await;
    assert_eq!(other.status, 405);
    let token = format!("Authorization: Bearer {TOKEN}");
    let foreign = ["Origin: https://evil.example", token.as_str()];
    let refused = gateway.bare("POST", "/mcp", &foreign, "hello").await;
    assert_eq!(refused.status, 403, "as MCP demands");
    assert!(!String::from_utf8_lossy(&refused.body).contains("says"));
}

#[tokio::test]
async fn a_service_that_panics_is_answered_and_the_connection_stays() {
    let gateway = Gateway::with(|config| config.mcp = Some(MountedService::new(service_fn(calm)))).await;
    let mut stream = gateway.connect().await;
    for (more, status) in [("", 500), ("", 500), ("x-calm: yes\r\n", 400)] {
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: token {TOKEN}\r\nX-Request-Id: mine.1\r\nContent-Length: 5\r\n{more}\r\nhello"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let reply = within("an answer", Reply::read(&mut stream)).await.unwrap();
        assert_eq!(
            (reply.status, reply.header("x-request-id")),
            (status, Some("mine.1"))
        );
        assert!(!String::from_utf8_lossy(&reply.body).contains("canary"));
    }
}

#[tokio::test]
async fn without_a_service_there_is_nothing() {
    let gateway = Gateway::start().await;
    assert_eq!(gateway.call("POST", "/mcp", &[], "{}").await.status, 404);
}

#[tokio::test]
async fn a_refusal_says_which_token_is_wanted_and_where_that_is_described() {
    let gateway = Gateway::with(|config| {
        config.mcp = Some(MountedService::new(service_fn(echo)));
    })
    .await;
    let described = gateway
        .bare("GET", "/.well-known/oauth-protected-resource/mcp", &[], "")
        .await;
    assert_eq!(described.status, 200);
    let resource = described.json()["resource"].as_str().unwrap().to_owned();
    let address = resource.replace("/mcp", "/.well-known/oauth-protected-resource/mcp");
    let challenge = |reply: &Reply| reply.header("www-authenticate").map(str::to_owned);
    let none = gateway.bare("POST", "/mcp", &[], "hello").await;
    let wanted = format!("Bearer resource_metadata=\"{address}\", scope=\"execute\"");
    assert_eq!((none.status, challenge(&none)), (401, Some(wanted.clone())));
    let wrong = gateway
        .bare("POST", "/mcp", &["Authorization: Bearer wrong"], "hello")
        .await;
    let wanted = wanted.replace("Bearer ", "Bearer error=\"invalid_token\", ");
    assert_eq!((wrong.status, challenge(&wrong)), (401, Some(wanted.clone())));
    let new = r#"{"caller": "ci", "scope": "read"}"#;
    let made = gateway
        .call("POST", "/v1/tokens", &["Content-Type: application/json"], new)
        .await;
    let token = format!("Authorization: Bearer {}", made.json()["token"].as_str().unwrap());
    let narrow = gateway.bare("POST", "/mcp", &[&token], "hello").await;
    let wanted = wanted.replace("invalid_token", "insufficient_scope");
    assert_eq!((narrow.status, challenge(&narrow)), (403, Some(wanted)));
    // Elsewhere nothing of MCP is named.
    let other = gateway.bare("GET", "/api/kernels", &[], "").await;
    assert_eq!(
        (other.status, challenge(&other).as_deref()),
        (401, Some("Bearer"))
    );
}
