//! REST, files, streams of events and lists through a replica that is not the owner.

use himalia_testkit::patience::{Deadline, within};
use serde_json::{Value, json};

use crate::support::Replicas;

#[tokio::test]
async fn an_execution_runs_at_the_owner() {
    let replicas = Replicas::start(2).await;
    let [near, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let made = owner
        .http()
        .json("PUT", "/v1/sessions/eda", Some(&json!({})))
        .await
        .unwrap();
    made.expect(201).unwrap();
    let again = near
        .http()
        .json("PUT", "/v1/sessions/eda", Some(&json!({})))
        .await
        .unwrap();
    again.expect(200).unwrap();
    let body = json!({"code": "print hello\nresult 7"});
    let reply = near
        .http()
        .post("/v1/sessions/eda/executions", Some(&body))
        .await
        .unwrap();
    let location = reply.header("location").unwrap().to_owned();
    let result: Value = reply.expect(200).unwrap().json().unwrap();
    assert_eq!(result["status"], "ok", "{result}");
    let shown: Value = near
        .http()
        .get(&location)
        .await
        .unwrap()
        .expect(200)
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(shown["id"], result["id"]);
    // A stream of its events, from the middle of the position on.
    let mut events = near
        .http()
        .events(&format!("{location}/events"), None)
        .await
        .unwrap();
    let mut seen = Vec::new();
    while let Ok(event) = events.next().await {
        seen.push(event.event);
    }
    assert!(seen.contains(&"stdout".to_owned()), "{seen:?}");
    replicas.stop().await;
}

#[tokio::test]
async fn files_go_both_ways_in_pieces() {
    let replicas = Replicas::start(2).await;
    let [near, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    let path = format!("/v1/sessions/{kernel}/files/a.bin");
    let bytes: Vec<u8> = (0..20_000_000_u32)
        .map(|n| n.to_le_bytes()[n as usize % 3])
        .collect();
    let put = near
        .http()
        .request("PUT", &path, &[], Some(&bytes))
        .await
        .unwrap();
    assert!(matches!(put.status, 200 | 201), "{}", put.text());
    let got = near.http().get(&path).await.unwrap().expect(200).unwrap();
    assert_eq!(got.header("content-length"), Some("20000000"));
    assert!(got.body == bytes);
    let part = near
        .http()
        .request("GET", &path, &[("range", "bytes=5-9")], None)
        .await
        .unwrap();
    assert_eq!((part.status, &part.body[..]), (206, &bytes[5..10]));
    replicas.stop().await;
}

#[tokio::test]
async fn events_continue_after_a_cut() {
    let replicas = Replicas::start(2).await;
    let [near, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    let mut events = near
        .http()
        .events(&format!("/v1/sessions/{kernel}/events"), Some(0))
        .await
        .unwrap();
    let run = json!({"code": "count 300\nsleep 100\ncount 300\nsleep 100\ncount 300", "background": true});
    let reply = near
        .http()
        .post(&format!("/v1/sessions/{kernel}/executions"), Some(&run))
        .await
        .unwrap();
    reply.expect(202).unwrap();
    let (mut numbers, mut printed) = (Vec::new(), 0);
    while printed < 900 {
        let event = events.next().await.unwrap();
        let seq: u64 = event.id.unwrap().parse().unwrap();
        numbers.push(seq);
        printed += usize::from(event.data.contains("\"msg_type\":\"stream\""));
        if printed % 200 == 100 {
            owner.network.cut();
        }
    }
    let all: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, all, "each record once, in order");
    replicas.stop().await;
}

#[tokio::test]
async fn lists_have_the_sessions_of_all_replicas() {
    let replicas = Replicas::start(3).await;
    let [near, other, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let mut kernels = [near.kernel().await, other.kernel().await, owner.kernel().await];
    kernels.sort();
    let ids = |list: &Value| {
        let mut ids: Vec<String> = list
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    };
    for replica in &replicas.all {
        let list = replica
            .http()
            .get("/api/kernels")
            .await
            .unwrap()
            .expect(200)
            .unwrap();
        assert_eq!(ids(&list.json().unwrap()), kernels);
        let sessions = replica.http().get("/v1/sessions").await.unwrap().json().unwrap();
        assert_eq!(ids(&sessions["sessions"]), kernels);
        let status = replica.http().get("/api/status").await.unwrap().json().unwrap();
        assert_eq!(status["kernels"], 3);
    }
    // A list that has not changed is not sent again. The states of new kernels change.
    let deadline = Deadline::new();
    loop {
        let list = near.http().get("/api/kernels").await.unwrap();
        let tag = [("if-none-match", list.header("etag").unwrap())];
        let again = near
            .http()
            .request("GET", "/api/kernels", &tag, None)
            .await
            .unwrap();
        if again.status == 304 {
            break;
        }
        assert!(!deadline.is_over(), "{}", again.text());
        deadline.pause().await;
    }
    // One that lives by the store, and does not answer.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    replicas.replace(2, silent.local_addr().unwrap());
    let sessions = near
        .http()
        .get("/v1/sessions")
        .await
        .unwrap()
        .expect(200)
        .unwrap();
    assert_eq!(sessions.header("x-himalia-unanswered"), Some("r2"));
    let sessions = sessions.json().unwrap();
    assert_eq!(
        (ids(&sessions["sessions"]).len(), &sessions["unanswered"]),
        (2, &json!(["r2"]))
    );
    // A Jupyter client would take its kernels for culled.
    assert_eq!(near.http().get("/api/kernels").await.unwrap().status, 503);
    replicas.stop().await;
}

#[tokio::test]
async fn jupyter_sessions_are_at_the_owner_of_their_kernel() {
    let replicas = Replicas::start(2).await;
    let [near, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let body = json!({"path": "a.ipynb", "type": "notebook", "kernel": {"name": "fake"}});
    let made = owner.http().post("/api/sessions", Some(&body)).await.unwrap();
    let made = made.expect(201).unwrap().json().unwrap();
    // The same document, through the other replica.
    let again = near.http().post("/api/sessions", Some(&body)).await.unwrap();
    assert_eq!(again.expect(201).unwrap().json().unwrap()["id"], made["id"]);
    assert_eq!(
        near.engine
            .kernels(&himalia_engine::Principal::operator())
            .unwrap()
            .len(),
        0
    );
    // Another document on the same kernel.
    let kernel = &made["kernel"]["id"];
    let other = json!({"path": "b.ipynb", "type": "notebook", "kernel": {"id": kernel}});
    let other = near.http().post("/api/sessions", Some(&other)).await.unwrap();
    let other = other.expect(201).unwrap().json().unwrap();
    assert_eq!(&other["kernel"]["id"], kernel);
    let list = near.http().get("/api/sessions").await.unwrap().json().unwrap();
    assert_eq!(list.as_array().unwrap().len(), 2);
    let path = format!("/api/sessions/{}", other["id"].as_str().unwrap());
    let renamed = near
        .http()
        .json("PATCH", &path, Some(&json!({"path": "c.ipynb"})))
        .await
        .unwrap();
    assert_eq!(renamed.expect(200).unwrap().json().unwrap()["path"], "c.ipynb");
    assert_eq!(near.http().delete(&path).await.unwrap().status, 204);
    replicas.stop().await;
}

#[tokio::test]
async fn a_slow_reader_of_events_delays_no_other() {
    let replicas = Replicas::start(2).await;
    let [near, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    let path = format!("/v1/sessions/{kernel}/events");
    let slow = near.http().events(&path, Some(0)).await.unwrap();
    let run = json!({"code": "count 4000 2000"});
    let reply = near
        .http()
        .post(&format!("/v1/sessions/{kernel}/executions"), Some(&run))
        .await
        .unwrap();
    assert_eq!(reply.expect(200).unwrap().json().unwrap()["status"], "ok");
    // 8 MB are in the log; the other one gets all of them meanwhile.
    let mut events = near.http().events(&path, Some(0)).await.unwrap();
    let mut printed = 0;
    within("the fast reader", async {
        while printed < 4000 {
            let event = events.next().await.unwrap();
            printed += usize::from(event.data.contains("\"msg_type\":\"stream\""));
        }
    })
    .await
    .unwrap();
    drop(slow);
    replicas.stop().await;
}

/// The log of an ended session is at one replica, which is found for `HEAD` as for `GET`.
#[tokio::test]
async fn an_ended_session_is_found_by_head() {
    let replicas = Replicas::start(2).await;
    let [near, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let made = owner.http().post("/v1/sessions", Some(&json!({}))).await.unwrap();
    let made: Value = made.expect(201).unwrap().json().unwrap();
    let path = format!("/v1/sessions/{}", made["id"].as_str().unwrap());
    let ended = owner.http().json("DELETE", &path, None).await.unwrap();
    ended.expect(204).unwrap();
    for method in ["GET", "HEAD"] {
        let reply = near.http().json(method, &path, None).await.unwrap();
        assert_eq!(reply.status, 200, "{method}: {}", reply.text());
    }
    replicas.stop().await;
}
