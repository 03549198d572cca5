//! The REST API's codes, headers and bodies, as far as they need no kernel.

use crate::common;

use common::{Gateway, UPGRADE};
use serde_json::json;

const ID: &str = "11111111-2222-3333-4444-555555555555";

#[tokio::test]
async fn what_the_gateway_says_of_itself() {
    let gateway = Gateway::start().await;
    let version = gateway.bare("GET", "/api", &[], "").await;
    assert_eq!(version.json(), json!({"version": env!("CARGO_PKG_VERSION")}));
    assert_eq!(gateway.bare("GET", "/healthz", &[], "").await.status, 200);
    assert_eq!(gateway.bare("GET", "/readyz", &[], "").await.status, 200);
    let status = gateway.get("/api/status").await.json();
    let keys: Vec<&String> = status.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["connections", "kernels", "last_activity", "started"]);
    let started = status["started"].as_str().unwrap();
    assert!(started.len() == 27 && started.ends_with('Z'), "{started}");
    let spec = gateway.get("/api/spec.yaml").await;
    assert!(
        String::from_utf8(spec.body)
            .unwrap()
            .contains("  /api/kernels/{kernel_id}/restart:\n    post:\n")
    );
}

#[tokio::test]
async fn me() {
    let gateway = Gateway::start().await;
    let asked = "%7B%22kernels%22%3A%5B%22execute%22%2C%22fly%22%5D%2C%22contents%22%3A%5B%22read%22%5D%7D";
    let me = gateway.get(&format!("/api/me?permissions={asked}")).await.json();
    assert_eq!(
        me["permissions"],
        json!({"kernels": ["execute"], "contents": [], "updatable_fields": []})
    );
    for key in [
        "username",
        "name",
        "display_name",
        "initials",
        "avatar_url",
        "color",
    ] {
        assert!(me["identity"].get(key).is_some(), "{key}");
    }
    for bad in ["%7B", "%5B%5D", "%7B%22a%22%3A1%7D", "%7B%22a%22%3A%5B1%5D%7D"] {
        let reply = gateway.get(&format!("/api/me?permissions={bad}")).await;
        assert_eq!(reply.status, 400);
        assert!(
            reply.message().starts_with("permissions: "),
            "{}",
            reply.message()
        );
    }
    assert_eq!(
        gateway
            .call("PATCH", "/api/me", &[], "{\"name\": \"x\"}")
            .await
            .status,
        501
    );
}

#[tokio::test]
async fn unknown_things_are_404_with_a_body() {
    let gateway = Gateway::start().await;
    for (method, path) in [
        ("GET", format!("/api/kernels/{ID}")),
        ("DELETE", format!("/api/kernels/{ID}")),
        ("POST", format!("/api/kernels/{ID}/interrupt")),
        ("POST", format!("/api/kernels/{ID}/restart")),
        ("GET", format!("/api/kernels/{ID}/channels")),
    ] {
        let reply = gateway.call(method, &path, &[], "").await;
        assert_eq!(reply.status, 404, "{method} {path}");
        let wanted = json!({"message": format!("Kernel does not exist: {ID}"), "reason": "Not Found"});
        assert_eq!(reply.json(), wanted);
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
    for path in [
        "/api/kernels/zzz",
        "/api/kernels/a%2fb",
        "/api/sessions/x",
        "/api/kernelspecs/nope",
        "/kernelspecs/python3/nope.png",
        "/kernelspecs/python3/..%2f..%2fx",
        "/api/terminals",
        "/api/contents",
        "/api/contents/x.ipynb",
        "/nothing",
    ] {
        let reply = gateway.get(path).await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.json()["message"].is_string(), "{path}");
    }
    let native = gateway.get(&format!("/v1/sessions/{ID}/events")).await;
    assert_eq!(
        (native.status, native.header("content-type")),
        (404, Some("application/problem+json"))
    );
    assert_eq!(
        (&native.json()["code"], &native.json()["retryable"]),
        (&json!("session_not_found"), &json!(false))
    );
}

#[tokio::test]
async fn methods_that_a_path_does_not_have() {
    let gateway = Gateway::start().await;
    let reply = gateway.call("PUT", "/api/kernels", &[], "").await;
    assert_eq!(reply.status, 405);
    let allow = reply.header("allow").unwrap();
    assert!(
        allow.contains("GET") && allow.contains("POST") && allow.contains("HEAD"),
        "{allow}"
    );
    assert!(reply.json()["message"].is_string());
}

