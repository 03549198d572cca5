//! Tokens, origins and CORS, over the wire.

use crate::common;

use common::{Gateway, Reply, TOKEN, UPGRADE};
use himalia_http::AllowedOrigins;
use himalia_testkit::patience::within;
use tokio::io::AsyncWriteExt as _;

const KERNELS: &str = "/api/kernels";
const CHANNELS: &str = "/api/kernels/11111111-2222-3333-4444-555555555555/channels";
const EVENTS: &str = "/v1/sessions/11111111-2222-3333-4444-555555555555/events";

#[tokio::test]
async fn all_forms_of_the_token() {
    let gateway = Gateway::start().await;
    for scheme in ["token", "Token", "bearer", "Bearer", "BEARER"] {
        let header = format!("Authorization: {scheme} {TOKEN}");
        assert_eq!(
            gateway.bare("GET", KERNELS, &[&header], "").await.status,
            200,
            "{scheme}"
        );
    }
    let query = format!("{KERNELS}?token={TOKEN}");
    assert_eq!(
        gateway
            .bare("GET", &query, &["Authorization: token wrong"], "")
            .await
            .status,
        200
    );
    let path = format!("/t/{TOKEN}{KERNELS}");
    assert_eq!(
        gateway
            .bare("GET", &path, &["Authorization: token "], "")
            .await
            .status,
        200
    );
    // A right token elsewhere does not make up for a wrong one in the query.
    let right = format!("Authorization: token {TOKEN}");
    assert_eq!(
        gateway
            .bare("GET", &format!("{KERNELS}?token=x"), &[&right], "")
            .await
            .status,
        401
    );
    assert_eq!(
        gateway
            .bare("GET", &format!("{path}?token=x"), &[], "")
            .await
            .status,
        401
    );
}

#[tokio::test]
async fn wrong_tokens_are_refused_then_slowed_down_and_lock_no_client_out() {
    let gateway = Gateway::start().await;
    let long = "x".repeat(30_000);
    let same_length = "X".repeat(TOKEN.len());
    let prefix = &TOKEN[..TOKEN.len() - 1];
    let mut statuses = Vec::new();
    for wrong in [
        "x",
        &long,
        &same_length,
        prefix,
        "%C3%A9",
        "a&token=b",
        "x",
        "x",
        "x",
        "x",
        "x",
        "x",
    ] {
        let reply = gateway
            .bare("GET", &format!("{KERNELS}?token={wrong}"), &[], "")
            .await;
        if reply.status == 429 {
            assert!(reply.header("retry-after").unwrap().parse::<u64>().unwrap() <= 61);
        } else {
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
        statuses.push(reply.status);
    }
    assert_eq!(statuses, [[401; 6], [401, 401, 401, 401, 429, 429]].concat());
    assert_eq!(gateway.get(KERNELS).await.status, 200);
    // No token at all is no guess.
    assert_eq!(gateway.bare("GET", KERNELS, &[], "").await.status, 401);
}

#[tokio::test]
async fn a_websocket_is_refused_before_the_upgrade() {
    let gateway = Gateway::start().await;
    for path in [CHANNELS, EVENTS] {
        assert_eq!(gateway.bare("GET", path, &UPGRADE, "").await.status, 401);
        assert_eq!(gateway.call("GET", path, &UPGRADE, "").await.status, 404);
        for origin in ["null", "http://evil.example", "http://127.0.0.1"] {
            let origin = format!("Origin: {origin}");
            let headers = [&UPGRADE[..], &[&origin]].concat();
            let reply = gateway.call("GET", path, &headers, "").await;
            assert_eq!(reply.status, 403, "{path} {origin}");
        }
        let own = format!("Origin: http://{}", gateway.address);
        let headers = [&UPGRADE[..], &[&own]].concat();
        assert_eq!(gateway.call("GET", path, &headers, "").await.status, 404);
    }
}

#[tokio::test]
async fn foreign_pages_see_nothing() {
    let gateway = Gateway::start().await;
    for origin in ["null", "https://evil.example", "http://127.0.0.1.evil.example"] {
        let origin = format!("Origin: {origin}");
        let reply = gateway.call("GET", KERNELS, &[&origin], "").await;
        assert_eq!(reply.status, 404);
        assert_eq!(reply.header("access-control-allow-origin"), None);
        let preflight = gateway.bare("OPTIONS", KERNELS, &[&origin], "").await;
        assert_eq!(
            (preflight.status, preflight.header("access-control-allow-methods")),
            (204, None)
        );
    }
}

#[tokio::test]
async fn allowed_pages_get_cors_headers_on_everything() {
    let gateway =
        Gateway::with(|config| config.allow_origin = AllowedOrigins::new(["https://lab.example/"])).await;
    let origin = "Origin: https://lab.example";
    let preflight = gateway
        .bare(
            "OPTIONS",
            KERNELS,
            &[origin, "Access-Control-Request-Method: POST"],
            "",
        )
        .await;
    assert_eq!(preflight.status, 204);
    assert!(
        preflight
            .header("access-control-allow-methods")
            .unwrap()
            .contains("PATCH")
    );
    assert!(
        preflight
            .header("access-control-allow-headers")
            .unwrap()
            .contains("authorization")
    );
    for reply in [
        gateway.call("GET", KERNELS, &[origin], "").await,
        gateway.bare("GET", KERNELS, &[origin], "").await,
    ] {
        assert_eq!(
            reply.header("access-control-allow-origin"),
            Some("https://lab.example"),
            "{}",
            reply.status
        );
        assert!(reply.head.to_ascii_lowercase().contains("vary: origin"));
    }
    assert_eq!(
        gateway
            .call("GET", KERNELS, &["Origin: https://other.example"], "")
            .await
            .status,
        404
    );
}

/// Many clients send a body after the headers, in a packet of its own: the answer may not come between them and close the connection.
#[tokio::test]
async fn a_connection_can_be_used_again_after_a_refused_request_whose_body_comes_late() {
    let gateway = Gateway::start().await;
    let mut stream = gateway.connect().await;
    let head = |token: &str| {
        format!(
            "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: token {token}\r\nContent-Length: 5\r\n\r\n"
        )
    };
    for _ in 0..2 {
        stream.write_all(head("wrong").as_bytes()).await.unwrap();
        // The gateway has seen the headers when it has answered this.
        assert_eq!(gateway.get("/api").await.status, 200);
        stream.write_all(b"{\"a\":").await.unwrap();
        let reply = within("the refusal", Reply::read(&mut stream)).await.unwrap();
        assert_eq!(reply.status, 401);
    }
}
