//! Kernels in sandboxes of namespaces. Where these cannot be made, `himalia doctor` says why, and so do these tests.

use himalia_testkit::binaries;
use himalia_testkit::client::{Framing, WsClient};
use himalia_testkit::gateway::{Builder, Gateway};
use serde_json::{Value, json};

use crate::common::{until, until_state};

/// A gateway whose kernelspec `boxed` has what it needs in its sandbox.
async fn boxed() -> Gateway {
    boxed_with(&[]).await
}

async fn boxed_with(args: &[&str]) -> Gateway {
    let builder = args
        .iter()
        .fold(boxed_builder(), |builder, arg| builder.arg(*arg));
    builder.start().await.unwrap()
}

pub(crate) fn boxed_builder() -> Builder {
    binaries::path("himalia-jail").unwrap();
    let fake = binaries::fake_kernel().unwrap();
    let spec = json!({
        "argv": [fake, "-f", "{connection_file}"], "display_name": "boxed", "language": "script",
        "interrupt_mode": "signal", "metadata": {"himalia": {"binds": [fake]}},
    });
    let builder = Gateway::builder().kernelspec("boxed", spec);
    builder.arg("--isolation").arg("namespaces")
}

async fn show(gateway: &Gateway, id: &str) -> Value {
    let reply = gateway.http().get(&format!("/v1/sessions/{id}")).await.unwrap();
    reply.expect(200).unwrap().json().unwrap()
}

#[tokio::test]
async fn a_kernel_in_a_sandbox_runs_and_outlives_the_gateway() {
    let mut gateway = boxed().await;
    let kernel = gateway.start_kernel("boxed").await.unwrap();
    let session = show(&gateway, &kernel).await;
    assert_eq!(
        (&session["isolation"], &session["provisioner"], &session["cwd"]),
        (&json!("namespaces"), &json!("local"), &json!("/session")),
        "{session:#}"
    );
    assert_ne!(session["limits"]["memory_bytes"]["enforcement"], "none");
    let connect = gateway.channels(&kernel, Framing::V1);
    let mut socket = WsClient::connect(&connect).await.unwrap();
    let cell = socket.execute("set x 1\nenv\npid").await.unwrap();
    let said = cell.stdout();
    // A process id of its own namespace, and nothing of the host in its variables.
    assert!(said.contains("HOME=/session\n"), "{said}");
    assert!(!said.contains(&gateway.root().display().to_string()), "{said}");
    assert!(
        said.lines().last().unwrap().parse::<u32>().unwrap() < 100,
        "{said}"
    );
    gateway.crash().await.unwrap();
    until_state(&gateway, &kernel, "idle").await;
    let mut socket = WsClient::connect(&connect).await.unwrap();
    assert_eq!(socket.execute("get x").await.unwrap().stdout(), "1\n");
    let path = format!("/v1/sessions/{kernel}");
    gateway.http().delete(&path).await.unwrap().expect(204).unwrap();
    let run = gateway.file("run/n");
    let left = || {
        let entries = std::fs::read_dir(&run).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).collect::<Vec<_>>()
    };
    himalia_testkit::assert_eventually!(left().is_empty(), "{:?}", left());
}

async fn execute(gateway: &Gateway, session: &str, code: &str) -> Value {
    let path = format!("/v1/sessions/{session}/executions");
    let body = json!({ "code": code });
    let reply = gateway.http().post(&path, Some(&body)).await.unwrap();
    reply.expect(200).unwrap().json().unwrap()
}

/// The session of the name `eda`; whether it was started, and what it is.
async fn put(gateway: &Gateway) -> (bool, Value) {
    let body = json!({"template": "boxed"});
    let reply = gateway.http().json("PUT", "/v1/sessions/eda", Some(&body)).await;
    let reply = reply.unwrap();
    (reply.status == 201, reply.json().unwrap())
}

/// The sandbox is killed, and the gateway after it.
async fn lose_all(gateway: &mut Gateway, session: &str) {
    let own = gateway.pid();
    for pid in gateway.processes().into_iter().filter(|pid| Some(*pid) != own) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    gateway.kill().await.unwrap();
    gateway.start().await.unwrap();
    until_state(gateway, session, "dead").await;
}

