//! The kernel limit, and starts that fail.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use himalia_testkit::assert_eventually;
use himalia_testkit::binaries;
use himalia_testkit::gateway::Gateway;
use himalia_testkit::http::Response;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::common::{assert_clean, delete, gateway, leftovers, until_state};

async fn start_at_once(gateway: &Gateway, bodies: impl Iterator<Item = Value>) -> Vec<Response> {
    let mut starts = JoinSet::new();
    for body in bodies {
        let http = gateway.http();
        starts.spawn(async move { http.post("/api/kernels", Some(&body)).await.unwrap() });
    }
    starts.join_all().await
}

#[tokio::test]
async fn starts_under_way_count_against_the_limit() {
    let gateway = gateway(&["--max-kernels", "3"]).await;
    let replies = start_at_once(&gateway, (0..12).map(|_| json!({ "name": "fake" }))).await;
    let (started, refused): (Vec<_>, Vec<_>) = replies.into_iter().partition(|reply| reply.status == 201);
    assert_eq!(started.len(), 3);
    for reply in &refused {
        let said = reply.json().unwrap();
        assert_eq!((reply.status, &said["reason"]), (403, &json!("Resource Limit")));
        assert_eq!(said["message"], "the limit of 3 kernels is reached");
    }
    let list = gateway.http().get("/api/kernels").await.unwrap().json().unwrap();
    assert_eq!(list.as_array().unwrap().len(), 3);
    assert_eq!(gateway.processes().len(), 6, "three shims, three kernels");
    // A place that becomes free can be had, also after a start that failed.
    delete(&gateway, list[0]["id"].as_str().unwrap()).await;
    let bad = gateway
        .http()
        .post("/api/kernels", Some(&json!({ "name": "none" })))
        .await
        .unwrap();
    assert_eq!(bad.status, 400);
    gateway.start_kernel("fake").await.unwrap();
    assert!(gateway.start_kernel("fake").await.is_err());
}

#[tokio::test]
async fn one_id_makes_one_kernel() {
    let gateway = gateway(&[]).await;
    let id = uuid::Uuid::new_v4().to_string();
    let replies = start_at_once(
        &gateway,
        (0..8).map(|_| json!({ "name": "fake", "kernel_id": id })),
    )
    .await;
    let mut codes: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    codes.sort_unstable();
    assert_eq!(codes, [201, 409, 409, 409, 409, 409, 409, 409]);
    assert_eq!(gateway.processes().len(), 2, "a shim and its kernel");
}

#[tokio::test]
async fn a_start_that_fails_leaves_nothing_and_says_why() {
    let scripts = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let path = scripts.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let no_interpreter = script("no-interpreter", "#!/nonexistent/interpreter\n");
    let spec = |argv: &[&str]| json!({ "argv": argv, "display_name": "x", "language": "x" });
    let gateway = Gateway::builder()
        .kernelspec(
            "missing",
            spec(&["/nonexistent/kernel", "-f", "{connection_file}"]),
        )
        .kernelspec(
            "not-on-path",
            spec(&["no-such-program-anywhere", "{connection_file}"]),
        )
        .kernelspec("no-interpreter", spec(&[&no_interpreter, "{connection_file}"]))
        .kernelspec(
            "no-argv",
            json!({ "argv": [], "display_name": "x", "language": "x" }),
        )
        .start()
        .await
        .unwrap();
    for (name, word) in [
        ("missing", "/nonexistent/kernel"),
        ("not-on-path", "no-such-program-anywhere"),
        ("no-interpreter", "no-interpreter"),
        ("no-argv", "argv"),
    ] {
        let reply = gateway
            .http()
            .post("/api/kernels", Some(&json!({ "name": name })))
            .await
            .unwrap();
        let said = reply.json().unwrap();
        assert_eq!(reply.status, 500, "{name}: {said}");
        let message = said["message"].as_str().unwrap();
        assert!(
            message.contains(word) && message.lines().count() == 1,
            "{name}: {message}"
        );
        // Nothing to wait for: it has failed when that is said.
        assert_eq!(
            (gateway.processes(), leftovers(&gateway)),
            (Vec::new(), Vec::new()),
            "{name}"
        );
    }
    let list = gateway.http().get("/api/kernels").await.unwrap();
    assert_eq!(list.text(), "[]");
    gateway.start_kernel("fake").await.unwrap();
}

