//! Access tokens that are made while the gateway runs: by whom, what they are good for, and what ends with them.

#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use himalia_engine::TenantLimits;
use himalia_testkit::patience::within;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::common::{self, Gateway, Reply, UPGRADE};
use crate::tenants::fixture::{gateway_with, made, stop};

async fn gateway() -> (Gateway, himalia_engine::Engine) {
    gateway_with(|config| {
        for tenant in ["acme", "evil"] {
            config.tenants.insert(tenant.into(), TenantLimits::default());
        }
    })
    .await
}

async fn ask(gateway: &Gateway, token: &str, method: &str, path: &str, body: &Value) -> Reply {
    let auth = format!("Authorization: token {token}");
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let headers = [auth.as_str()];
    let exchange = gateway.bare(method, path, &headers, &body);
    within(path, exchange).await.unwrap()
}

/// A stream or a socket that is open, after its first bytes.
async fn open(gateway: &Gateway, token: &str, request: &str, headers: &[&str], body: &str) -> TcpStream {
    let mut stream = gateway.connect().await;
    let headers = [headers, &[""]].concat().join("\r\n");
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\nHost: x\r\nAuthorization: bearer {token}\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let reply = within(request, Reply::head(&mut stream)).await.unwrap();
    assert!(matches!(reply.status, 200 | 101), "{request}: {reply:?}");
    stream
}

