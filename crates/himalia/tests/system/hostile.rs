//! Kernels that attack harm only their own sandbox.

use himalia_testkit::assert_eventually;
use himalia_testkit::client::{Framing, Received, WsClient};
use himalia_testkit::gateway::Gateway;
use serde_json::{Value, json};

use crate::common::{Log, delete, gateway, leftovers, model, resident, start_with, until, until_state};

/// Memory that the gateway may have gained after an attack, in MiB.
const GROWTH: u64 = 64;

/// Plays one attack. Whatever becomes of the attacker: a neighbour answers, the gateway does, and after DELETE nothing
/// is left. The value is the attacker's model some time after the attack.
async fn play(gateway: &Gateway, neighbour: &mut WsClient, attack: &str) -> Value {
    let kernel = start_with(gateway, &json!({ "name": "hostile" })).await;
    let mut socket = gateway.connect(&kernel).await.unwrap();
    let before = socket.execute("before").await.unwrap();
    assert_eq!(before.stdout(), "before");
    socket.start(&format!("attack {attack}")).await.unwrap();
    // The next request is read when the attack is through; a kernel that the attack killed says so.
    let next = socket.start("after").await.unwrap();
    let settled = |received: &Received| {
        let reply = received.msg_type == "execute_reply" && received.parent.as_ref() == Some(&next);
        reply || received.is_status("restarting") || received.is_status("dead")
    };
    let seen = socket.next_where(attack, settled).await;
    assert_eq!(
        neighbour.execute("print here").await.unwrap().stdout(),
        "here\n",
        "{attack}"
    );
    let state = model(gateway, &kernel).await;
    drop(socket);
    assert!(seen.is_ok(), "{attack}: nothing became of it: {state}");
    delete(gateway, &kernel).await;
    assert!(model(gateway, &kernel).await.is_null(), "{attack}");
    state
}

/// The files and directories that kernels have, not what is in them.
fn places(gateway: &Gateway) -> Vec<String> {
    let mut places = leftovers(gateway);
    places.retain(|path| !path.contains('/'));
    places
}

