//! The native API over real processes: templates and limits, what is refused, branches, `himalia session`.

use std::process::{Command, Output};

use himalia_testkit::gateway::{Gateway, TOKEN};
use himalia_testkit::http::Response;
use himalia_testkit::{assert_eventually, binaries};
use serde_json::{Value, json};

use crate::common::{assert_clean, gateway, until_state};

const TEMPLATES: &str = r#"
isolation = "none"
[templates.small]
kernelspec = "fake"
memory = "64MiB"
env = { FROM_TEMPLATE = "yes" }
[templates.small.max]
memory = "128MiB"
"#;

async fn post(gateway: &Gateway, path: &str, body: &Value) -> Response {
    gateway.http().post(path, Some(body)).await.unwrap()
}

async fn start(gateway: &Gateway, body: &Value) -> Value {
    let reply = post(gateway, "/v1/sessions", body).await.expect(201).unwrap();
    let session = reply.json().unwrap();
    let location = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    assert_eq!(reply.header("location"), Some(location.as_str()));
    session
}

/// A gateway with [`TEMPLATES`]; the directory of its configuration must outlive it.
async fn with_templates() -> (Gateway, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("himalia.toml");
    std::fs::write(&file, TEMPLATES).unwrap();
    (gateway(&["--config", file.to_str().unwrap()]).await, dir)
}

#[tokio::test]
async fn a_session_is_started_shown_and_ended() {
    let gateway = gateway(&[]).await;
    let body = json!({
        "template": "fake", "labels": {"who": "me"}, "lifetime_s": 3600, "idle_timeout_s": 600,
        "env": {"PLAIN": "1"}, "secrets": {"SECRET": "canary"},
    });
    let session = start(&gateway, &body).await;
    let id = session["id"].as_str().unwrap();
    for (pointer, wanted) in [
        ("/template", json!("fake")),
        ("/kernelspec", json!("fake")),
        ("/origin", json!("v1")),
        ("/incarnation", json!(1)),
        ("/isolation", json!("none")),
        ("/provisioner", json!("local")),
        ("/started_by", json!("cold")),
        ("/parent", Value::Null),
        ("/labels/who", json!("me")),
        ("/idle_timeout_s", json!(600)),
        (
            "/limits/memory_bytes",
            json!({"value": 2_u64 << 30, "enforcement": "none"}),
        ),
    ] {
        assert_eq!(
            session.pointer(pointer),
            Some(&wanted),
            "{pointer} of {session:#}"
        );
    }
    assert!(session["expires"].is_string() && !session.to_string().contains("canary"));
    let mut socket = gateway.connect(id).await.unwrap();
    let env = socket.execute("env").await.unwrap().stdout();
    assert!(
        env.contains("PLAIN=1\n") && env.contains("SECRET=canary\n"),
        "{env}"
    );
    until_state(&gateway, id, "idle").await;
    let shown = gateway
        .http()
        .get(&format!("/v1/sessions/{id}"))
        .await
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(
        (&shown["state"], &shown["connections"]),
        (&json!("idle"), &json!(1))
    );
    // One made by Jupyter is a session too, and its own reply keeps Jupyter's shape.
    let reply = post(&gateway, "/api/kernels", &json!({"name": "fake"}))
        .await
        .expect(201)
        .unwrap();
    assert_eq!(reply.header("x-himalia-started-by"), Some("cold"));
    assert_eq!(reply.header("x-himalia-isolation"), Some("none"));
    let kernel = reply.json().unwrap();
    let keys: Vec<&String> = kernel.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["connections", "execution_state", "id", "last_activity", "name"]
    );
    let list = gateway.http().get("/v1/sessions").await.unwrap().json().unwrap();
    let origins: Vec<&Value> = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["origin"])
        .collect();
    assert_eq!(origins, ["v1", "jupyter"]);
    for id in [id, kernel["id"].as_str().unwrap()] {
        let path = format!("/v1/sessions/{id}");
        gateway.http().delete(&path).await.unwrap().expect(204).unwrap();
        assert_eq!(gateway.http().get(&path).await.unwrap().status, 404);
    }
    drop(socket);
    assert_clean(&gateway).await;
}

