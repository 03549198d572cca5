//! Requests that two readers could parse differently, and texts that are to deceive readers of the log.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

#[path = "suite/common/mod.rs"]
mod common;

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{Request, Response};
use common::log::Log;
use common::{Gateway, TOKEN, UPGRADE};
use himalia_http::MountedService;
use himalia_testkit::patience::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::service_fn;

/// Sends these bytes, and gives the statuses of all answers until the connection ends.
async fn answers(gateway: &Gateway, bytes: &[u8]) -> Vec<u16> {
    let mut client = gateway.connect().await;
    client.write_all(bytes).await.unwrap();
    client.shutdown().await.unwrap();
    let mut all = Vec::new();
    let _ = within("the end", client.read_to_end(&mut all)).await.unwrap();
    let text = String::from_utf8_lossy(&all).into_owned();
    let heads = text.split("HTTP/1.1 ").skip(1);
    heads.map(|head| head[..3].parse().unwrap()).collect()
}

fn post(headers: &str, body: &str) -> Vec<u8> {
    format!("POST /api/kernels HTTP/1.1\r\nHost: x\r\nAuthorization: token {TOKEN}\r\n{headers}\r\n{body}")
        .into_bytes()
}

const NEXT: &str = "GET /api/kernels HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn a_body_ends_where_its_chunks_do_whatever_its_length_says() {
    let gateway = Gateway::start().await;
    // By the length there is one request; what follows the last chunk is a separate request, and has no token.
    for headers in [
        format!(
            "Content-Length: {}\r\nTransfer-Encoding: chunked\r\n",
            5 + NEXT.len()
        ),
        format!(
            "Transfer-Encoding: chunked\r\nContent-Length: {}\r\n",
            5 + NEXT.len()
        ),
    ] {
        let got = answers(&gateway, &post(&headers, &format!("0\r\n\r\n{NEXT}"))).await;
        assert!(
            got.len() <= 2 && got.get(1).is_none_or(|status| *status == 401),
            "{headers}: {got:?}"
        );
        assert_ne!(got.first(), Some(&200));
    }
    for headers in [
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding:\u{b}chunked\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: 99999999999999999999\r\n",
    ] {
        let got = answers(&gateway, &post(headers, &format!("0\r\n\r\n{NEXT}"))).await;
        assert!(got.is_empty() || got == [400], "{headers:?}: {got:?}");
    }
}

#[tokio::test]
async fn chunks_have_one_form() {
    let gateway = Gateway::start().await;
    let chunked = |body: &str| post("Transfer-Encoding: chunked\r\nConnection: close\r\n", body);
    // The right form gets as far as the handler.
    let right = "7\r\n[\"so\"]\n\r\n0\r\n\r\n";
    let wanted = answers(&gateway, &chunked(right)).await;
    assert_eq!(wanted, [400], "no object");
    let handler = gateway
        .call("POST", "/api/kernels", &["Transfer-Encoding: chunked"], right)
        .await;
    assert!(handler.message().contains("object"), "{handler:?}");
    for bad in [
        // Line ends of one byte, sizes that are none, and a chunk without its line end.
        "7\n[\"so\"]\n\n0\n\n".to_owned(),
        "-7\r\n[\"so\"]\n\r\n0\r\n\r\n".to_owned(),
        "0x7\r\n[\"so\"]\n\r\n0\r\n\r\n".to_owned(),
        "fffffffffffffffff\r\n[\"so\"]\r\n0\r\n\r\n".to_owned(),
        "7\r\n[\"so\"]\nXX0\r\n\r\n".to_owned(),
        // Extensions that break a line, or that have no end.
        "7;a\nb\r\n[\"so\"]\n\r\n0\r\n\r\n".to_owned(),
        format!("7;{}\r\n[\"so\"]\n\r\n0\r\n\r\n", "x".repeat(100_000)),
        format!("0\r\n{}\r\n\r\n", "x: y\r\n".repeat(10_000)),
    ] {
        let shown = &bad[..bad.len().min(40)];
        let mut client = gateway.connect().await;
        let _ = client.write_all(&chunked(&bad)).await;
        let _ = client.shutdown().await;
        let mut all = Vec::new();
        let _ = within("the end", client.read_to_end(&mut all)).await.unwrap();
        let text = String::from_utf8_lossy(&all);
        assert!(!text.contains("object"), "it was read: {shown:?}: {text}");
    }
}