/// Reads until the connection ends, in whatever way.
async fn ended(stream: &mut TcpStream) {
    let mut block = [0; 4096];
    while !matches!(stream.read(&mut block).await, Ok(0) | Err(_)) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_once_and_acts_as_its_caller() {
    let (gateway, engine) = gateway().await;
    let new = json!({
        "caller": "ci", "tenant": "acme", "scope": "execute", "description": "nightly", "expires_in_s": 3600,
    });
    let reply = ask(&gateway, common::TOKEN, "POST", "/v1/tokens", &new).await;
    assert_eq!(
        (reply.status, reply.header("cache-control")),
        (201, Some("no-store"))
    );
    let token = reply.json();
    let text = token["token"].as_str().unwrap();
    assert!(text.starts_with("himalia_") && text.len() == 72);
    for (member, wanted) in [
        ("owner", "acme"),
        ("caller", "ci"),
        ("scope", "execute"),
        ("description", "nightly"),
        ("created_by", "operator"),
    ] {
        assert_eq!(token[member], wanted, "{member}");
    }
    let listed = ask(&gateway, common::TOKEN, "GET", "/v1/tokens", &Value::Null).await;
    assert!(!String::from_utf8_lossy(&listed.body).contains(text));
    assert_eq!(listed.json()["tokens"][0]["id"], token["id"]);

    made(&gateway, text, "PUT", "/v1/sessions/analysis", json!({})).await;
    let run = json!({"code": "print x"});
    let ran = made(&gateway, text, "POST", "/v1/sessions/analysis/executions", run).await;
    assert_eq!(
        (&ran["caller"], &ran["status"]),
        (&json!("acme/ci"), &json!("ok"))
    );
    let refused = ask(&gateway, text, "GET", "/v1/tokens", &Value::Null).await;
    assert_eq!(refused.status, 403);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_revoked_token_has_open_ends_and_nothing_else() {
    let (gateway, engine) = gateway().await;
    let make = async |scope: &str| {
        let new = json!({"caller": "ci", "tenant": "acme", "scope": scope});
        let token = made(&gateway, common::TOKEN, "POST", "/v1/tokens", new).await;
        let member = |name: &str| token[name].as_str().unwrap().to_owned();
        (member("id"), member("token"))
    };
    let (id, token) = make("execute").await;
    let (_, other) = make("read").await;
    let session = made(&gateway, &token, "PUT", "/v1/sessions/analysis", json!({})).await;
    let session = session["id"].as_str().unwrap();
    let channels = format!("GET /api/kernels/{session}/channels");
    let events = format!("GET /v1/sessions/{session}/events");
    let mut open_ones = Vec::new();
    open_ones.push(open(&gateway, &token, &channels, &UPGRADE, "").await);
    open_ones.push(open(&gateway, &token, &events, &[], "").await);
    open_ones.push(open(&gateway, &token, &events, &UPGRADE, "").await);
    let mut others = open(&gateway, &other, &events, &[], "").await;
    // A request that waits for a long cell.
    let waits = json!({"code": "sleep 60", "wait_s": 60}).to_string();
    let mut waiting = gateway.connect().await;
    let head = format!(
        "POST /v1/sessions/{session}/executions HTTP/1.1\r\nHost: x\r\nAuthorization: bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{waits}",
        waits.len()
    );
    waiting.write_all(head.as_bytes()).await.unwrap();

    let revoked = ask(
        &gateway,
        common::TOKEN,
        "DELETE",
        &format!("/v1/tokens/{id}"),
        &Value::Null,
    )
    .await;
    assert_eq!(revoked.status, 200);
    assert_eq!(revoked.json(), json!({"stopped": 0, "stopped_runs": []}));
    for stream in open_ones.iter_mut().chain([&mut waiting]) {
        within("the end", ended(stream)).await.unwrap();
    }
    let refused = ask(&gateway, &token, "GET", "/v1/sessions", &Value::Null).await;
    assert_eq!(refused.status, 401);
    let again = ask(
        &gateway,
        common::TOKEN,
        "DELETE",
        &format!("/v1/tokens/{id}"),
        &Value::Null,
    )
    .await;
    assert_eq!(again.status, 404);

    // The stream of the other token continues: it shows the next record.
    let run = json!({"code": "print canary-of-the-stream", "wait_s": 0});
    made(
        &gateway,
        common::TOKEN,
        "POST",
        &format!("/v1/sessions/{session}/interrupt"),
        json!({}),
    )
    .await;
    made(
        &gateway,
        common::TOKEN,
        "POST",
        &format!("/v1/sessions/{session}/executions"),
        run,
    )
    .await;
    let shows = async {
        let (mut seen, mut block) = (Vec::new(), [0; 4096]);
        while !String::from_utf8_lossy(&seen).contains("canary-of-the-stream") {
            let read = others.read(&mut block).await.unwrap();
            assert!(read > 0, "it ended");
            seen.extend_from_slice(&block[..read]);
        }
    };
    within("the other stream", shows).await.unwrap();
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_expired_token_has_open_ends() {
    let (gateway, engine) = gateway().await;
    let new = json!({"caller": "ci", "tenant": "acme", "scope": "execute", "expires_in_s": 2});
    let token = made(&gateway, common::TOKEN, "POST", "/v1/tokens", new).await;
    let token = token["token"].as_str().unwrap();
    // A connection that is idle ends as well.
    let mut stream = gateway.connect().await;
    let head = format!("GET /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: token {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let reply = within("the list", Reply::head(&mut stream)).await.unwrap();
    assert!(matches!(reply.status, 200 | 401), "{reply:?}");
    within("the end", ended(&mut stream)).await.unwrap();
    let refused = ask(&gateway, token, "GET", "/v1/sessions", &Value::Null).await;
    assert_eq!(refused.status, 401);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_signed_in_with_a_token_is_out_with_it() {
    let (gateway, engine) = gateway().await;
    let new = json!({"caller": "ci", "tenant": "acme", "scope": "read"});
    let token = made(&gateway, common::TOKEN, "POST", "/v1/tokens", new).await;
    let body = json!({ "token": token["token"] }).to_string();
    let host = format!("Origin: http://{}", gateway.address);
    let reply = gateway
        .bare(
            "POST",
            "/viewer/sign-in",
            &[&host, "Content-Type: application/json"],
            &body,
        )
        .await;
    assert_eq!(reply.status, 204, "{reply:?}");
    let set = reply.header("set-cookie").unwrap();
    let cookie = format!("Cookie: {}", set.split(';').next().unwrap());
    let me = gateway.bare("GET", "/api/me", &[&cookie], "").await;
    assert_eq!(me.json()["identity"]["username"], "acme/ci");
    let id = token["id"].as_str().unwrap();
    ask(
        &gateway,
        common::TOKEN,
        "DELETE",
        &format!("/v1/tokens/{id}"),
        &Value::Null,
    )
    .await;
    assert_eq!(gateway.bare("GET", "/api/me", &[&cookie], "").await.status, 401);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_of_a_tenant_keeps_to_it() {
    let (gateway, engine) = gateway().await;
    let new = json!({"caller": "boss", "tenant": "acme", "scope": "admin"});
    let admin = made(&gateway, common::TOKEN, "POST", "/v1/tokens", new).await;
    let admin = admin["token"].as_str().unwrap();
    let foreign = json!({"caller": "x", "tenant": "evil", "scope": "read"});
    let foreign = made(&gateway, common::TOKEN, "POST", "/v1/tokens", foreign).await;
    for tenant in ["evil", "operator", "unknown"] {
        let new = json!({"caller": "x", "tenant": tenant, "scope": "read"});
        let reply = ask(&gateway, admin, "POST", "/v1/tokens", &new).await;
        assert_eq!(reply.status, 403, "{tenant}");
    }
    let own = made(
        &gateway,
        admin,
        "POST",
        "/v1/tokens",
        json!({"caller": "x", "scope": "execute"}),
    )
    .await;
    assert_eq!(
        (&own["owner"], &own["created_by"]),
        (&json!("acme"), &json!("acme/boss"))
    );
    let listed = ask(&gateway, admin, "GET", "/v1/tokens", &Value::Null)
        .await
        .json();
    let owners: Vec<_> = listed["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["owner"].clone())
        .collect();
    assert_eq!(owners, ["acme", "acme"]);
    let foreign = foreign["id"].as_str().unwrap();
    for id in [foreign, "00000000-0000-0000-0000-000000000001", "no-id"] {
        let reply = ask(
            &gateway,
            admin,
            "DELETE",
            &format!("/v1/tokens/{id}"),
            &Value::Null,
        )
        .await;
        assert_eq!(reply.status, 404, "{id}");
        assert_eq!(reply.json()["detail"], format!("Token does not exist: {id}"));
    }
    for (path, method) in [("/v1/pools", "GET"), ("/v1/gc", "POST")] {
        let body = if method == "GET" { Value::Null } else { json!({}) };
        assert_eq!(
            ask(&gateway, admin, method, path, &body).await.status,
            403,
            "{path}"
        );
    }
    for (bad, field) in [
        (json!({"caller": "x"}), "scope"),
        (json!({"caller": "x", "scope": "root"}), "scope"),
        (json!({"caller": "a/b", "scope": "read"}), "caller"),
        (
            json!({"caller": "x", "scope": "read", "expires_in_s": 0}),
            "expires_in_s",
        ),
        (
            json!({"caller": "x", "scope": "read", "description": "a\nb"}),
            "description",
        ),
        (json!({"caller": "x", "scope": "read", "token": "mine"}), "token"),
    ] {
        let reply = ask(&gateway, admin, "POST", "/v1/tokens", &bad).await;
        assert_eq!(reply.status, 400, "{bad}");
        assert!(
            reply.json()["detail"].as_str().unwrap().contains(field),
            "{bad}: {reply:?}"
        );
    }
    stop(engine).await;
}
