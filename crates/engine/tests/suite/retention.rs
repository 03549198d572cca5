//! What is kept of an ended session, for how long, and what is said afterwards.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{TestEngine, op, settled, state, stop, until_state};
use himalia_engine::{
    Engine, EngineError, Execute, ExecutionId, ExecutionResult, ExecutionStatus as Status, KernelId, Origin,
    OrphanKind, Overdue, SessionLimits, StartSession,
};
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;

fn of_v1() -> StartSession {
    StartSession {
        origin: Origin::V1,
        ..StartSession::default()
    }
}

async fn session(engine: &Engine) -> KernelId {
    engine.start_session(&op(), of_v1()).await.unwrap().kernel.id
}

async fn run(engine: &Engine, kernel: KernelId, code: &str) -> ExecutionResult {
    let wanted = Execute {
        code: code.into(),
        ..Execute::default()
    };
    let id = engine.execute(&op(), kernel, wanted).await.unwrap().id;
    settled(engine, &op(), id).await
}

async fn code_of(engine: &Engine, id: ExecutionId) -> &'static str {
    match engine.execution(&op(), id).await {
        Ok(_) => "kept",
        Err(error) => error.code(),
    }
}

fn logs(place: &TestEngine) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place.data.path().join("kernels")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn artifact_of(result: &ExecutionResult) -> String {
    let name = result.outputs[0].data["image/png"]["artifact"].as_str().unwrap();
    name.strip_prefix("sha256:").unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_can_be_read_after_the_end_until_their_time_is_over() {
    let mut place = TestEngine::with(|config| config.retention.time = Duration::from_hours(24));
    let engine = place.open().await;
    let kernel = session(&engine).await;
    let done = run(&engine, kernel, "print hello\ndisplay image/png 4000").await;
    let artifact = artifact_of(&done);
    engine.shutdown_kernel(&op(), kernel).await.unwrap();

    // Now, and by the next gateway.
    let mut engine = engine;
    for _ in 0..2 {
        let ended = engine.execution(&op(), done.id).await.unwrap();
        assert_eq!((ended.status, ended.text.as_str()), (Status::Ok, "hello\n"));
        let page = engine.execution_output(&op(), done.id, 1, 3).await.unwrap();
        assert_eq!((page.text.as_str(), page.complete), ("ell", true));
        let mut feed = engine.follow_execution(&op(), done.id, None).await.unwrap();
        while let Some(events) = within("events", feed.next()).await.unwrap().unwrap() {
            assert!(!events.is_empty());
        }
        assert!(!engine.interrupt_execution(&op(), done.id).await.unwrap());
        assert_eq!(engine.artifact(&op(), &artifact).await.unwrap().size(), 3000);
        assert_eq!(state(&engine, kernel), "gone");
        let none = engine.collect(&op(), false).await.unwrap();
        assert_eq!((none.sessions.len(), none.orphans.len()), (0, 0), "{none:?}");
        stop(engine).await;
        engine = place.open().await;
    }

    // Its time has passed.
    let engine = place.open_past_retention(engine).await;
    let would = engine.collect(&op(), true).await.unwrap();
    assert_eq!(would.sessions.len(), 1);
    let one = &would.sessions[0];
    assert_eq!((one.id, one.reason), (kernel, Overdue::Age));
    assert!(one.bytes > 3000 && would.bytes == one.bytes, "{would:?}");
    assert_eq!(code_of(&engine, done.id).await, "kept", "that was a question");
    let did = engine.collect(&op(), false).await.unwrap();
    assert_eq!(did.sessions, would.sessions);
    assert_eq!(logs(&place), Vec::<PathBuf>::new());
    assert_eq!(code_of(&engine, done.id).await, "removed_by_retention");
    let shown = engine.session_info(&op(), kernel).unwrap_err();
    assert_eq!(shown.code(), "removed_by_retention");
    assert!(engine.artifact(&op(), &artifact).await.is_err());
    assert!(engine.collect(&op(), false).await.unwrap().sessions.is_empty());
    // An unknown id is not found, then as before.
    let never = ExecutionId {
        kernel: KernelId::random(),
        seq: 1,
    };
    assert_eq!(code_of(&engine, never).await, "execution_not_found");
    stop(engine).await;
    let engine = place.open().await;
    assert_eq!(code_of(&engine, done.id).await, "removed_by_retention");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn above_the_limit_of_bytes_the_oldest_goes() {
    let place = TestEngine::with(|config| {
        config.retention.time = Duration::from_hours(24);
        config.retention.bytes = 300_000;
    });
    let engine = place.open().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let kernel = session(&engine).await;
        ids.push(run(&engine, kernel, "count 10 10000").await.id);
        engine.shutdown_kernel(&op(), kernel).await.unwrap();
    }
    // The end of a session is enough: no caller has to ask, and no tick has to come.
    assert_eventually!(code_of(&engine, ids[0]).await == "removed_by_retention");
    let done = engine.collect(&op(), false).await.unwrap();
    assert!(done.sessions.is_empty(), "{done:?}");
    assert_eq!(code_of(&engine, ids[1]).await, "kept");
    assert_eq!(code_of(&engine, ids[2]).await, "kept");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_of_jupyter_whose_sandbox_is_lost_goes_when_it_was_not_used_for_so_long() {
    let place = TestEngine::with(|config| config.retention.time = Duration::from_millis(500));
    let engine = place.open().await;
    let (crashed, stays) = (session(&engine).await, session(&engine).await);
    let lost = common::start(&engine).await;
    let done = run(&engine, lost, "pid").await;
    let kill = Execute {
        code: "kill KILL".into(),
        ..Execute::default()
    };
    engine.execute(&op(), crashed, kill).await.unwrap();
    until_state(&engine, crashed, "dead").await;
    let other = run(&engine, stays, "pid").await;
    for (kernel, text) in [(lost, &done.text), (stays, &other.text)] {
        let pid: i32 = text.trim().parse().unwrap();
        common::kill_with_shim(pid);
        until_state(&engine, kernel, "dead").await;
    }
    let mut gone = None;
    let end = tokio::time::Instant::now() + Duration::from_secs(30);
    while gone.is_none() {
        assert!(tokio::time::Instant::now() < end, "it stays for ever");
        let done = engine.collect(&op(), false).await.unwrap();
        gone = done.sessions.into_iter().find(|one| one.reason == Overdue::Lost);
        tokio::task::yield_now().await;
    }
    assert_eq!(gone.unwrap().id, lost);
    assert_ne!(code_of(&engine, done.id).await, "kept");
    for session in [crashed, stays] {
        assert_eq!(state(&engine, session), "dead", "it can continue");
    }
    assert_eq!(run(&engine, stays, "print on").await.text, "on\n");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_of_no_session_go_and_those_in_use_stay() {
    let place = TestEngine::with(|config| config.retention.time = Duration::from_hours(24));
    let engine = place.open().await;
    let kernel = session(&engine).await;
    let native = run(&engine, kernel, "print hello").await.id;
    let jupyter = common::start(&engine).await;
    let orphan = place.data.path().join("kernels/orphan-1");
    std::fs::create_dir_all(orphan.join("artifacts")).unwrap();
    std::fs::write(orphan.join("1.seg"), [0; 100]).unwrap();
    std::fs::write(orphan.join("artifacts/x"), [0; 50]).unwrap();

    let would = engine.collect(&op(), true).await.unwrap();
    assert_eq!(would.orphans.len(), 1, "{would:?}");
    let one = &would.orphans[0];
    assert_eq!(
        (one.kind, one.name.as_str(), one.bytes),
        (OrphanKind::Log, "kernels/orphan-1", Some(150))
    );
    assert!(orphan.exists());
    assert_eq!(engine.collect(&op(), false).await.unwrap().orphans, would.orphans);
    assert!(!orphan.exists());
    assert_eq!(logs(&place).len(), 2);
    assert_eq!(code_of(&engine, native).await, "kept");
    until_state(&engine, jupyter, "idle").await;
    stop(engine).await;
}

/// Two segments and a half: the first one goes.
const FLOOD: &str = "print begin\nbinary 10 1000000\nbinary 10 1000000\nbinary 10 1000000\n\
    binary 10 1000000\nbinary 10 1000000\nprint end";

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_that_fills_the_log_says_what_the_quota_took() {
    let place = TestEngine::with(|config| config.retention.time = Duration::from_hours(24));
    let engine = place.open().await;
    let start = StartSession {
        limits: SessionLimits {
            output_bytes: Some(20 << 20),
            ..SessionLimits::default()
        },
        ..of_v1()
    };
    let kernel = engine.start_session(&op(), start).await.unwrap().kernel.id;
    let early = run(&engine, kernel, "print hello").await;
    assert_eq!(early.quota, None);
    let flood = run(&engine, kernel, FLOOD).await;
    assert_eq!(flood.status, Status::Ok);

    let later = engine.execution(&op(), flood.id).await.unwrap();
    assert_eq!(later.status, Status::Ok);
    assert!(later.quota.unwrap().records_removed > 3, "{:?}", later.quota);
    assert!(
        later.text.starts_with("[himalia: records "),
        "{:.200}",
        later.text
    );
    assert!(later.text.ends_with("end\n"));
    let page = engine.execution_output(&op(), flood.id, 0, 200).await.unwrap();
    assert!(page.text.contains("it has reached its quota]\n"), "{}", page.text);
    assert!(page.complete);

    // A client that comes back meanwhile learns the same.
    let mut feed = engine.follow_execution(&op(), flood.id, None).await.unwrap();
    let mut words = Vec::new();
    while let Some(events) = within("events", feed.next()).await.unwrap().unwrap() {
        words.extend(events.iter().map(|event| event.kind.as_str()));
    }
    assert_eq!(
        (words.first(), words.last()),
        (Some(&"gap"), Some(&"done")),
        "{words:?}"
    );

    // Nothing of this one is left but that it was there, which its kernel knows.
    let gone = engine.execution(&op(), early.id).await.unwrap();
    assert_eq!((gone.status, gone.quota.is_some()), (Status::Ok, true));
    engine.shutdown_kernel(&op(), kernel).await.unwrap();
    let after = engine.execution(&op(), flood.id).await.unwrap_err();
    assert!(matches!(after, EngineError::Removed { .. }));
    assert_eq!(after.code(), "removed_by_quota");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_kept_when_that_is_wanted() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let kernel = session(&engine).await;
    let done = run(&engine, kernel, "print hello").await;
    engine.shutdown_kernel(&op(), kernel).await.unwrap();
    assert_eq!(code_of(&engine, done.id).await, "execution_not_found");
    let clean = |dir: &Path| std::fs::read_dir(dir).unwrap().next().is_none();
    assert_eventually!(clean(&place.data.path().join("kernels")), "a log is left");
    stop(engine).await;
}
