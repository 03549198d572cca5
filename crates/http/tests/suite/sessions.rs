//! The native API's codes and bodies, as far as they need no kernel.

use crate::common;

use common::Gateway;
use serde_json::json;

const ID: &str = "11111111-2222-3333-4444-555555555555";

#[tokio::test]
async fn lists_are_objects_that_can_grow() {
    let gateway = Gateway::start().await;
    for list in ["sessions", "pools", "templates"] {
        let page = gateway.get(&format!("/v1/{list}")).await.json();
        assert!(page[list].is_array(), "{page}");
        assert_eq!(page.get("next"), Some(&serde_json::Value::Null), "{page}");
    }
}

#[tokio::test]
async fn problems_name_the_field() {
    let gateway = Gateway::start().await;
    for (body, field, detail) in [
        ("{\"tempate\": \"x\"}", "tempate", "tempate: unknown field"),
        (
            "{\"template\": 3}",
            "template",
            "template: expected a string, got a number",
        ),
        ("{\"id\": \"x\"}", "id", "id: not a UUID"),
        (
            "{\"env\": {\"A=\": \"\"}}",
            "env.A=",
            "env.A=: not a variable's name",
        ),
        (
            "{\"secrets\": {\"A\": \"canary\\u0000\"}}",
            "secrets.A",
            "secrets.A: holds a NUL character",
        ),
        (
            "{\"limits\": {\"memory\": 1}}",
            "limits.memory",
            "limits.memory: unknown field",
        ),
        (
            "{\"limits\": {\"pids\": 0}}",
            "limits.pids",
            "limits.pids: must be 1 to 4294967295",
        ),
        (
            "{\"limits\": {\"pids\": 4294967296}}",
            "limits.pids",
            "limits.pids: must be 1 to 4294967295",
        ),
        (
            "{\"limits\": {\"memory_bytes\": 1.5}}",
            "limits.memory_bytes",
            "limits.memory_bytes: expected a whole number, not negative",
        ),
        (
            "{\"isolation\": \"strong\"}",
            "isolation",
            "isolation: expected one of none, namespaces, container, gvisor, microvm",
        ),
        (
            "{\"lifetime_s\": 99999999999}",
            "lifetime_s",
            "lifetime_s: must be 1 to 316224000",
        ),
        (
            "{\"labels\": {\"a\": 1}}",
            "labels.a",
            "labels.a: expected a string, got a number",
        ),
    ] {
        let reply = gateway.call("POST", "/v1/sessions", &[], body).await;
        assert_eq!(reply.header("content-type"), Some("application/problem+json"));
        let problem = reply.json();
        assert_eq!(
            (reply.status, &problem["field"], &problem["detail"]),
            (400, &json!(field), &json!(detail)),
            "{body}"
        );
        assert_eq!(
            (&problem["status"], &problem["title"], &problem["type"]),
            (&json!(400), &json!("Bad Request"), &json!("about:blank"))
        );
        assert_eq!(
            (&problem["code"], &problem["retryable"]),
            (&json!("bad_request"), &json!(false))
        );
    }
    let path = format!("/v1/sessions/{ID}/fork");
    for (body, field) in [
        ("{\"count\": 0}", "count"),
        ("{\"count\": 17}", "count"),
        ("{\"policy\": \"lax\"}", "policy"),
        ("{\"files\": \"move\"}", "files"),
        ("{\"files\": \"share\", \"max_copy_bytes\": 1}", "max_copy_bytes"),
        ("{\"atomic\": 1}", "atomic"),
        ("{\"n\": 1}", "n"),
    ] {
        let reply = gateway.call("POST", &path, &[], body).await;
        assert_eq!(
            (reply.status, &reply.json()["field"]),
            (400, &json!(field)),
            "{body}"
        );
    }
}

#[tokio::test]
async fn what_there_is_not() {
    let gateway = Gateway::start().await;
    for (method, path) in [
        ("GET", format!("/v1/sessions/{ID}")),
        ("DELETE", format!("/v1/sessions/{ID}")),
        ("POST", format!("/v1/sessions/{ID}/fork")),
        ("GET", "/v1/sessions/zzz".to_owned()),
    ] {
        let reply = gateway.call(method, &path, &[], "").await;
        let problem = reply.json();
        assert_eq!(
            (reply.status, &problem["code"]),
            (404, &json!("session_not_found")),
            "{method} {path}"
        );
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with("Session does not exist: "), "{detail}");
    }
    let reply = gateway
        .call("POST", "/v1/sessions", &[], "{\"template\": \"nope\"}")
        .await;
    assert!(matches!(reply.status, 400 | 404), "{}", reply.status);
    let code = reply.json()["code"].as_str().unwrap().to_owned();
    assert!(
        code == "template_not_found" || code == "kernelspec_not_found",
        "{code}"
    );
    let reply = gateway.call("PATCH", "/v1/pools", &[], "").await;
    assert_eq!(
        (reply.status, &reply.json()["code"]),
        (405, &json!("method_not_allowed"))
    );
}

#[tokio::test]
async fn a_collection_removes_orphans_and_a_dry_run_does_not() {
    let gateway = Gateway::start().await;
    let orphan = gateway.data().join("kernels/unknown");
    std::fs::create_dir_all(&orphan).unwrap();
    std::fs::write(orphan.join("1.seg"), [0; 100]).unwrap();
    let said = |dry_run| {
        json!({
            "dry_run": dry_run, "sessions": [], "bytes": 100, "more": false,
            "orphans": [{"kind": "log", "name": "kernels/unknown", "bytes": 100}],
        })
    };
    for (body, dry_run) in [("{\"dry_run\": true}", true), ("", false)] {
        assert!(orphan.exists());
        let reply = gateway.call("POST", "/v1/gc", &[], body).await;
        let mut told = reply.json();
        for member in ["database_bytes", "database_free_bytes"] {
            assert!(told[member].is_u64(), "{told}");
            told.as_object_mut().unwrap().remove(member);
        }
        assert_eq!((reply.status, told), (200, said(dry_run)));
    }
    assert!(!orphan.exists());
    let reply = gateway.call("POST", "/v1/gc", &[], "{\"dry\": true}").await;
    assert_eq!((reply.status, &reply.json()["field"]), (400, &json!("dry")));
}
