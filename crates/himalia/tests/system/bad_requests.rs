//! Requests that are wrong: the documented status, and one line that says why.

use std::fs;

use himalia_testkit::http::Response;
use serde_json::Value;

use crate::common::{gateway, leftovers};

const ABSENT: &str = "11111111-2222-3333-4444-555555555555";

/// Checks a refusal: its status, that its message contains a word, and that nothing internal shows.
fn assert_refused(what: &str, reply: &Response, status: u16, word: &str) {
    let text = reply.text();
    assert_eq!(reply.status, status, "{what}: {text}");
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_else(|_| panic!("{what}: {text}"));
    let message = body
        .get("message")
        .or(body.get("detail"))
        .and_then(Value::as_str)
        .unwrap();
    assert!(message.contains(word), "{what}: {message}");
    assert!(message.lines().count() == 1 && text.len() < 600, "{what}: {text}");
    for leak in ["panicked", "Traceback", ".rs:", "/tmp/", "testkit-token"] {
        assert!(!text.contains(leak), "{what}: {text}");
    }
}

#[tokio::test]
async fn bodies() {
    let gateway = gateway(&[]).await;
    let http = gateway.http();
    let deep = "[".repeat(100_000);
    let long = format!(r#"{{"env":{{"A":"{}"}}}}"#, "x".repeat(5000));
    let many: Vec<String> = (0..600).map(|n| format!(r#""V{n}":"""#)).collect();
    let many = format!(r#"{{"env":{{{}}}}}"#, many.join(","));
    for (body, status, word) in [
        ("{", 400, "Invalid JSON in body of request"),
        (r#"{"name": "fake",}"#, 400, "line 1"),
        ("nul", 400, "Invalid JSON"),
        (&deep, 400, "Invalid JSON"),
        ("\u{feff}{}", 400, "Invalid JSON"),
        ("[]", 400, "body: expected an object, got an array"),
        (r#""fake""#, 400, "body: expected an object"),
        (r#"{"name": 3}"#, 400, "name: expected a string, got a number"),
        (r#"{"name": "no such"}"#, 400, "no such kernelspec"),
        (r#"{"name": "../fake"}"#, 400, "no such kernelspec"),
        (r#"{"name": "fake", "env": []}"#, 400, "env: expected an object"),
        (
            r#"{"name": "fake", "env": {"A": 1}}"#,
            400,
            "env.A: expected a string, got a number",
        ),
        (r#"{"name": "fake", "env": {"": "x"}}"#, 400, "env"),
        (r#"{"name": "fake", "env": {"A=B": "x"}}"#, 400, "env"),
        (r#"{"name": "fake", "env": {"A": "x\u0000y"}}"#, 400, "NUL"),
        (&long, 400, "env: A has 5000 characters"),
        (&many, 400, "env"),
        (r#"{"name": "fake", "path": 7}"#, 400, "path: expected a string"),
        (
            r#"{"name": "fake", "kernel_id": "x"}"#,
            400,
            "kernel_id: not a UUID",
        ),
        (
            r#"{"name": "fake", "kernel_id": "../../etc"}"#,
            400,
            "kernel_id: not a UUID",
        ),
    ] {
        let reply = http
            .request("POST", "/api/kernels", &[], Some(body.as_bytes()))
            .await
            .unwrap();
        assert_refused(&body[..body.len().min(60)], &reply, status, word);
    }
    for (body, status, word) in [
        ("", 400, "No JSON data"),
        ("{}", 400, "path"),
        (r#"{"path": "a.ipynb", "type": 3}"#, 400, "type"),
        (
            r#"{"path": "a.ipynb", "type": "notebook", "kernel": "fake"}"#,
            400,
            "kernel",
        ),
        (
            r#"{"path": "a.ipynb", "type": "notebook", "kernel": {"name": "none"}}"#,
            501,
            "none",
        ),
    ] {
        let reply = http
            .request("POST", "/api/sessions", &[], Some(body.as_bytes()))
            .await
            .unwrap();
        assert_refused(body, &reply, status, word);
    }
    let body = vec![b' '; 9 << 20];
    let reply = http
        .request("POST", "/api/kernels", &[], Some(&body))
        .await
        .unwrap();
    assert_refused("9 MiB", &reply, 413, "larger than");
    let reply = http
        .request(
            "POST",
            "/api/kernels",
            &[("content-encoding", "gzip")],
            Some(b"x"),
        )
        .await
        .unwrap();
    assert_refused("gzip", &reply, 415, "compressed");
    assert_eq!(gateway.processes(), Vec::<u32>::new());
    assert_eq!(leftovers(&gateway), Vec::<String>::new());
    assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
}

#[tokio::test]
async fn paths_and_identifiers() {
    let gateway = gateway(&[]).await;
    let http = gateway.http();
    let kernel = format!("/api/kernels/{ABSENT}");
    let unknown = "Kernel does not exist";
    let long_id = format!("/api/kernels/{}", "a".repeat(5000));
    for (method, path, status, word) in [
        ("GET", kernel.clone(), 404, unknown),
        ("DELETE", kernel.clone(), 404, unknown),
        ("POST", format!("{kernel}/interrupt"), 404, unknown),
        ("POST", format!("{kernel}/restart"), 404, unknown),
        ("GET", format!("{kernel}/channels"), 404, unknown),
        ("GET", "/api/kernels/zzz".into(), 404, ""),
        ("GET", "/api/kernels/%2e%2e%2f%2e%2e".into(), 404, ""),
        ("GET", "/api/kernels/%00".into(), 404, ""),
        ("GET", "/api/kernels/%ff%fe".into(), 400, ""),
        ("GET", long_id, 404, ""),
        ("PUT", kernel.clone(), 405, ""),
        ("GET", format!("/api/sessions/{ABSENT}"), 404, ""),
        ("DELETE", format!("/api/sessions/{ABSENT}"), 404, ""),
        ("GET", format!("/v1/sessions/{ABSENT}/events"), 404, ""),
        ("GET", "/v1/sessions/x/events".into(), 404, ""),
        ("GET", "/api/kernelspecs/none".into(), 404, "none"),
        ("GET", "/api/contents".into(), 404, ""),
        ("GET", "/no/such/path".into(), 404, ""),
    ] {
        let reply = http.request(method, &path, &[], None).await.unwrap();
        assert_refused(&format!("{method} {path}"), &reply, status, word);
    }
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let events = format!("/v1/sessions/{kernel}/events");
    for (path, headers) in [
        (format!("{events}?after=x"), &[][..]),
        (format!("{events}?after=-1"), &[]),
        (format!("{events}?after=99999999999999999999"), &[]),
        (format!("{events}?buffers=raw"), &[]),
        (events.clone(), &[("last-event-id", "seven")]),
    ] {
        let reply = http.request("GET", &path, headers, None).await.unwrap();
        assert_refused(&path, &reply, 400, "");
    }
    // No upgrade was asked for.
    let reply = http
        .get(&format!("/api/kernels/{kernel}/channels"))
        .await
        .unwrap();
    assert_eq!(reply.status, 426, "{}", reply.text());
    assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
}

#[tokio::test]
async fn files_of_kernelspecs_lead_nowhere_else() {
    let gateway = gateway(&[]).await;
    let spec = gateway.file("kernelspecs/fake");
    fs::write(spec.join("logo-64x64.png"), b"png").unwrap();
    fs::write(gateway.file("kernelspecs/secret"), "canary").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", spec.join("passwd")).unwrap();
    std::os::unix::fs::symlink("../secret", spec.join("outside")).unwrap();
    let http = gateway.http();
    let logo = http
        .get("/kernelspecs/fake/logo-64x64.png")
        .await
        .unwrap()
        .expect(200)
        .unwrap();
    assert_eq!(
        (logo.body.as_slice(), logo.header("content-type")),
        (&b"png"[..], Some("image/png"))
    );
    for path in [
        "/kernelspecs/fake/../secret",
        "/kernelspecs/fake/..%2fsecret",
        "/kernelspecs/fake/%2e%2e%2fsecret",
        "/kernelspecs/fake/%2e%2e/secret",
        "/kernelspecs/fake/..%5csecret",
        "/kernelspecs/fake/%2fetc%2fpasswd",
        "/kernelspecs/fake//etc/passwd",
        "/kernelspecs/fake/passwd",
        "/kernelspecs/fake/outside",
        "/kernelspecs/fake/secret%00.png",
        "/kernelspecs/fake/.",
        "/kernelspecs/fake/..",
        "/kernelspecs/../secret",
        "/kernelspecs/%2e%2e/secret",
        "/kernelspecs/..%2fkernelspecs%2ffake/kernel.json",
        "/kernelspecs/none/logo-64x64.png",
    ] {
        let reply = http.get(path).await.unwrap();
        let text = reply.text();
        assert!(
            matches!(reply.status, 400 | 404),
            "{path}: {} {text}",
            reply.status
        );
        assert!(
            !text.contains("canary") && !text.contains("root:"),
            "{path}: {text}"
        );
    }
}
