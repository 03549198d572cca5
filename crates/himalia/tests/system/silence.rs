//! A kernel that does not answer is distinguished from one that is busy.

use std::process::Command;
use std::time::Duration;

use himalia_testkit::binaries;
use himalia_testkit::gateway::{Gateway, TOKEN};
use himalia_testkit::patience::{Deadline, patience};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::{Log, gateway, start_with};

/// A heart counts as stopped after three beats without an answer, of 5 s each.
const HEART: Duration = Duration::from_secs(20);

async fn session(gateway: &Gateway, kernel: &str) -> Value {
    let path = format!("/v1/sessions/{kernel}");
    let reply = gateway.http().get(&path).await.unwrap();
    reply.expect(200).unwrap().json().unwrap()
}

async fn until(gateway: &Gateway, kernel: &str, silent: bool) -> Value {
    let deadline = Deadline::after(HEART + patience());
    loop {
        let session = session(gateway, kernel).await;
        if session["unresponsive"].is_object() == silent {
            return session;
        }
        assert!(!deadline.is_over(), "still {session}");
        deadline.pause().await;
    }
}

/// What `himalia doctor` says of a session, and its exit code.
fn doctor(gateway: &Gateway, kernel: &str) -> (String, Option<i32>) {
    let output = Command::new(binaries::path("himalia").unwrap())
        .args(["doctor", kernel, "--token", TOKEN, "--data-dir"])
        .arg(gateway.file("data"))
        .env("HOME", gateway.root())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heart_that_stops_is_told_and_one_that_beats_again_too() {
    let gateway = gateway(&[]).await;
    let heartless = json!({ "HIMALIA_HOSTILE": "silent", "HIMALIA_HOSTILE_SOCKET": "hb" });
    let heartless = start_with(&gateway, &json!({ "name": "hostile", "env": heartless })).await;
    let busy = gateway.start_kernel("fake").await.unwrap();
    let mut worker = gateway.connect(&busy).await.unwrap();
    worker.start("hang").await.unwrap();
    let stopped = gateway.start_kernel("fake").await.unwrap();
    let mut client = gateway.connect(&stopped).await.unwrap();
    let cell = client.execute("pid").await.unwrap();
    let pid = Pid::from_raw(cell.stdout().trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    client.start("print late").await.unwrap();
    for kernel in [&heartless, &stopped] {
        let found = &until(&gateway, kernel, true).await["unresponsive"];
        assert_eq!(found["problem"], "heartbeat");
        let advice = found["advice"].as_str().unwrap();
        assert!(advice.contains("Interrupt") && advice.contains("restart") && advice.contains("delete"));
        let (said, code) = doctor(&gateway, kernel);
        assert!(said.contains(advice) && code == Some(1), "{code:?} {said}");
    }
    let working = session(&gateway, &busy).await;
    assert!(
        working["unresponsive"].is_null() && working["state"] == "busy",
        "{working}"
    );
    let (said, code) = doctor(&gateway, &busy);
    assert!(said.contains("busy") && code == Some(0), "{code:?} {said}");
    kill_process(pid, Signal::CONT).unwrap();
    until(&gateway, &stopped, false).await;
    let mut log = Log::after(&gateway, &stopped, 0).await;
    let event = |name: &'static str| move |data: &Value| data["detail"]["event"] == name;
    log.until(event("unresponsive")).await;
    log.until(event("responsive")).await;
    assert_eq!(client.execute("print well").await.unwrap().stdout(), "well\n");
}
