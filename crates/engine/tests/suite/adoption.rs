//! Kernels outlive the gateway.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use std::time::{Duration, Instant};

use common::{Client, TestEngine, kill, lose_while_away, op, start, state, stop, until_state};
use himalia_engine::{Drain, EngineError, FeedClosed, StartSession};
use himalia_testkit::assert_eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_running_cell_survives_and_its_reply_arrives() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    let gate = place.data.path().join("gate");
    let log = place.data.path().join("log");
    let mut one = Client::attach(&engine, id, "one").await;
    let code = format!(
        "append {0} x\nprint before\nwait-file {1}\nprint after",
        log.display(),
        gate.display()
    );
    let request = one.execute(&code).await;
    one.until("before", |seen| seen.msg_type == "stream").await;
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    assert_eq!(one.closed().await, FeedClosed::Draining);
    let refused = engine
        .start_kernel(&op(), StartSession::default())
        .await
        .unwrap_err();
    assert!(matches!(refused, EngineError::Unavailable { .. }), "{refused}");
    drop((one, engine));

    std::fs::write(&gate, "").unwrap();
    let engine = place.open().await;
    let mut one = Client::attach(&engine, id, "one").await;
    assert_eq!(one.finish(&request).await.content["status"], "ok");
    assert_eq!(one.output(&request), "after\n");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "x\n", "it ran once");
    assert_eq!(engine.kernel(&op(), id).unwrap().incarnation, 1);
    until_state(&engine, id, "idle").await;
    assert_eq!(one.run("print on").await.content["status"], "ok");
    drop(one);
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_died_meanwhile_is_replaced_and_no_request_goes_unanswered() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    let mut one = Client::attach(&engine, id, "one").await;
    let request = one.execute("pid").await;
    one.finish(&request).await;
    let pid: i32 = one.output(&request).trim().parse().unwrap();
    drop(one);
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);
    kill(pid);
    assert_eventually!(!is_there(pid), "it is gone");
    let engine = place.open().await;
    // Sent before the death is known, all the same to the next process.
    let mut one = Client::attach(&engine, id, "one").await;
    let requests = [
        one.execute("set x 1").await,
        one.execute("get x").await,
        one.execute("get x").await,
    ];
    for request in &requests {
        assert_eq!(one.finish(request).await.content["status"], "ok");
    }
    assert_eq!(one.output(&requests[2]), "1\n");
    let model = engine.kernel(&op(), id).unwrap();
    assert_eq!(
        (model.incarnation, model.reason.as_deref()),
        (2, Some("restarted after signal(9)"))
    );
    drop(one);
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_at_once_after_a_start_wait_for_the_sandbox() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);
    let engine = place.open().await;
    engine.interrupt_kernel(&op(), id).await.unwrap();
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);
    let engine = place.open().await;
    engine.restart_kernel(&op(), id).await.unwrap();
    assert_eq!(engine.kernel(&op(), id).unwrap().incarnation, 2);
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_died_meanwhile_is_a_dead_kernel() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    let mut one = Client::attach(&engine, id, "one").await;
    let request = one.execute("pid").await;
    one.finish(&request).await;
    let pid: i32 = one.output(&request).trim().parse().unwrap();
    drop(one);
    let engine = lose_while_away(&place, engine, id, pid).await;
    assert!(
        engine
            .kernel(&op(), id)
            .unwrap()
            .reason
            .unwrap()
            .starts_with("sandbox_lost")
    );
    engine.shutdown_kernel(&op(), id).await.unwrap();
    assert_eq!(state(&engine, id), "gone");
    assert_eventually!(place.is_clean(), "nothing is left");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_kernels_are_there_again_within_three_seconds() {
    const KERNELS: usize = 50;
    const PRINTING: usize = 10;
    /// What is promised.
    const SOON: Duration = Duration::from_secs(3);
    let place = TestEngine::new();
    let engine = place.open().await;
    let mut ids = Vec::new();
    for _ in 0..KERNELS {
        ids.push(start(&engine).await);
    }
    let enough = place.data.path().join("enough");
    let code = format!(
        "print tick\nsleep 20\n{}wait-file {}",
        "print tick\nsleep 20\n".repeat(1000),
        enough.display()
    );
    for id in &ids[..PRINTING] {
        let mut one = Client::attach(&engine, *id, "one").await;
        one.execute(&code).await;
        one.until("tick", |seen| seen.msg_type == "stream").await;
    }
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);
    let begun = Instant::now();
    let engine = place.open().await;
    assert_eq!(engine.kernels(&op()).unwrap().len(), KERNELS);
    let idle = || {
        let kernels = engine.kernels(&op()).unwrap();
        let states = kernels.iter().map(|model| model.execution_state.as_str());
        states.filter(|state| *state == "idle").count()
    };
    assert_eventually!(idle() == KERNELS - PRINTING, "{} are idle", idle());
    for id in &ids[..PRINTING] {
        // What they print reaches a client that came just now.
        let mut other = Client::attach(&engine, *id, "other").await;
        other.until("tick", |seen| seen.msg_type == "stream").await;
    }
    let took = begun.elapsed();
    assert!(took < SOON, "adopted after {took:?}");
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

fn is_there(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}