#[tokio::test]
async fn a_session_goes_on_in_a_new_sandbox_with_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("himalia.toml");
    std::fs::write(&file, "[defaults]\nfiles = \"session\"\n").unwrap();
    let mut gateway = boxed_with(&["--config", file.to_str().unwrap()]).await;
    let (started, session) = put(&gateway).await;
    assert!(started, "{session}");
    let id = session["id"].as_str().unwrap().to_owned();
    let first = execute(&gateway, &id, "append /session/note mine").await;
    assert_eq!(first["status"], "ok", "{first}");

    lose_all(&mut gateway, &id).await;
    let (started, session) = put(&gateway).await;
    assert_eq!(
        (started, &session["id"], &session["incarnation"]),
        (false, &json!(id), &json!(2)),
        "{session}"
    );
    until_state(&gateway, &id, "idle").await;
    let second = execute(&gateway, &id, "append /session/note yours").await;
    assert_eq!(second["status"], "ok", "{second}");
    let replaced = &second["kernel"]["replaced"];
    assert_eq!(replaced["incarnation"], 1, "{second}");
    let cause = replaced["cause"].as_str().unwrap();
    assert!(cause.starts_with("sandbox_lost"), "{second}");
    assert_eq!(replaced["sandbox_lost"]["files"], false, "{second}");

    // It has not been used when its files are asked for.
    lose_all(&mut gateway, &id).await;
    let note = format!("/v1/sessions/{id}/files/note");
    let read = gateway.http().get(&note).await.unwrap().expect(200).unwrap();
    assert_eq!(read.text(), "mine\nyours\n");
    gateway.http().delete(&note).await.unwrap().expect(204).unwrap();
    assert_eq!(show(&gateway, &id).await["incarnation"], 3);
    let path = format!("/v1/executions/{}", first["id"].as_str().unwrap());
    gateway.http().get(&path).await.unwrap().expect(200).unwrap();

    let path = format!("/v1/sessions/{id}");
    gateway.http().delete(&path).await.unwrap().expect(204).unwrap();
    let kept = std::fs::read_dir(gateway.file("data/files")).unwrap().count();
    assert_eq!(kept, 0, "they go with their session");
}

#[tokio::test]
async fn host_files_are_not_there_and_its_own_are() {
    let gateway = boxed().await;
    let kernel = gateway.start_kernel("boxed").await.unwrap();
    let secret = gateway.file("secret");
    let mut socket = gateway.connect(&kernel).await.unwrap();
    let code = format!("touch {}", secret.display());
    assert_eq!(socket.execute(&code).await.unwrap().status(), "error");
    assert!(!secret.exists());
    assert_eq!(
        socket.execute("touch /session/mine").await.unwrap().status(),
        "ok"
    );
    until(&gateway, &kernel, |model| model["execution_state"] == "idle").await;
}

#[tokio::test]
async fn kernels_without_isolation_are_taken_over_by_a_gateway_with_namespaces() {
    let fake = binaries::fake_kernel().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("himalia.toml");
    let write = |level: &str| std::fs::write(&file, format!("isolation = \"{level}\"")).unwrap();
    write("none");
    let spec = json!({
        "argv": [fake, "-f", "{connection_file}"], "display_name": "boxed", "language": "script",
        "metadata": {"himalia": {"binds": [fake]}},
    });
    let builder = Gateway::builder().kernelspec("boxed", spec);
    let config = file.to_str().unwrap();
    let mut gateway = builder.arg("--config").arg(config).start().await.unwrap();
    let old = gateway.start_kernel("boxed").await.unwrap();
    gateway.kill().await.unwrap();
    write("namespaces");
    gateway.start().await.unwrap();
    until_state(&gateway, &old, "idle").await;
    let new = gateway.start_kernel("boxed").await.unwrap();
    assert_eq!(show(&gateway, &old).await["isolation"], "none");
    assert_eq!(show(&gateway, &new).await["isolation"], "namespaces");
    let mut socket = gateway.connect(&old).await.unwrap();
    assert_eq!(socket.execute("print here").await.unwrap().stdout(), "here\n");
}
