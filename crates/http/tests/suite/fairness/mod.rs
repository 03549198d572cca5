//! A tenant that floods the gateway gets refusals, and the others their answers. Counted, not timed.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

mod answers;
mod limits;
mod prompts;
mod rows;

use std::sync::Arc;

use crate::common::{Gateway, Reply};
use crate::tenants::fixture::{Request, call, gateway_with, made};
use himalia_engine::{BudgetUse, Engine, EngineConfig, Principal, Share, TenantLimits};
use himalia_testkit::patience::within;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// Eve's tenant has this part.
async fn place(share: Share) -> (Arc<Gateway>, Engine) {
    place_with(share, |_| {}).await
}

async fn place_with(share: Share, adjust: impl FnOnce(&mut EngineConfig)) -> (Arc<Gateway>, Engine) {
    let (gateway, engine) = gateway_with(|config| {
        let limits = TenantLimits {
            share,
            ..TenantLimits::default()
        };
        config.tenants.insert("evil".into(), limits);
        config.tenants.insert("acme".into(), TenantLimits::default());
        adjust(config);
    })
    .await;
    (Arc::new(gateway), engine)
}

fn uses(engine: &Engine, owner: &str) -> BudgetUse {
    let all = engine.budgets(&Principal::operator()).unwrap();
    all.into_iter().find(|one| one.owner == owner).unwrap_or_default()
}

fn request(method: &str, path: &str) -> Request {
    Request {
        method: method.into(),
        path: path.into(),
        body: String::new(),
        upgrade: false,
    }
}

fn with_body(method: &str, path: &str) -> Request {
    Request {
        body: "{}".into(),
        ..request(method, path)
    }
}

async fn get(gateway: &Gateway, token: &str, path: &str) -> Reply {
    call(gateway, token, &request("GET", path)).await
}

/// A refusal that a program can do something with.
fn is_refusal(reply: &Reply) -> bool {
    if !matches!(reply.status, 429 | 503 | 507) {
        return false;
    }
    let problem = reply.json();
    assert_eq!(problem["retryable"], true, "{reply:?}");
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
    true
}

/// Asks, reads the head of the answer and nothing more.
async fn slowly(gateway: &Gateway, token: &str, path: &str) -> (TcpStream, Reply) {
    let mut stream = gateway.connect_with_small_buffer().await;
    let text = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: token {token}\r\n\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let head = within(path, Reply::head(&mut stream)).await.unwrap();
    (stream, head)
}

async fn session(gateway: &Gateway, token: &str, code: &str) -> Value {
    made(gateway, token, "PUT", "/v1/sessions/own", json!({})).await;
    let path = "/v1/sessions/own/executions";
    made(gateway, token, "POST", path, json!({ "code": code })).await
}