#[tokio::test]
async fn a_request_has_one_host_and_its_lines_end_in_one_way() {
    let gateway = Gateway::start().await;
    for (head, wanted) in [
        (
            "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            &[200][..],
        ),
        (
            "GET /healthz HTTP/1.1\r\nHost: x\r\nHost: x\r\nConnection: close\r\n\r\n",
            &[400],
        ),
        (
            "GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\nConnection: close\r\n\r\n",
            &[400],
        ),
        ("GET /healthz HTTP/1.1\r\nHost: x\rX: y\r\n\r\n", &[400]),
        ("GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n", &[400]),
        ("GET /healthz\r\n\r\n", &[400]),
    ] {
        assert_eq!(answers(&gateway, head.as_bytes()).await, wanted, "{head:?}");
    }
}

/// Any request is answered with its token's principal.
async fn yes(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from("yes")))
}

#[tokio::test]
async fn a_page_at_a_name_that_was_made_to_mean_this_machine_gets_no_tools() {
    let gateway = Gateway::with(|config| config.mcp = Some(MountedService::new(service_fn(yes)))).await;
    let port = gateway.address.port();
    for (host, wanted) in [
        (format!("rebound.example:{port}"), 403),
        (format!("127.0.0.1.evil.example:{port}"), 403),
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
    ] {
        let text = format!(
            "POST /mcp HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Length: 2\r\nConnection: close\r\n\r\n{{}}"
        );
        assert_eq!(answers(&gateway, text.as_bytes()).await, [wanted], "{host}");
    }
}

#[tokio::test]
async fn a_log_has_one_line_for_each_event_and_nothing_that_a_terminal_obeys() {
    let log = Log::of_this_process(tracing::Level::TRACE);
    let gateway = Gateway::start().await;
    let bidi = "\u{202e}\u{2066}";
    let nasty = format!("\u{1b}]0;owned\u{7}\u{1b}[2J{bidi}");
    let escaped = "%0d%0aforged%20line%1b[31m%e2%80%ae";
    let auth = format!("Authorization: token {TOKEN}");
    for path in [
        format!("/api/kernels/{escaped}"),
        format!("/v1/sessions/{escaped}"),
        format!("/v1/sessions/{escaped}/files/{escaped}"),
        format!("/v1/executions/{escaped}"),
        format!("/v1/artifacts/{escaped}"),
        format!("/api/kernelspecs/{escaped}"),
        format!("/kernelspecs/python3/{escaped}"),
        format!("/api/kernels?token={escaped}"),
        format!("/{escaped}"),
    ] {
        // What HTTP allows in a header: bytes beyond ASCII, and no control characters.
        let agent = format!("User-Agent: {bidi}agent");
        for headers in [
            &[auth.as_str(), agent.as_str()][..],
            &[UPGRADE.as_slice(), &[auth.as_str()]].concat(),
        ] {
            gateway.bare("GET", &path, headers, "").await;
        }
    }
    for body in [
        serde_json::json!({ "name": nasty, "path": format!("{nasty}\r\nforged line") }),
        serde_json::json!({ "name": "python3", "env": { "A": nasty }, "cwd": format!("/{nasty}\nforged line") }),
    ] {
        for path in ["/api/kernels", "/api/sessions", "/v1/sessions"] {
            gateway.call("POST", path, &[], &body.to_string()).await;
        }
    }
    let log = log.text();
    assert!(log.lines().count() > 20, "{log}");
    let bad = |c: char| {
        (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found = log
        .lines()
        .find(|line| line.contains(bad) || line.starts_with("forged"));
    assert!(found.is_none(), "{found:?}");
    // Each begins with its time.
    let torn = log
        .lines()
        .find(|line| !line.starts_with(|c: char| c.is_ascii_digit()));
    assert!(torn.is_none(), "{torn:?}");
}
