//! What tokens are good for: every route of the table with every scope, and what the log tells of who did what.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

#[path = "suite/common/mod.rs"]
mod common;

use common::log::Log;
use common::{Gateway, UPGRADE};
use himalia_engine::{Principal, Scope};
use himalia_http::{Access, ROUTES, Route, Token};

const READER: &str = "the-token-that-reads";
const WRITER: &str = "the-token-that-writes";
const ID: &str = "11111111-2222-3333-4444-555555555555";

async fn gateway() -> Gateway {
    Gateway::with(|config| {
        let of = |caller| Principal::of_tenant("acme", caller).unwrap();
        config
            .tokens
            .add(Token::new(READER), of("reader").read_only())
            .unwrap();
        config.tokens.add(Token::new(WRITER), of("writer")).unwrap();
    })
    .await
}

/// The path with something in place of each parameter.
fn filled(path: &str) -> String {
    let part = |part: &str| match part {
        "{sha256}" => "a".repeat(64),
        id if id.ends_with("_id}") => ID.to_owned(),
        name if name.starts_with('{') => "x".to_owned(),
        other => other.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn a_token_that_reads_gets_reads_and_streams_of_events_alone() {
    let gateway = gateway().await;
    let mut refused = Vec::new();
    for route in ROUTES.iter().filter(|route| route.access == Access::Token) {
        let reads = route.method == "GET" && !route.websocket;
        for token in [READER, WRITER] {
            let auth = format!("Authorization: token {token}");
            let mut headers = vec![auth.as_str()];
            if route.websocket {
                headers.extend(UPGRADE);
            }
            let body = if reads || route.websocket { "" } else { "{}" };
            let reply = gateway
                .bare(route.method.as_str(), &filled(route.path), &headers, body)
                .await;
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            let out_of_scope = reply.status == 403 && text.contains("the scope of this token is read");
            assert_eq!(
                out_of_scope,
                token == READER && !reads,
                "{} {}: {text}",
                route.method,
                route.path
            );
            if out_of_scope {
                refused.push(route.path);
            }
        }
    }
    for path in [
        "/mcp",
        "/api/kernels/{kernel_id}/channels",
        "/v1/sessions/{session_id}/executions",
        "/v1/sessions/{session_id}/files/{*path}",
    ] {
        assert!(refused.contains(&path), "{path}");
    }
    let auth = format!("Authorization: token {READER}");
    let head = gateway.bare("HEAD", "/api/kernels", &[&auth], "").await;
    assert_eq!(head.status, 200);
    let events = format!("/v1/sessions/{ID}/events");
    let headers = [&[auth.as_str()][..], &UPGRADE].concat();
    let reply = gateway.bare("GET", &events, &headers, "").await;
    assert_eq!(reply.status, 404, "an event stream may be a WebSocket");
}

/// Whether a token of this scope may call a route, of a tenant or of the operator.
fn may(scope: Scope, operator: bool, route: &Route) -> bool {
    let reads = route.method == "GET" && !route.websocket;
    match route.path {
        "/v1/tokens"
        | "/v1/tool-approvals"
        | "/v1/tool-approvals/{approval_id}"
        | "/v1/tokens/{token_id}"
        | "/v1/credentials"
        | "/v1/credentials/{credential}"
        | "/v1/credentials/{credential}/grant"
        | "/v1/grants"
        | "/v1/runs/{run_id}/steps/{step}/answer" => scope == Scope::Admin,
        "/v1/pools" | "/metrics" => operator,
        "/v1/prompt-webhooks" | "/v1/prompt-webhooks/{prompt_webhook}" if !reads => scope == Scope::Admin,
        "/v1/gc" => operator && scope == Scope::Admin,
        _ => reads || scope >= Scope::Execute,
    }
}

#[tokio::test]
async fn every_route_with_every_scope() {
    let all = [Scope::Read, Scope::Execute, Scope::Admin];
    let token = |owner: &str, scope: Scope| format!("the-token-of-{owner}-{}", scope.as_str());
    let gateway = Gateway::with(|config| {
        for (owner, scope) in ["acme", "operator"]
            .iter()
            .flat_map(|owner| all.map(|scope| (*owner, scope)))
        {
            let holder = Principal::of_owner(owner, "x").unwrap().with_scope(scope);
            let token = Token::new(&token(owner, scope));
            config.tokens.add(token, holder).unwrap();
        }
    })
    .await;
    let mut refused = 0;
    for route in ROUTES.iter().filter(|route| route.access == Access::Token) {
        for (owner, scope) in ["acme", "operator"]
            .iter()
            .flat_map(|owner| all.map(|scope| (*owner, scope)))
        {
            let auth = format!("Authorization: token {}", token(owner, scope));
            let mut headers = vec![auth.as_str()];
            if route.websocket {
                headers.extend(UPGRADE);
            }
            let body = match (route.method.as_str(), route.path) {
                ("POST", "/v1/tokens") => "{\"caller\": \"ci\", \"scope\": \"read\"}",
                ("PUT", "/v1/credentials/{credential}") => {
                    r#"{"kind": "bearer", "hosts": ["api.example.org"], "value": "a-secret-value"}"#
                }
                ("POST", "/v1/credentials/{credential}/grant") => {
                    r#"{"redirect_uri": "http://127.0.0.1:1/"}"#
                }
                ("POST", "/v1/runs/{run_id}/steps/{step}/answer") => r#"{"value": "x"}"#,
                ("POST", "/v1/prompt-webhooks") => r#"{"name": "x", "url": "http://127.0.0.1:1/"}"#,
                ("POST", "/v1/grants") => r#"{"state": "x"}"#,
                ("GET" | "DELETE", _) => "",
                _ => "{}",
            };
            let reply = gateway
                .bare(route.method.as_str(), &filled(route.path), &headers, body)
                .await;
            assert_eq!(
                reply.status != 403,
                may(scope, owner == "operator", route),
                "{owner} {scope:?} {} {}: {reply:?}",
                route.method,
                route.path
            );
            refused += usize::from(reply.status == 403);
        }
    }
    assert!(refused > 50, "{refused}");
}

#[tokio::test]
async fn what_a_caller_may_is_said_by_its_scope() {
    let gateway = gateway().await;
    let asked = "/api/me?permissions=%7B%22kernels%22:%5B%22read%22,%22write%22,%22execute%22%5D%7D";
    for (token, wanted) in [(READER, 1), (WRITER, 3)] {
        let auth = format!("Authorization: token {token}");
        let reply = gateway.bare("GET", asked, &[&auth], "").await;
        let allowed = reply.json()["permissions"]["kernels"].as_array().unwrap().len();
        assert_eq!(allowed, wanted, "{token}");
    }
}

#[tokio::test]
async fn the_log_tells_who_did_what() {
    let log = Log::of_this_process(tracing::Level::INFO);
    let gateway = gateway().await;
    let auth = format!("Authorization: token {WRITER}");
    for (method, path, body) in [
        (
            "POST",
            "/api/kernels".to_owned(),
            "{\"name\": \"canary-of-a-name\"}",
        ),
        ("DELETE", format!("/v1/sessions/{ID}"), ""),
        ("GET", format!("/v1/sessions/{ID}/files/canary-of-a-file"), ""),
        ("GET", "/api/kernels".to_owned(), ""),
        ("GET", "/v1/pools".to_owned(), ""),
    ] {
        gateway
            .bare(method, &path, &[&auth, "X-Request-Id: mine.1"], body)
            .await;
    }
    let auth = format!("Authorization: token {READER}");
    gateway.bare("POST", "/api/kernels", &[&auth], "{}").await;
    gateway
        .bare("GET", "/api/kernels", &["Authorization: token wrong-canary"], "")
        .await;
    let log = log.text();
    let audit = |parts: &[&str]| {
        let mut lines = log.lines().filter(|line| line.contains("himalia::audit"));
        lines.any(|line| parts.iter().all(|part| line.contains(part)))
    };
    let peer = "peer=\"127.0.0.1:";
    let who = "principal=\"acme/writer\"";
    let credential = "credential=\"token:";
    let id = "request{id=\"mine.1\"}";
    let failed = "outcome=\"failed\"";
    assert!(
        audit(&[
            who,
            peer,
            credential,
            id,
            "command=\"start_kernel\"",
            failed,
            "kernelspec_not_found"
        ]),
        "{log}"
    );
    let session = format!("session=\"{ID}\"");
    assert!(
        audit(&[
            who,
            "command=\"shutdown_kernel\"",
            &session,
            failed,
            "kernel_not_found"
        ]),
        "{log}"
    );
    assert!(audit(&[who, "command=\"read_file\"", &session, failed]), "{log}");
    assert!(audit(&[who, "command=\"pools\"", "outcome=\"denied\""]), "{log}");
    assert!(!audit(&["command=\"kernels\""]), "{log}");
    // Before any command: a scope, a wrong token.
    assert!(
        audit(&[
            "principal=\"acme/reader\"",
            "command=\"request\"",
            "POST /api/kernels",
            "denied",
            "code=\"403\""
        ]),
        "{log}"
    );
    assert!(
        audit(&[peer, "GET /api/kernels", "denied", "code=\"401\""]),
        "{log}"
    );
    let lines: Vec<_> = log
        .lines()
        .filter(|line| line.contains("himalia::audit"))
        .collect();
    assert!(
        !lines.concat().contains("canary") && !log.contains(WRITER),
        "{lines:?}"
    );
}
