//! The facade for E2B's clients stands behind the same doors, with an API key and a token for each sandbox.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use crate::common;
use crate::tenants::fixture;

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{Request, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use common::{Gateway, TOKEN};
use himalia_engine::{Principal, TenantLimits};
use himalia_http::{E2b, HttpConfig, MountedService, SandboxTokens, Token};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tower::service_fn;

const ADA: &str = "the-token-of-ada";

/// Responds with who calls, what for, and the token of the named sandbox, or of `mine`, for the caller.
async fn echo(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let principal = request.extensions().get::<Principal>().unwrap();
    let sandbox = request.headers().get("e2b-sandbox-id");
    let sandbox = sandbox.map_or("mine", |id| id.to_str().unwrap());
    let tokens = SandboxTokens::new(b"secret");
    let text = format!(
        "{} {} {}",
        principal.name(),
        request.uri(),
        tokens.issue(principal, sandbox).unwrap()
    );
    Ok(Response::new(Body::from(text)))
}

fn serve_e2b(config: &mut HttpConfig) {
    config.e2b = Some(E2b {
        service: MountedService::new(service_fn(echo)),
        tokens: SandboxTokens::new(b"secret"),
    });
}

async fn gateway() -> Gateway {
    Gateway::with(|config| {
        serve_e2b(config);
        let ada = Principal::of_tenant("acme", "ada").unwrap();
        config.tokens.add(Token::new(ADA), ada).unwrap();
    })
    .await
}

#[tokio::test]
async fn an_api_key_is_a_token_and_a_sandbox_has_its_own() {
    let gateway = gateway().await;
    let get = async |path: &str, headers: &[&str]| {
        let reply = gateway.bare("GET", path, headers, "").await;
        (reply.status, String::from_utf8(reply.body).unwrap())
    };
    let key = format!("X-API-KEY: {ADA}");
    let (status, text) = get("/e2b/v2/sandboxes?limit=1", &[&key]).await;
    assert_eq!(status, 200);
    let [name, uri, token] = text.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    assert_eq!((name, uri), ("acme/ada", "/v2/sandboxes?limit=1"));

    // It is good for its sandbox, in either header, as its API key's holder.
    for header in ["X-Access-Token", "E2B-Traffic-Access-Token"] {
        let shown = format!("{header}: {token}");
        let (status, text) = get("/e2b/health", &["E2b-Sandbox-Id: mine", &shown]).await;
        assert_eq!((status, text.split(' ').next()), (200, Some("acme/ada")));
        for wrong in [
            &["E2b-Sandbox-Id: other", &shown][..],
            &[&shown],
            &["E2b-Sandbox-Id: mine", "E2b-Sandbox-Id: other", &shown],
            &["E2b-Sandbox-Id: mine", &format!("{header}: x{token}")],
        ] {
            let (status, text) = get("/e2b/health", wrong).await;
            assert!(matches!(status, 401 | 429), "{wrong:?}: {status}");
            assert!(text.contains("\"code\":4"), "{text}");
        }
        // Not for the control plane, nor for anything else.
        for path in ["/e2b/v2/sandboxes", "/v1/sessions", "/api/kernels"] {
            let (status, _) = get(path, &["E2b-Sandbox-Id: mine", &shown]).await;
            assert!(matches!(status, 401 | 429), "{path}: {status}");
        }
    }
    // An API key is good for sandboxes too: it is a token.
    assert_eq!(get("/e2b/health", &["E2b-Sandbox-Id: mine", &key]).await.0, 200);
    let own = format!("Authorization: Bearer {TOKEN}");
    let (status, text) = get("/e2b/sandboxes", &[&own]).await;
    assert_eq!((status, text.split(' ').next()), (200, Some("operator")));
}

#[tokio::test]
async fn a_signature_that_fits_no_sandbox_is_a_wrong_token() {
    let gateway = gateway().await;
    for path in [
        "/files?path=a&signature=v1_AAAA",
        "/files?path=a&signature=",
        "/e2b/files?path=a&signature=v1_AAAA",
        "/files?path=a",
    ] {
        let reply = gateway.bare("GET", path, &[], "").await;
        assert_eq!(reply.status, 401, "{path}");
        assert_eq!(reply.json()["code"], 401, "{path}");
    }
}

/// Also one that may fit: nothing is compared for a peer that has shown too many wrong ones.
#[tokio::test]
async fn signatures_of_a_peer_that_guesses_are_not_looked_at() {
    let gateway = gateway().await;
    let path = "/files?path=a&signature=v1_AAAA";
    for _ in 0..10 {
        assert_eq!(gateway.bare("GET", path, &[], "").await.status, 401);
    }
    for path in [
        path,
        "/files?path=a&signature=v1_AAAA&sandbox=11111111-2222-4333-8444-555555555555",
    ] {
        let reply = gateway.bare("GET", path, &[], "").await;
        assert_eq!(reply.status, 429, "{path}");
        assert!(reply.header("retry-after").is_some());
    }
    // Tokens do not wait.
    let key = format!("X-API-KEY: {ADA}");
    assert_eq!(
        gateway.bare("GET", "/e2b/v2/sandboxes", &[&key], "").await.status,
        200
    );
}

/// A signature is compared with the tokens of all sandboxes as long as these are few pairs, and else with those of the sandbox that it
/// names.
#[tokio::test(flavor = "multi_thread")]
async fn a_signature_without_its_sandbox_is_compared_with_few_tokens() {
    let (gateway, engine) = fixture::gateway_over(
        |config| drop(config.tenants.insert("acme".into(), TenantLimits::default())),
        |config| {
            serve_e2b(config);
            for n in 0..30 {
                let one = Principal::of_tenant("acme", &format!("one-{n}")).unwrap();
                config
                    .tokens
                    .add(Token::new(&format!("the-token-of-{n}")), one)
                    .unwrap();
            }
        },
    )
    .await;
    let start = async || {
        let made = fixture::made(&gateway, ADA, "POST", "/v1/sessions", json!({})).await;
        made["id"].as_str().unwrap().to_owned()
    };
    let first = start().await;
    let key = format!("X-API-KEY: {ADA}");
    let named = format!("E2b-Sandbox-Id: {first}");
    let shown = gateway.bare("GET", "/e2b/health", &[&key, &named], "").await;
    let shown = String::from_utf8(shown.body).unwrap();
    let signed = format!("a:read::{}", shown.rsplit(' ').next().unwrap());
    let signature = BASE64_STANDARD_NO_PAD.encode(Sha256::digest(signed));
    let encoded = signature.replace('+', "%2B").replace('/', "%2F");
    let path = format!("/files?path=a&signature=v1_{encoded}");
    let status = async |path: &str| gateway.bare("GET", path, &[], "").await.status;
    assert_eq!(status(&path).await, 200);
    let second = start().await;
    assert_eq!(status(&path).await, 401);
    assert_eq!(status(&format!("{path}&sandbox={first}")).await, 200);
    assert_eq!(status(&format!("{path}&sandbox={second}")).await, 401);
    // Nor is one that fits looked at, of a peer that has shown too many others.
    while status("/files?path=a&signature=v1_AAAA").await != 429 {}
    assert_eq!(status(&format!("{path}&sandbox={first}")).await, 429);
    fixture::stop(engine).await;
}

#[tokio::test]
async fn without_a_service_there_is_nothing() {
    let gateway = Gateway::start().await;
    for path in ["/e2b/v2/sandboxes", "/e2b/health", "/files"] {
        assert_eq!(gateway.call("GET", path, &[], "").await.status, 404, "{path}");
    }
    let key = format!("X-API-KEY: {TOKEN}");
    let reply = gateway.bare("GET", "/e2b/v2/sandboxes", &[&key], "").await;
    assert_eq!(reply.status, 401, "the header means nothing there");
}
