//! Starts, ends, restarts, deaths and interrupts.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use common::{Client, TestEngine, none, op, start, state, stop, until_state};
use himalia_engine::{EngineError, KernelId, StartSession};
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;
use himalia_wire::Channel;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_start_leaves_nothing() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let named = |name: &str| StartSession {
        name: Some(name.into()),
        ..StartSession::default()
    };
    let missing = engine.start_kernel(&op(), named("missing")).await.unwrap_err();
    assert!(matches!(missing, EngineError::KernelStart { .. }), "{missing}");
    let unknown = engine.start_kernel(&op(), named("unknown")).await.unwrap_err();
    assert!(
        matches!(unknown, EngineError::NoSuchKernelspec { .. }),
        "{unknown}"
    );
    assert!(engine.kernels(&op()).unwrap().is_empty());
    assert_eventually!(place.is_clean(), "something is left");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_counts_starts_under_way() {
    let place = TestEngine::with(|config| config.max_kernels = 2);
    let engine = place.open().await;
    let (principal, plain) = (op(), StartSession::default());
    let begin = || engine.start_kernel(&principal, plain.clone());
    let (one, two, three) = tokio::join!(begin(), begin(), begin());
    let results = [one, two, three];
    let refused = results
        .iter()
        .filter(|result| matches!(result, Err(EngineError::KernelLimit { limit: 2, .. })));
    assert_eq!(refused.count(), 1);
    assert_eq!(engine.kernels(&op()).unwrap().len(), 2);
    let id = results.into_iter().flatten().next().unwrap().id;
    engine.shutdown_kernel(&op(), id).await.unwrap();
    start(&engine).await;
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_can_be_chosen_once() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = KernelId::random();
    let start = StartSession {
        id: Some(id),
        env: none(),
        ..StartSession::default()
    };
    assert_eq!(engine.start_kernel(&op(), start.clone()).await.unwrap().id, id);
    let again = engine.start_kernel(&op(), start).await.unwrap_err();
    assert!(matches!(again, EngineError::Conflict { .. }), "{again}");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_a_new_process_and_says_nothing() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    let mut one = Client::attach(&engine, id, "one").await;
    one.run("set x 1").await;
    let model = within("restart", engine.restart_kernel(&op(), id))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((model.id, model.incarnation), (id, 2));
    until_state(&engine, id, "idle").await;
    let reply = one.run("get x").await;
    assert_eq!(
        (&reply.content["status"], &reply.content["ename"]),
        (&json!("error"), &json!("NameError"))
    );
    assert!(
        one.seen
            .iter()
            .all(|seen| seen.content["execution_state"] != "restarting")
    );
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_is_said_and_the_kernel_comes_back() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    let mut one = Client::attach(&engine, id, "one").await;
    let request = one.execute("print last words\nkill KILL").await;
    one.until("restarting", |seen| {
        seen.content["execution_state"] == "restarting"
    })
    .await;
    assert_eq!(
        one.output(&request),
        "last words\n",
        "output comes before the death"
    );
    assert_eventually!(engine.kernel(&op(), id).unwrap().incarnation == 2);
    until_state(&engine, id, "idle").await;
    assert_eq!(one.run("print back").await.content["status"], "ok");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_always_dies_is_dead_in_the_end() {
    let place = TestEngine::with(|config| config.restart_limit = 2);
    let engine = place.open().await;
    let start = StartSession {
        name: Some("stillborn".into()),
        ..StartSession::default()
    };
    let id = engine.start_kernel(&op(), start).await.unwrap().id;
    until_state(&engine, id, "dead").await;
    let model = engine.kernel(&op(), id).unwrap();
    assert_eq!(model.incarnation, 3);
    assert!(
        model
            .reason
            .unwrap()
            .starts_with("exit(3): fake kernel: told to fail at start")
    );
    let refused = engine.interrupt_kernel(&op(), id).await.unwrap_err();
    assert!(matches!(refused, EngineError::Conflict { .. }), "{refused}");
    engine.shutdown_kernel(&op(), id).await.unwrap();
    assert_eq!(state(&engine, id), "gone");
    assert_eventually!(place.is_clean(), "something is left");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_the_cell_and_not_the_kernel() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    let mut one = Client::attach(&engine, id, "one").await;
    let request = one.execute("print begun\nhang").await;
    one.until("begun", |seen| seen.msg_type == "stream").await;
    engine.interrupt_kernel(&op(), id).await.unwrap();
    assert_eq!(one.finish(&request).await.content["ename"], "KeyboardInterrupt");
    assert_eq!(engine.kernel(&op(), id).unwrap().incarnation, 1);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_can_end_the_kernel() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    let mut one = Client::attach(&engine, id, "one").await;
    one.send(Channel::Control, "shutdown_request", &json!({"restart": false}))
        .await;
    assert_eventually!(
        state(&engine, id) == "gone",
        "what a client ends is not restarted"
    );
    assert_eq!(one.closed().await, himalia_engine::FeedClosed::KernelGone);
    assert!(
        one.seen
            .iter()
            .any(|seen| seen.msg_type == "shutdown_reply" && seen.channel == Channel::Control)
    );
    drop(one);
    assert_eventually!(place.is_clean(), "nothing is left");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_kernel_is_culled() {
    let place = TestEngine::with(|config| {
        // Longer than a client takes to attach on a loaded machine.
        config.cull.idle_timeout = std::time::Duration::from_secs(3);
        config.cull.interval = std::time::Duration::from_millis(50);
    });
    let engine = place.open().await;
    let id = start(&engine).await;
    let one = Client::attach(&engine, id, "one").await;
    let other = start(&engine).await;
    assert_eventually!(state(&engine, other) == "gone", "no client uses it");
    assert_ne!(state(&engine, id), "gone", "a client is attached");
    drop(one);
    assert_eventually!(state(&engine, id) == "gone", "no client is attached any more");
    stop(engine).await;
}