#[tokio::test]
async fn bad_bodies_name_their_fault() {
    let gateway = Gateway::start().await;
    for (body, wanted) in [
        (
            "{\"name\": }",
            "Invalid JSON in body of request: expected value at line 1 column 10",
        ),
        ("[]", "body: expected an object, got an array"),
        ("{\"name\": 3}", "name: expected a string, got a number"),
        ("{\"env\": []}", "env: expected an object, got an array"),
        ("{\"env\": {\"A\": 1}}", "env.A: expected a string, got a number"),
        ("{\"env\": {\"A=B\": \"\"}}", "env.A=B: not a variable's name"),
        ("{\"env\": {\"A\": \"\\u0000\"}}", "env.A: holds a NUL character"),
        ("{\"kernel_id\": \"x\"}", "kernel_id: not a UUID"),
        ("{\"path\": {}}", "path: expected a string, got an object"),
        ("{\"name\": \"nope\", \"unknown\": 1}", "no such kernelspec: nope"),
    ] {
        let reply = gateway
            .call("POST", "/api/kernels", &["Content-Type: text/plain"], body)
            .await;
        assert_eq!((reply.status, reply.message().as_str()), (400, wanted), "{body}");
    }
    for (body, wanted) in [
        ("", "No JSON data provided"),
        ("{}", "Missing field in JSON data: path"),
        ("{\"path\": \"a\"}", "Missing field in JSON data: type"),
        (
            "{\"path\": \"a\", \"type\": \"b\", \"kernel\": \"x\"}",
            "kernel: expected an object, got a string",
        ),
    ] {
        let reply = gateway.call("POST", "/api/sessions", &[], body).await;
        assert_eq!((reply.status, reply.message().as_str()), (400, wanted), "{body}");
    }
    let unknown = "{\"path\": \"a\", \"type\": \"b\", \"kernel\": {\"name\": \"nope\"}}";
    let reply = gateway.call("POST", "/api/sessions", &[], unknown).await;
    assert_eq!(
        (reply.status, &reply.json()["short_message"]),
        (501, &reply.json()["message"])
    );
}

/// No sandbox can be started here, so what is understood ends in 500.
#[tokio::test]
async fn names_and_ids_of_kernels_are_read_as_jupyter_server_reads_them() {
    let gateway = Gateway::start().await;
    for kernel in [
        json!({"name": "python3"}),
        json!({"name": "python"}),
        json!({"name": "python", "id": "foo"}),
        json!({"id": "foo"}),
    ] {
        let body = json!({"path": "a", "type": "notebook", "kernel": kernel}).to_string();
        let reply = gateway.call("POST", "/api/sessions", &[], &body).await;
        assert_eq!(reply.status, 500, "{body}: {}", reply.message());
    }
    let reply = gateway
        .call("POST", "/api/kernels", &[], "{\"name\": \"python\"}")
        .await;
    assert_eq!(reply.status, 500, "{}", reply.message());
    // It is no kernelspec.
    assert_eq!(gateway.get("/api/kernelspecs/python").await.status, 404);
}

#[tokio::test]
async fn answers_of_the_jupyter_api_run_and_load_nothing_in_a_browser() {
    let policy = |base: &str| {
        format!("frame-ancestors 'self'; report-uri {base}/api/security/csp-report; default-src 'none'")
    };
    let gateway = Gateway::start().await;
    for (method, path, status) in [
        ("GET", "/api", 200),
        ("HEAD", "/api/kernels", 200),
        ("GET", "/api/kernelspecs", 200),
        ("GET", "/api/kernels/zzz", 404),
        ("PUT", "/api/kernels", 405),
        ("GET", "/api/none", 404),
    ] {
        let reply = gateway.call(method, path, &[], "").await;
        assert_eq!(reply.status, status, "{path}");
        let said = reply.header("content-security-policy");
        assert_eq!(said, Some(policy("").as_str()), "{method} {path}");
    }
    let stranger = gateway.bare("GET", "/api/kernels", &[], "").await;
    let said = stranger.header("content-security-policy");
    assert_eq!((stranger.status, said), (401, Some(policy("").as_str())));
    assert_eq!(
        gateway
            .get("/v1/sessions")
            .await
            .header("content-security-policy"),
        None
    );
    assert_ne!(
        gateway.get("/").await.header("content-security-policy"),
        Some(policy("").as_str())
    );
    let below = Gateway::with(|config| config.base_url = "/lab".into()).await;
    let reply = below.get("/lab/api/kernels").await;
    let said = reply.header("content-security-policy");
    assert_eq!((reply.status, said), (200, Some(policy("/lab").as_str())));
}

