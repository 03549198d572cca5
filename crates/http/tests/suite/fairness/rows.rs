//! Rows that runs of workflows leave in the database count for the disk of their tenant.

use std::sync::Arc;

use himalia_engine::Share;
use serde_json::{Value, json};

use super::{get, is_refusal, place, place_with, request};
use crate::common::{Gateway, Reply};
use crate::tenants::fixture::{EVE, Request, call, made, stop};

async fn post(gateway: &Gateway, path: &str, body: &Value) -> Reply {
    let request = Request {
        body: body.to_string(),
        ..request("POST", path)
    };
    call(gateway, EVE, &request).await
}

fn skill() -> Value {
    let manifest = json!({
        "name": "nothing", "version": "1.0.0", "kind": "code", "description": "It runs never.",
        "inputs": { "type": "object" }, "outputs": { "type": "object" },
    });
    json!({ "manifest": manifest, "files": { "main.py": { "text": "def main():\n    return {}\n" } } })
}

/// A workflow that runs nothing and returns one input so often.
async fn publish(gateway: &Arc<Gateway>, outputs: usize) {
    made(gateway, EVE, "POST", "/v1/skills", skill()).await;
    let wires: serde_json::Map<String, Value> = (0..outputs)
        .map(|n| (format!("o{n}"), json!({ "from": "inputs.x" })))
        .collect();
    let step = json!({ "id": "s", "skill": { "name": "nothing" }, "map": { "over": { "value": [] } } });
    let definition = json!({
        "name": "many", "version": "1.0.0", "description": "It returns much.", "steps": [step], "outputs": wires,
        "inputs": { "type": "object", "properties": { "x": { "type": "string" } }, "required": ["x"] },
    });
    let definition = json!({ "definition": definition });
    made(gateway, EVE, "POST", "/v1/workflows", definition).await;
}

async fn start(gateway: &Gateway, bytes: usize) -> Reply {
    let body = json!({ "inputs": { "x": "x".repeat(bytes) }, "wait_s": 30 });
    post(gateway, "/v1/workflows/many/runs", &body).await
}

/// Bytes of rows, by usage.
async fn rows(gateway: &Gateway) -> u64 {
    let usage = get(gateway, EVE, "/v1/usage").await.json();
    usage["disk_bytes"]["rows"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_of_runs_count_for_the_disk_of_their_tenant() {
    const DISK: u64 = 64 << 20;
    let share = Share {
        disk_bytes: DISK,
        ..Share::default()
    };
    let (gateway, engine) = place(share).await;
    publish(&gateway, 65).await;
    let (mut succeeded, mut ends) = (0, Vec::new());
    for _ in 0..10 {
        let before = rows(&gateway).await;
        let reply = start(&gateway, 120_000).await;
        if reply.status != 200 {
            assert!(is_refusal(&reply), "{reply:?}");
            assert_eq!(reply.json()["code"], "over_budget");
            continue;
        }
        let run = reply.json();
        let status = run["status"].as_str().unwrap().to_owned();
        if status == "succeeded" {
            succeeded += 1;
            assert!(rows(&gateway).await >= before + 65 * 120_000, "{before}");
        } else {
            assert_eq!(run["error"]["code"], "over_budget", "{}", run["error"]);
        }
        ends.push(status);
    }
    assert_eq!(succeeded, 8, "{ends:?}");
    assert!(rows(&gateway).await <= DISK);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_value_many_times_is_refused_before_it_is_made() {
    let (gateway, engine) = place(Share::default()).await;
    publish(&gateway, 100).await;
    let run = start(&gateway, 120_000).await.json();
    assert_eq!(
        (&run["status"], &run["error"]["code"]),
        (&json!("failed"), &json!("too_large"))
    );
    assert!(rows(&gateway).await < 1 << 20);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_stored_without_free_room_on_the_disk() {
    let (gateway, engine) = place_with(Share::default(), |config| config.min_free_bytes = 1 << 62).await;
    let step = json!({ "id": "ask", "approval": { "text": "?" } });
    let definition = json!({
        "name": "w", "version": "1.0.0", "description": "d", "inputs": { "type": "object" }, "steps": [step],
    });
    for (path, body) in [
        ("/v1/skills", skill()),
        ("/v1/workflows", json!({ "definition": definition })),
    ] {
        let reply = post(&gateway, path, &body).await;
        assert_eq!(
            (reply.status, &reply.json()["code"]),
            (507, &json!("disk_full")),
            "{path}"
        );
        assert!(is_refusal(&reply));
    }
    assert_eq!(rows(&gateway).await, 0);
    stop(engine).await;
}