#[tokio::test]
async fn templates_are_offered_and_bound_what_callers_get() {
    let (gateway, _dir) = with_templates().await;
    let specs = gateway
        .http()
        .get("/api/kernelspecs")
        .await
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(
        specs["kernelspecs"]["small"]["spec"]["display_name"],
        "fake (small)"
    );
    assert_eq!(specs["kernelspecs"]["fake"]["spec"]["display_name"], "fake");
    let session = start(&gateway, &json!({"template": "small"})).await;
    assert_eq!(session["limits"]["memory_bytes"]["value"], 64 << 20);
    let asked = json!({"template": "small", "limits": {"memory_bytes": 100 << 20}});
    assert_eq!(
        start(&gateway, &asked).await["limits"]["memory_bytes"]["value"],
        100 << 20
    );
    let kernel = gateway.start_kernel("small").await.unwrap();
    let mut socket = gateway.connect(&kernel).await.unwrap();
    let env = socket.execute("env").await.unwrap().stdout();
    assert!(env.contains("FROM_TEMPLATE=yes\n"), "{env}");
    for (body, status, code) in [
        (
            json!({"template": "small", "limits": {"memory_bytes": 1 << 30}}),
            422,
            "limit_exceeded",
        ),
        (
            json!({"template": "small", "isolation": "namespaces"}),
            422,
            "isolation_unavailable",
        ),
        (
            json!({"template": "small", "network": "lab"}),
            422,
            "network_unsupported",
        ),
        (json!({"template": "nope"}), 404, "template_not_found"),
    ] {
        let reply = post(&gateway, "/v1/sessions", &body).await;
        let problem = reply.json().unwrap();
        assert_eq!(
            (reply.status, &problem["code"]),
            (status, &json!(code)),
            "{body}: {problem}"
        );
        assert!(problem["field"].is_string(), "{problem}");
    }
}

#[tokio::test]
async fn a_branch_has_the_variables_of_its_parent() {
    let gateway = gateway(&[]).await;
    let session = start(&gateway, &json!({"template": "fake"})).await;
    let id = session["id"].as_str().unwrap();
    let mut socket = gateway.connect(id).await.unwrap();
    socket.execute("set x 7").await.unwrap();
    until_state(&gateway, id, "idle").await;
    let path = format!("/v1/sessions/{id}/fork");
    let body = json!({"count": 2, "policy": "report", "files": "share"});
    let made = post(&gateway, &path, &body)
        .await
        .expect(201)
        .unwrap()
        .json()
        .unwrap();
    let branches = made["branches"].as_array().unwrap();
    assert_eq!(branches.len(), 2, "{made:#}");
    for branch in branches {
        let session = &branch["session"];
        assert_eq!(
            (&session["parent"], &session["started_by"]),
            (&json!(id), &json!("fork"))
        );
        let mut socket = gateway.connect(session["id"].as_str().unwrap()).await.unwrap();
        assert_eq!(socket.execute("get x").await.unwrap().stdout(), "7\n");
        socket.execute("set x 8").await.unwrap();
    }
    assert_eq!(
        socket.execute("get x").await.unwrap().stdout(),
        "7\n",
        "the parent's own"
    );
    let reply = post(&gateway, &path, &json!({"count": 17})).await;
    assert_eq!(
        (reply.status, &reply.json().unwrap()["field"]),
        (400, &json!("count"))
    );
}

#[tokio::test]
async fn a_refused_fork_says_why() {
    let fake = binaries::fake_kernel().unwrap();
    let argv = json!([fake, "--fork", "busy", "-f", "{connection_file}"]);
    let working = json!({ "argv": argv, "display_name": "x", "language": "x" });
    let builder = Gateway::builder().kernelspec("working", working);
    let gateway = builder.start().await.unwrap();
    let refusal = async |template: &str| {
        let session = start(&gateway, &json!({ "template": template })).await;
        let id = session["id"].as_str().unwrap();
        until_state(&gateway, id, "idle").await;
        post(&gateway, &format!("/v1/sessions/{id}/fork"), &json!({})).await
    };
    let reply = refusal("working").await;
    let problem = reply.json().unwrap();
    assert_eq!(
        (reply.status, &problem["code"], &problem["retryable"]),
        (409, &json!("session_busy"), &json!(true)),
        "{problem}"
    );
    assert_eq!(reply.header("retry-after"), Some("1"));
    // Strict by default: a warning is enough.
    let problem = refusal("fake").await.json().unwrap();
    assert_eq!(
        (
            &problem["code"],
            &problem["retryable"],
            &problem["hazards"][0]["kind"]
        ),
        (&json!("fork_hazard"), &json!(false), &json!("native-thread")),
        "{problem}"
    );
    let list = gateway.http().get("/v1/sessions").await.unwrap().json().unwrap();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 2, "no branch is left");
}