#[tokio::test]
async fn bodies_of_very_many_small_values() {
    let gateway = Gateway::with(|_| ()).await;
    for (count, status) in [(100, 400), (200_000, 413)] {
        let body = format!(r#"{{"env": [{}]}}"#, vec![r#"{"a":0}"#; count].join(","));
        assert_eq!(
            gateway.call("POST", "/api/kernels", &[], &body).await.status,
            status
        );
    }
}

#[tokio::test]
async fn large_and_packed_bodies() {
    let gateway = Gateway::with(|config| config.body_bytes = 1000).await;
    let body = format!("{{\"name\": \"{}\"}}", "x".repeat(1000));
    assert_eq!(gateway.call("POST", "/api/kernels", &[], &body).await.status, 413);
    let reply = gateway
        .call("POST", "/api/kernels", &["Content-Encoding: gzip"], "xx")
        .await;
    assert_eq!(reply.status, 415);
    let deep = "[".repeat(900);
    assert_eq!(gateway.call("POST", "/api/kernels", &[], &deep).await.status, 400);
}

#[tokio::test]
async fn kernelspecs_and_their_files() {
    let gateway = Gateway::with(|config| config.base_url = "/hub/".into()).await;
    let list = gateway.get("/hub/api/kernelspecs").await;
    let specs = list.json();
    assert_eq!(specs["default"], "python3");
    let spec = &specs["kernelspecs"]["python3"];
    assert_eq!(
        (&spec["name"], &spec["spec"]["language"]),
        (&json!("python3"), &json!("python"))
    );
    assert!(spec["spec"]["argv"].is_array() && spec["spec"]["display_name"].is_string());
    assert_eq!(
        spec["resources"],
        json!({"logo-64x64": "/hub/kernelspecs/python3/logo-64x64.png"})
    );
    assert_eq!(&gateway.get("/hub/api/kernelspecs/python3").await.json(), spec);

    let logo = gateway.get("/hub/kernelspecs/python3/logo-64x64.png").await;
    assert_eq!(
        (logo.status, logo.body.as_slice()),
        (200, &b"not really a png"[..])
    );
    assert_eq!(logo.header("content-type"), Some("image/png"));
    assert_eq!(logo.header("cache-control"), Some("max-age=2592000"));
    assert_eq!(logo.header("x-content-type-options"), Some("nosniff"));
    assert!(
        logo.header("content-security-policy")
            .unwrap()
            .starts_with("sandbox")
    );
    let known = format!("If-None-Match: {}", logo.header("etag").unwrap());
    let again = gateway
        .call("GET", "/hub/kernelspecs/python3/logo-64x64.png", &[&known], "")
        .await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    let head = gateway
        .call("HEAD", "/hub/kernelspecs/python3/logo-64x64.png", &[], "")
        .await;
    assert_eq!(
        (head.status, head.body.len(), head.header("content-length")),
        (200, 0, Some("16"))
    );

    assert_eq!(gateway.get("/api/kernelspecs").await.status, 404);
    assert_eq!(gateway.bare("GET", "/healthz", &[], "").await.status, 200);
    assert_eq!(gateway.bare("GET", "/hub/healthz", &[], "").await.status, 200);
}

#[tokio::test]
async fn lists_can_be_revalidated_and_slashes_redirect() {
    let gateway = Gateway::start().await;
    let list = gateway.get("/api/kernels").await;
    assert_eq!((list.status, list.json()), (200, json!([])));
    let known = format!("If-None-Match: {}", list.header("etag").unwrap());
    let again = gateway.call("GET", "/api/kernels", &[&known], "").await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    let redirect = gateway.get("/api/kernels/?a=b").await;
    assert_eq!(
        (redirect.status, redirect.header("location")),
        (302, Some("/api/kernels?a=b"))
    );
    assert_eq!(gateway.get("/api/kernels?1763766000000").await.status, 200);
}

#[tokio::test]
async fn addresses_of_websockets_want_an_upgrade_and_events_a_number() {
    let gateway = Gateway::start().await;
    // An unknown kernel is said before anything about the handshake.
    let reply = gateway
        .call(
            "GET",
            &format!("/api/kernels/{ID}/channels?after=x"),
            &UPGRADE,
            "",
        )
        .await;
    assert_eq!(reply.status, 404);
    let reply = gateway
        .call("GET", &format!("/v1/sessions/{ID}/events?after=x"), &[], "")
        .await;
    assert_eq!(
        (reply.status, &reply.json()["detail"]),
        (400, &json!("after: expected a whole number"))
    );
    let reply = gateway
        .call(
            "GET",
            &format!("/v1/sessions/{ID}/events"),
            &["Last-Event-ID: -1"],
            "",
        )
        .await;
    assert_eq!(reply.status, 400);
}
