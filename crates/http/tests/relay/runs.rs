//! Runs of skills are at the replicas that have their sessions: a list has those of all, and each is found wherever it is.

use serde_json::{Value, json};

use crate::support::{Replica, Replicas};

/// A run of a skill, as the log of a session of this replica has it; its id.
async fn run(replica: &Replica) -> String {
    let body = json!({"labels": {"himalia.skill": "fetch 1.0.0"}});
    let session = send(replica, "POST", "/v1/sessions", Some(&body)).await;
    let id = session["id"].as_str().unwrap();
    let named = json!({"name": "fetch", "version": "1.0.0", "digest": "sha256:0"});
    let body = json!({"code": "print hello", "metadata": {"skill": named}});
    send(
        replica,
        "POST",
        &format!("/v1/sessions/{id}/executions"),
        Some(&body),
    )
    .await;
    format!("run_{}", id.replace('-', ""))
}

async fn send(replica: &Replica, method: &str, path: &str, body: Option<&Value>) -> Value {
    let reply = replica.http().json(method, path, body).await.unwrap();
    assert!(reply.status < 300, "{method} {path}: {}", reply.text());
    reply.json().unwrap()
}

/// The ids of all pages of a list, and the replicas that did not respond.
async fn listed(replica: &Replica, query: &str) -> (Vec<String>, Value) {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = send(replica, "GET", &format!("/v1/runs?{query}{cursor}"), None).await;
        for one in page["runs"].as_array().unwrap() {
            ids.push(one["id"].as_str().unwrap().to_owned());
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (ids, page["unanswered"].clone()),
        }
    }
}

#[tokio::test]
async fn a_list_has_the_runs_of_all_replicas_and_each_is_found() {
    let replicas = Replicas::start(2).await;
    let [near, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let mut ids = Vec::new();
    for _ in 0..2 {
        for replica in [near, owner] {
            ids.push(run(replica).await);
        }
    }
    ids.reverse();
    for query in [
        "",
        "limit=1",
        "limit=3",
        "kind=skill&limit=2",
        "skill=fetch&status=failed",
    ] {
        assert_eq!(listed(near, query).await, (ids.clone(), Value::Null), "{query}");
    }
    assert_eq!(listed(near, "kind=workflow").await, (vec![], Value::Null));
    // The latest one is at the other replica.
    let path = format!("/v1/runs/{}", ids[0]);
    let relayed = near.pool.usage().relayed;
    let found = send(near, "GET", &path, None).await;
    assert!(near.pool.usage().relayed > relayed);
    assert_eq!(
        (&found["id"], &found["kind"], &found["name"]),
        (&json!(ids[0]), &json!("skill"), &json!("fetch"))
    );
    assert_eq!(found["result"]["text"], "hello\n");
    let cancelled = send(near, "POST", &format!("{path}/cancel"), None).await;
    assert_eq!(cancelled["status"], "failed", "it stays as it has ended");
    let mut events = near.http().events(&format!("{path}/events"), None).await.unwrap();
    let event = events.next().await.unwrap();
    assert_eq!(event.event, "run");
    assert_eq!(
        send(near, "GET", &format!("{path}/deliveries"), None).await["deliveries"],
        json!([])
    );
    owner.network.cut();
    let (found, unanswered) = listed(near, "").await;
    assert_eq!(found, [ids[1].clone(), ids[3].clone()]);
    assert_eq!(unanswered, json!(["r1"]));
    replicas.stop().await;
}