#[tokio::test]
async fn a_program_that_ends_at_once_is_dead_with_its_last_words() {
    let fake = binaries::fake_kernel().unwrap();
    let argv = json!([fake, "--exit-at-start", "5", "-f", "{connection_file}"]);
    let spec = json!({ "argv": argv, "display_name": "x", "language": "x" });
    let gateway = Gateway::builder().kernelspec("ends", spec).start().await.unwrap();
    let reply = gateway
        .http()
        .post("/api/kernels", Some(&json!({ "name": "ends" })))
        .await
        .unwrap();
    let words = "told to fail at start";
    if reply.status == 500 {
        // It ended before its start could be reported.
        assert!(reply.text().contains(words), "{}", reply.text());
    } else {
        let id = reply.expect(201).unwrap().json().unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let model = until_state(&gateway, &id, "dead").await;
        let reason = model["reason"].as_str().unwrap();
        assert!(
            reason.starts_with("exit(5)") && reason.contains(words),
            "{reason}"
        );
        delete(&gateway, &id).await;
    }
    assert_clean(&gateway).await;
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_no_kernel() {
    use tokio::io::AsyncWriteExt;
    let gateway = gateway(&["--max-kernels", "1"]).await;
    let body = r#"{"name":"fake"}"#;
    let mut stream = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
    let request = format!(
        "POST /api/kernels HTTP/1.1\r\nhost: x\r\nauthorization: token {}\r\ncontent-length: {}\r\n\r\n{body}",
        himalia_testkit::gateway::TOKEN,
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    assert_eventually!(!gateway.processes().is_empty(), "the start is under way");
    drop(stream);
    // Either it was too late and there is one that can be seen, or there is none at all; never a hidden one.
    let agree = async || {
        let list = gateway.http().get("/api/kernels").await.unwrap().json().unwrap();
        let listed = list.as_array().unwrap().len();
        gateway.processes().len() == 2 * listed && (listed > 0 || leftovers(&gateway).is_empty())
    };
    assert_eventually!(agree().await, "{:?}", gateway.processes());
}

#[tokio::test]
async fn the_answer_to_a_start_says_that_the_kernel_is_starting() {
    let sleeps = json!({
        "argv": ["sh", "-c", "exec sleep 1000", "{connection_file}"], "display_name": "sleeps", "language": "none",
    });
    let gateway = Gateway::builder()
        .kernelspec("sleeps", sleeps)
        .start()
        .await
        .unwrap();
    let http = gateway.http();
    let kernel = http
        .post("/api/kernels", Some(&json!({ "name": "sleeps" })))
        .await;
    let kernel = kernel.unwrap().expect(201).unwrap().json().unwrap();
    let wanted = json!({ "path": "a.ipynb", "type": "notebook", "kernel": { "name": "sleeps" } });
    let session = http.post("/api/sessions", Some(&wanted)).await;
    let session = session.unwrap().expect(201).unwrap().json().unwrap();
    // As with `jupyter_server`: before the kernel is ready, and as it is shown afterwards.
    for model in [&kernel, &session["kernel"]] {
        assert_eq!(
            (&model["execution_state"], &model["connections"]),
            (&json!("starting"), &json!(0)),
            "{model}"
        );
        let id = model["id"].as_str().unwrap();
        let shown = crate::common::model(&gateway, id).await;
        assert_eq!(shown["execution_state"], "starting", "{shown}");
        delete(&gateway, id).await;
    }
}

#[tokio::test]
async fn the_answer_to_a_start_has_the_state_of_the_list() {
    let gateway = gateway(&[]).await;
    let http = gateway.http();
    let started = http.post("/api/kernels", Some(&json!({ "name": "fake" }))).await;
    let kernel = started.unwrap().expect(201).unwrap().json().unwrap();
    let wanted = json!({ "path": "a.ipynb", "type": "notebook", "kernel": { "name": "fake" } });
    let session = http.post("/api/sessions", Some(&wanted)).await;
    let session = session.unwrap().expect(201).unwrap().json().unwrap();
    for model in [&kernel, &session["kernel"]] {
        assert_eq!(model["execution_state"], "idle", "{model}");
        let id = model["id"].as_str().unwrap();
        assert_eq!(
            crate::common::model(&gateway, id).await["execution_state"],
            "idle"
        );
        delete(&gateway, id).await;
    }
}
