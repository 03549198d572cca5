//! Prompts are listed in pages, which cost what they show, and the prompts of a tenant do not hide those of others.

use std::collections::BTreeSet;
use std::sync::Arc;

use himalia_engine::{Principal, Share};
use himalia_testkit::assert_eventually;
use serde_json::{Value, json};

use super::{get, place};
use crate::common::{Gateway, TOKEN};
use crate::tenants::fixture::{ADA, EVE, made, stop};

/// Publishes a workflow of steps that ask a person, and starts it so often.
async fn ask(gateway: &Arc<Gateway>, token: &str, steps: usize, runs: usize) {
    ask_with(gateway, token, (steps, runs), "secret sauce").await;
}

/// The same with this input, which each step shows.
async fn ask_with(gateway: &Arc<Gateway>, token: &str, (steps, runs): (usize, usize), input: &str) {
    let steps: Vec<Value> = (0..steps)
        .map(|n| json!({ "id": format!("s{n}"), "approval": { "text": "May it?" }, "inputs": { "x": { "from": "inputs.x" } } }))
        .collect();
    let definition = json!({
        "name": "asks", "version": "1.0.0", "description": "It asks.", "inputs": { "type": "object" }, "steps": steps,
    });
    made(
        gateway,
        token,
        "POST",
        "/v1/workflows",
        json!({ "definition": definition }),
    )
    .await;
    for _ in 0..runs {
        let start = json!({ "inputs": { "x": input } });
        made(gateway, token, "POST", "/v1/workflows/asks/runs", start).await;
    }
}