/// Plays attacks one after the other beside one neighbour.
async fn play_all(attacks: &[&str]) {
    let gateway = gateway(&[]).await;
    let other = gateway.start_kernel("fake").await.unwrap();
    let mut neighbour = gateway.connect(&other).await.unwrap();
    neighbour.execute("set x 1").await.unwrap();
    let own = places(&gateway);
    play(&gateway, &mut neighbour, "flood 10 10").await;
    let pid = gateway.pid().unwrap();
    let before = resident(pid);
    for attack in attacks {
        let state = play(&gateway, &mut neighbour, attack).await;
        // Alive, or with a reason.
        let reason = state["reason"].as_str().unwrap_or_default();
        let alive = matches!(
            state["execution_state"].as_str(),
            Some("idle" | "busy" | "starting")
        );
        assert!(alive || !reason.is_empty(), "{attack}: {state}");
        assert_eventually!(
            resident(pid) < before + GROWTH,
            "{attack}: from {before} to {} MiB",
            resident(pid)
        );
        assert_eventually!(
            gateway.processes().len() == 2,
            "{attack}: {:?}",
            gateway.processes()
        );
        assert_eventually!(places(&gateway) == own, "{attack}: {:?}", places(&gateway));
    }
    assert_eq!(
        neighbour.execute("get x").await.unwrap().stdout(),
        "1\n",
        "the neighbour never noticed"
    );
    assert_eq!(gateway.http().get("/readyz").await.unwrap().status, 200);
    assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn attacks_on_the_stream() {
    play_all(&[
        "long-frame",
        "long-frame shell",
        "long-command",
        "long-command shell",
        "garbage",
        "cut",
        "unknown-command",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attacks_by_number() {
    play_all(&[
        "endless-multipart",
        "ping-storm",
        "many-parts",
        "input-storm",
        "replay",
        "wrong-hmac",
        "flood 50000 1000",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attacks_with_content() {
    play_all(&[
        "forged-status",
        "big-header",
        "big-reply",
        "few-parts",
        "invalid-utf8",
        "not-json",
        "depth-bomb",
        "wrong-channel",
    ])
    .await;
}

#[tokio::test]
async fn forged_replies_reach_no_client() {
    let gateway = gateway(&[]).await;
    let kernel = start_with(&gateway, &json!({ "name": "hostile" })).await;
    let mut victim = gateway.connect(&kernel).await.unwrap();
    let mut other = gateway.connect(&kernel).await.unwrap();
    victim.execute("mine").await.unwrap();
    other.execute("attack forged-replies 64").await.unwrap();
    // Its own replies come as they should; what was forged for a request that is over does not.
    assert_eq!(victim.execute("still mine").await.unwrap().status(), "ok");
    let replies = victim
        .unclaimed()
        .filter(|received| received.msg_type == "execute_reply");
    assert_eq!(replies.count(), 0, "forged replies arrived");
}

#[tokio::test]
async fn stray_replies_change_nothing_and_are_in_the_log() {
    const STRAYS: usize = 8;
    let gateway = gateway(&[]).await;
    let kernel = start_with(&gateway, &json!({ "name": "hostile" })).await;
    let mut client = gateway.connect(&kernel).await.unwrap();
    for _ in 0..5 {
        let cell = client
            .execute(&format!("attack stray-replies {STRAYS}"))
            .await
            .unwrap();
        assert_eq!(cell.status(), "ok");
    }
    let replies = |client: &WsClient| {
        let is_reply = |received: &&Received| received.msg_type.ends_with("_reply");
        client.unclaimed().filter(is_reply).count()
    };
    assert_eq!(replies(&client), 0, "a stray reply arrived");
    let path = format!("/v1/sessions/{kernel}/executions");
    let body = json!({ "code": format!("attack stray-replies {STRAYS}") });
    let reply = gateway.http().post(&path, Some(&body)).await.unwrap();
    let execution = reply.expect(200).unwrap().json().unwrap();
    assert_eq!(execution["status"], "ok", "{execution}");
    assert!(execution["error"].is_null(), "{execution}");
    // Each of them is a message of the log that belongs to no execution.
    let mut log = Log::after(&gateway, &kernel, 0).await;
    let ended = |data: &Value| data["event"] == "execution" && data["detail"]["event"] == "ended";
    let records = log.until(ended).await;
    let strays = records
        .iter()
        .filter(|data| data["event"] == "message" && data["content"]["ename"] == "Stray");
    let strays: Vec<&Value> = strays.collect();
    assert_eq!(strays.len(), 6 * (STRAYS + 1));
    for stray in strays {
        assert!(
            stray["execution_id"].is_null() && stray["channel"] == "shell",
            "{stray}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_banner_of_100_mb_harms_no_other_kernel() {
    const BANNER: usize = 100_000_000;
    let gateway = gateway(&[]).await;
    let other = gateway.start_kernel("fake").await.unwrap();
    let mut neighbour = gateway.connect(&other).await.unwrap();
    neighbour.execute("set x 1").await.unwrap();
    let pid = gateway.pid().unwrap();
    let before = resident(pid);
    let env = json!({ "HIMALIA_HOSTILE_BANNER": BANNER.to_string() });
    let kernel = start_with(&gateway, &json!({ "name": "hostile", "env": env })).await;
    let mut client = gateway.connect(&kernel).await.unwrap();
    assert_eq!(client.execute("works").await.unwrap().stdout(), "works");
    assert_eq!(neighbour.execute("get x").await.unwrap().stdout(), "1\n");
    delete(&gateway, &kernel).await;
    assert_eventually!(
        resident(pid) < before + GROWTH,
        "from {before} to {} MiB",
        resident(pid)
    );
}

#[tokio::test]
async fn a_reply_counts_once() {
    let gateway = gateway(&[]).await;
    let kernel = start_with(&gateway, &json!({ "name": "hostile" })).await;
    let mut client = gateway.connect(&kernel).await.unwrap();
    for _ in 0..3 {
        let cell = client.execute("attack replay-reply 100").await.unwrap();
        assert_eq!(cell.reply()["ename"], "Replayed", "the first one is the reply");
        assert_eq!(client.execute("after").await.unwrap().status(), "ok");
    }
    let replies = client
        .unclaimed()
        .filter(|received| received.msg_type == "execute_reply");
    assert_eq!(replies.count(), 0, "another one arrived");
}

#[tokio::test(flavor = "multi_thread")]
async fn attacks_before_the_first_message() {
    let gateway = gateway(&[]).await;
    let other = gateway.start_kernel("fake").await.unwrap();
    let mut neighbour = gateway.connect(&other).await.unwrap();
    let before = resident(gateway.pid().unwrap());
    let mut kernels = Vec::new();
    for attack in [
        "half-open",
        "silent",
        "bad-greeting",
        "long-ready",
        "close",
        "never-ready",
    ] {
        for socket in [None, Some("iopub"), Some("hb")] {
            let mut env = json!({ "HIMALIA_HOSTILE": attack });
            if let Some(socket) = socket {
                env["HIMALIA_HOSTILE_SOCKET"] = socket.into();
            }
            let body = json!({ "name": "hostile", "env": env });
            let reply = gateway.http().post("/api/kernels", Some(&body)).await.unwrap();
            if reply.status == 500 {
                // It ended before its start could be reported.
                assert!(
                    reply.text().contains("protocol_abort"),
                    "{attack}: {}",
                    reply.text()
                );
                continue;
            }
            let model = reply.expect(201).unwrap().json().unwrap();
            let kernel = model["id"].as_str().unwrap().to_owned();
            kernels.push((format!("{attack} {socket:?}"), kernel));
        }
    }
    for (attack, kernel) in &kernels {
        assert_eq!(
            neighbour.execute("print here").await.unwrap().stdout(),
            "here\n",
            "{attack}"
        );
        // It may be starting for ever, or running without its heart; never gone without a word.
        until(&gateway, kernel, |model| {
            let state = model["execution_state"].as_str().unwrap_or_default();
            matches!(state, "starting" | "idle" | "busy" | "unknown")
                || model["reason"].as_str().is_some_and(|reason| !reason.is_empty())
        })
        .await;
    }
    let mut ends = tokio::task::JoinSet::new();
    for (attack, kernel) in kernels {
        let http = gateway.http();
        ends.spawn(async move {
            (
                attack,
                http.delete(&format!("/api/kernels/{kernel}"))
                    .await
                    .unwrap()
                    .status,
            )
        });
    }
    for (attack, status) in ends.join_all().await {
        assert_eq!(status, 204, "{attack}");
    }
    assert_eventually!(gateway.processes().len() == 2, "{:?}", gateway.processes());
    assert!(resident(gateway.pid().unwrap()) < before + GROWTH);
    until_state(&gateway, &other, "idle").await;
    let mut legacy = WsClient::connect(&gateway.channels(&other, Framing::Legacy))
        .await
        .unwrap();
    assert_eq!(legacy.execute("print here").await.unwrap().stdout(), "here\n");
}