/// Runs `himalia session` as a user of this gateway's data directory.
async fn session(gateway: &Gateway, args: &[&str]) -> Output {
    himalia(gateway, &[&["session"], args].concat()).await
}

/// Runs `himalia` as a user of this gateway's data directory.
async fn himalia(gateway: &Gateway, args: &[&str]) -> Output {
    let mut command = Command::new(binaries::path("himalia").unwrap());
    command.args(args);
    command.env_clear().env("HOME", gateway.root());
    command
        .env("HIMALIA_DATA_DIR", gateway.file("data"))
        .env("HIMALIA_TOKEN", TOKEN);
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

#[tokio::test]
async fn sessions_can_be_seen_and_ended_from_a_shell() {
    let mut gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let output = session(&gateway, &["ls"]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let row = text.lines().find(|line| line.starts_with(&kernel));
    assert!(row.is_some_and(|row| row.contains("fake")), "{text}");
    assert!(
        row.is_some_and(|row| row.contains("iB  ")),
        "memory in use: {text}"
    );
    let output = session(&gateway, &["ls", "--wide"]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let row = text.lines().find(|line| line.starts_with(&kernel));
    assert!(
        row.is_some_and(|row| row.contains("none") && row.contains("operator")),
        "{text}"
    );
    let output = session(&gateway, &["ls", "--json"]).await;
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["sessions"][0]["id"], kernel.as_str());
    let used = list["sessions"][0]["memory_used_bytes"].as_u64();
    assert!(used.is_some_and(|bytes| bytes > 1 << 20), "{list:#}");
    let output = session(&gateway, &["rm", &kernel]).await;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eventually!(gateway.processes().is_empty());
    let output = session(&gateway, &["rm", &kernel]).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("Session does not exist") && !said.contains(TOKEN),
        "{said}"
    );
    // A gateway that has ended says nothing any more.
    gateway.end(rustix::process::Signal::TERM).await.unwrap();
    let said = String::from_utf8(session(&gateway, &["ls"]).await.stderr).unwrap();
    assert!(said.contains("no gateway has said its address"), "{said}");
}

#[tokio::test]
async fn an_ended_session_can_be_read_until_it_is_collected() {
    let gateway = gateway(&["--retention", "2s"]).await;
    let session = start(&gateway, &json!({ "template": "fake" })).await;
    let id = session["id"].as_str().unwrap();
    let path = format!("/v1/sessions/{id}");
    let run = post(
        &gateway,
        &format!("{path}/executions"),
        &json!({ "code": "print hello" }),
    )
    .await;
    let run = run.expect(200).unwrap().json().unwrap();
    let execution = format!("/v1/executions/{}", run["id"].as_str().unwrap());
    gateway.http().delete(&path).await.unwrap().expect(204).unwrap();
    let shown = gateway.http().get(&execution).await.unwrap().expect(200).unwrap();
    assert_eq!(shown.json().unwrap()["text"], "hello\n");

    let collected = || async {
        let would = himalia(&gateway, &["gc", "--dry-run"]).await;
        String::from_utf8(would.stdout)
            .unwrap()
            .contains(&format!("session {id} - (age) "))
    };
    assert_eventually!(collected().await, "its time is over");
    let said = gateway.http().get(&execution).await.unwrap();
    said.expect(200).unwrap();
    let did = himalia(&gateway, &["gc", "--json"]).await;
    let did: Value = serde_json::from_slice(&did.stdout).unwrap();
    assert_eq!(
        (&did["dry_run"], &did["sessions"][0]["id"]),
        (&json!(false), &json!(id))
    );
    for path in [execution, path] {
        let gone = gateway.http().get(&path).await.unwrap().expect(410).unwrap();
        assert_eq!(gone.json().unwrap()["code"], "removed_by_retention", "{path}");
    }
    assert_clean(&gateway).await;
}