async fn page(gateway: &Gateway, token: &str, query: &str) -> Value {
    let reply = get(gateway, token, &format!("/v1/prompts?{query}")).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

fn ids(page: &Value) -> Vec<String> {
    let prompts = page["prompts"].as_array().unwrap().iter();
    prompts
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

/// All ids, from pages of this size.
async fn all(gateway: &Gateway, token: &str, limit: usize) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = page(gateway, token, &format!("limit={limit}{cursor}")).await;
        let found = ids(&page);
        assert!(found.len() <= limit);
        all.extend(found);
        let Some(next) = page["next"].as_str() else {
            return all;
        };
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_prompts_does_not_hide_those_of_others() {
    let (gateway, engine) = place(Share::default()).await;
    ask(&gateway, EVE, 100, 3).await;
    ask(&gateway, ADA, 1, 1).await;
    assert_eventually!(all(&gateway, TOKEN, 1000).await.len() == 301);
    let [ada] = <[String; 1]>::try_from(all(&gateway, ADA, 10).await).unwrap();
    let first = page(&gateway, TOKEN, "limit=10").await;
    assert!(ids(&first).contains(&ada), "{first}");
    let shown = first["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["id"] == ada.as_str())
        .unwrap();
    assert_eq!(
        (&shown["text"], &shown["arguments"], &shown["options"]),
        (
            &json!("May it?"),
            &json!({ "x": "secret sauce" }),
            &json!(["approve", "reject"])
        )
    );
    // Each once, whatever the pages are; a tenant has its own ones, in the order in which they were asked.
    let everything: BTreeSet<String> = all(&gateway, TOKEN, 1000).await.into_iter().collect();
    for limit in [7, 150] {
        let found = all(&gateway, TOKEN, limit).await;
        assert_eq!(
            (found.len(), found.iter().cloned().collect()),
            (301, everything.clone())
        );
    }
    let eves = all(&gateway, EVE, 1000).await;
    assert!(eves.len() == 300 && !eves.contains(&ada));
    assert_eq!(all(&gateway, EVE, 40).await, eves);
    for bad in ["limit=0", "limit=1001", "cursor=x", "cursor=cXg"] {
        let reply = get(&gateway, EVE, &format!("/v1/prompts?{bad}")).await;
        assert_eq!(reply.status, 400, "{bad}: {reply:?}");
    }
    stop(engine).await;
}

/// Starts so many sessions, each of which asks so often.
async fn ask_in_sessions(gateway: &Arc<Gateway>, token: &str, sessions: usize, prompts: usize) {
    for _ in 0..sessions {
        let session = made(gateway, token, "POST", "/v1/sessions", json!({})).await;
        let path = format!("/v1/sessions/{}/prompts", session["id"].as_str().unwrap());
        for _ in 0..prompts {
            made(gateway, token, "POST", &path, json!({ "text": "May it?" })).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_prompts_of_sessions_do_not_hide_those_of_others() {
    let (gateway, engine) = place(Share::default()).await;
    ask_in_sessions(&gateway, EVE, 1, 12).await;
    ask_in_sessions(&gateway, EVE, 4, 1).await;
    ask_in_sessions(&gateway, ADA, 1, 1).await;
    let [ada] = <[String; 1]>::try_from(all(&gateway, ADA, 10).await).unwrap();
    // Two owners ask: the first one of each.
    let first = page(&gateway, TOKEN, "limit=2").await;
    assert!(ids(&first).contains(&ada), "{first}");
    assert_eq!(all(&gateway, TOKEN, 5).await.len(), 17);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_between_pages_leave_nothing_out() {
    let (gateway, engine) = place(Share::default()).await;
    ask(&gateway, EVE, 10, 1).await;
    ask_in_sessions(&gateway, EVE, 1, 12).await;
    ask_in_sessions(&gateway, ADA, 3, 4).await;
    assert_eventually!(all(&gateway, TOKEN, 1000).await.len() == 34);
    for token in [TOKEN, EVE] {
        let everything: BTreeSet<String> = all(&gateway, token, 1000).await.into_iter().collect();
        let (mut seen, mut cursor) = (BTreeSet::new(), String::new());
        loop {
            let page = page(&gateway, token, &format!("limit=3{cursor}")).await;
            for (number, id) in ids(&page).into_iter().enumerate() {
                if number < 2 && id.starts_with("prm_") {
                    let path = format!("/v1/prompts/{id}/answer");
                    made(&gateway, token, "POST", &path, json!({ "value": "yes" })).await;
                }
                seen.insert(id);
            }
            let Some(next) = page["next"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(seen, everything);
    }
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_prompts_has_a_bounded_length() {
    let (gateway, engine) = place(Share::default()).await;
    let input = "x".repeat(15_000);
    ask_with(&gateway, EVE, (100, 3), &input).await;
    assert_eventually!(all(&gateway, EVE, 1000).await.len() == 300);
    let first = page(&gateway, EVE, "limit=1000").await;
    let found = ids(&first).len();
    assert!(
        found > 200 && found * input.len() <= 4 << 20,
        "{found} of 300 in a page"
    );
    assert!(first["next"].is_string());
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_is_shown_without_its_run() {
    let (gateway, engine) = place(Share::default()).await;
    ask(&gateway, EVE, 20, 1).await;
    assert_eventually!(all(&gateway, EVE, 1000).await.len() == 20);
    let calls = |operation: &str| {
        let text = engine.metrics(&Principal::operator()).unwrap();
        let name = format!("himalia_store_seconds_count{{operation=\"{operation}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.map_or(0, |count| count.parse().unwrap())
    };
    let before = ["workflow_run", "workflow_steps", "workflow_definition"].map(calls);
    let listed = calls("step_prompts");
    let found = all(&gateway, EVE, 1000).await;
    let one = get(&gateway, EVE, &format!("/v1/prompts/{}", found[0])).await;
    assert_eq!((one.status, &one.json()["state"]), (200, &json!("open")));
    assert_eq!(calls("step_prompts"), listed + 1);
    assert_eq!(
        ["workflow_run", "workflow_steps", "workflow_definition"].map(calls),
        before
    );
    stop(engine).await;
}
