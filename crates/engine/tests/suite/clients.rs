//! What clients of one kernel see of each other, and of themselves after a reconnect.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use common::{Client, TestEngine, op, start, state, stop, until_state};
use himalia_engine::{Attach, EngineError, Event, EventKind, FeedClosed};
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;
use himalia_wire::Channel;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn output_goes_to_all_and_replies_to_the_asker() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    let mut one = Client::attach(&engine, id, "one").await;
    let mut other = Client::attach(&engine, id, "other").await;
    assert_eq!(engine.kernel(&op(), id).unwrap().connections, 2);
    let request = one.execute("print hello\nresult 42").await;
    let reply = one.finish(&request).await;
    assert_eq!(reply.content["status"], "ok");
    assert_eq!(one.output(&request), "hello\n");
    let idle = |seen: &common::Seen| seen.content["execution_state"] == "idle" && seen.parent.is_some();
    other.until("idle", idle).await;
    assert_eq!(other.output(&request), "hello\n");
    assert_eq!(other.surprises().await, []);
    assert!(other.seen.iter().all(|seen| seen.channel == Channel::Iopub));
    let shown = one.seen.iter().chain(&other.seen);
    assert!(shown.clone().all(|seen| seen.seq > 0));
    assert!(
        one.seen.is_sorted_by_key(|seen| seen.seq),
        "in the order of the log"
    );
    drop(one);
    drop(other);
    assert_eq!(engine.kernel(&op(), id).unwrap().connections, 0);
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn input_is_asked_of_the_client_that_runs_the_code() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    let mut one = Client::attach(&engine, id, "one").await;
    let mut other = Client::attach(&engine, id, "other").await;
    let request = one.execute("input name?").await;
    let asked = one
        .until("input_request", |seen| seen.msg_type == "input_request")
        .await;
    assert_eq!(asked.channel, Channel::Stdin);
    one.answer(&asked, "Ada").await;
    one.finish(&request).await;
    assert_eq!(one.output(&request), "input: Ada\n");
    other
        .until("idle", |seen| {
            seen.content["execution_state"] == "idle" && seen.parent.is_some()
        })
        .await;
    assert!(other.seen.iter().all(|seen| seen.msg_type != "input_request"));
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_returns_misses_nothing_and_a_new_one_sees_no_history() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    let gate = place.data.path().join("gate");
    let mut one = Client::attach(&engine, id, "one").await;
    let request = one
        .execute(&format!(
            "print before\nwait-file {}\ncount 500\nprint after",
            gate.display()
        ))
        .await;
    one.until("the first line", |seen| seen.msg_type == "stream")
        .await;
    drop(one);
    until_state(&engine, id, "busy").await;
    std::fs::write(&gate, "").unwrap();
    until_state(&engine, id, "idle").await;
    let mut stranger = Client::attach(&engine, id, "stranger").await;
    assert_eq!(
        stranger.surprises().await,
        [],
        "what was before is not a newcomer's"
    );
    let mut one = Client::attach(&engine, id, "one").await;
    one.finish(&request).await;
    let text = one.output(&request);
    let expected: Vec<String> = (0..500).map(|line| line.to_string()).collect();
    assert_eq!(
        text,
        format!("{}\nafter\n", expected.join("\n")),
        "in order, once, without what was seen before"
    );
    let all = Client::attach_after(&engine, id, "stranger", Some(0)).await;
    assert_eq!(stranger.closed().await, FeedClosed::Replaced);
    drop(all);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_can_be_read_from_any_place() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    let mut one = Client::attach(&engine, id, "one").await;
    one.run("print hello").await;
    let last = one.seen.iter().map(|seen| seen.seq).max().unwrap();
    let mut feed = engine.events(&op(), id, Some(0)).unwrap();
    let mut events: Vec<Event> = Vec::new();
    while events.last().is_none_or(|event| event.seq < last) {
        events.extend(within("the next events", feed.next()).await.unwrap().unwrap());
    }
    let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(
        seqs,
        (1..=seqs.len() as u64).collect::<Vec<_>>(),
        "dense from the first"
    );
    let request = events.iter().find(|event| event.kind == EventKind::Request);
    assert!(request.is_some_and(|request| request.seq < last));
    assert!(events.iter().any(|event| event.kind == EventKind::Lifecycle));
    assert!(events.iter().all(|event| event.incarnation <= 1));
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_attachments_and_messages_name_what_is_wrong() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    let attach = |session: &str| Attach {
        wire_session: session.into(),
        after: None,
    };
    for session in ["", &"x".repeat(257)] {
        let refused = engine.attach(&op(), id, attach(session)).await.unwrap_err();
        assert!(matches!(
            refused,
            EngineError::BadRequest {
                field: "session_id",
                ..
            }
        ));
    }
    let unknown = himalia_engine::KernelId::random();
    let refused = engine.attach(&op(), unknown, attach("x")).await.unwrap_err();
    assert!(matches!(refused, EngineError::NotFound { .. }));
    let client = Client::attach(&engine, id, "one").await;
    let requests = &client.attachment.requests;
    let refused = requests
        .send(common::frame(Channel::Iopub, ""))
        .await
        .unwrap_err();
    assert!(matches!(
        refused,
        EngineError::BadRequest { field: "channel", .. }
    ));
    let refused = requests
        .send(common::frame(Channel::Shell, "nonsense"))
        .await
        .unwrap_err();
    assert!(matches!(
        refused,
        EngineError::BadRequest { field: "message", .. }
    ));
    assert_eq!(state(&engine, id), "idle");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_ends_when_the_kernel_does() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    let mut one = Client::attach(&engine, id, "one").await;
    one.run("print hello").await;
    engine.shutdown_kernel(&op(), id).await.unwrap();
    assert_eq!(one.closed().await, FeedClosed::KernelGone);
    let last = one.seen.last().unwrap();
    assert_eq!(
        (&*last.msg_type, &last.content["execution_state"]),
        ("status", &json!("dead"))
    );
    assert_eq!(state(&engine, id), "gone");
    drop(one);
    assert_eventually!(place.is_clean(), "the log goes with its last reader");
    stop(engine).await;
}
