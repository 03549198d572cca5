//! Every route, from the table that the router is built from.

use crate::common;

use common::{Gateway, UPGRADE};
use himalia_http::{Access, ROUTES};

const ID: &str = "11111111-2222-3333-4444-555555555555";

fn concrete(path: &str) -> String {
    path.replace("{kernel_id}", ID)
        .replace("{session_id}", ID)
        .replace("{name}", "python3")
        .replace("{*path}", "a.txt")
        .replace("{file}", "logo-64x64.png")
        .replace("{execution_id}", &format!("exe_{}_1", ID.replace('-', "")))
        .replace("{prompt_id}", &format!("prm_{}_1", ID.replace('-', "")))
        .replace("{sha256}", &"0".repeat(64))
        .replace("{token_id}", ID)
        .replace("{approval_id}", ID)
}

#[tokio::test]
async fn nothing_answers_without_the_token_but_the_public_list() {
    let gateway = Gateway::start().await;
    for route in ROUTES {
        let path = concrete(route.path);
        let method = route.method.as_str();
        let mut headers: Vec<&str> = Vec::new();
        if route.websocket {
            headers.extend(UPGRADE);
        }
        let probe = ["/healthz", "/readyz", "/api"].contains(&route.path);
        let viewer = ["/", "/frame.html", "/icon.svg"].contains(&route.path)
            || ["/assets/", "/frame/", "/viewer/"]
                .iter()
                .any(|below| route.path.starts_with(below));
        // Its messages are signed.
        let signed = route.path.starts_with("/hooks/");
        // The token that MCP wants, and of what.
        let described = route.path.starts_with("/.well-known/");
        let public = probe || viewer || signed || described;
        assert_eq!(public, route.access != Access::Token, "{method} {path}");
        let reply = gateway.bare(method, &path, &headers, "").await;
        if signed {
            assert!(
                matches!(reply.status, 401 | 429),
                "{method} {path}: {}",
                reply.status
            );
            continue;
        }
        let wanted = match route.path {
            "/viewer/sign-in" if method == "POST" => 400,
            "/viewer/sign-in" => 200,
            "/viewer/sign-out" => 204,
            "/viewer/grant" => 303,
            // This gateway was given no files of the viewer, and no MCP.
            _ if (viewer && route.path != "/") || described => 404,
            _ if public => 200,
            _ => 401,
        };
        assert_eq!(reply.status, wanted, "{method} {path}");
        if !public {
            assert!(!reply.body.is_empty(), "{method} {path}");
            let head = gateway.bare("HEAD", &path, &headers, "").await;
            assert!(matches!(head.status, 401 | 405), "HEAD {path}");
            for wrong in ["", "?token=wrong", "?token="] {
                let reply = gateway
                    .bare(method, &format!("{path}{wrong}"), &["Authorization: token "], "")
                    .await;
                assert!(
                    matches!(reply.status, 401 | 429),
                    "{method} {path}{wrong}: {}",
                    reply.status
                );
            }
        }
    }
}

#[tokio::test]
async fn nothing_else_answers_without_the_token() {
    let gateway = Gateway::start().await;
    let paths = [
        "/x",
        "/viewer/x",
        "/assets",
        "/assets/a/b",
        "/api/x",
        "/metrics",
        "/api/kernels/x/y",
        "/api/contents",
        "/api/terminals",
        "/v1",
        "/t",
        "/t/x/api/kernels",
    ];
    for path in paths {
        assert_eq!(gateway.bare("GET", path, &[], "").await.status, 401, "{path}");
    }
    for method in ["POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"] {
        assert_eq!(
            gateway.bare(method, "/api", &[], "").await.status,
            401,
            "{method}"
        );
        assert_eq!(
            gateway.bare(method, "/healthz", &[], "").await.status,
            401,
            "{method}"
        );
    }
}

#[tokio::test]
async fn every_route_answers_with_the_token() {
    let gateway = Gateway::start().await;
    for route in ROUTES {
        let path = concrete(route.path);
        let headers: &[&str] = if route.websocket { &UPGRADE } else { &[] };
        let reply = gateway.call(route.method.as_str(), &path, headers, "").await;
        // A token is nothing there: messages are signed.
        let signed = route.path.starts_with("/hooks/");
        assert!(
            !matches!(reply.status, 401 | 403 | 405) || signed && reply.status == 401,
            "{} {path}: {}",
            route.method,
            reply.status
        );
        if reply.status >= 400 {
            assert!(reply.header("content-type").unwrap().ends_with("json"), "{path}");
            assert!(reply.json().is_object());
        }
    }
}
