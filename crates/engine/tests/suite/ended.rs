//! An ended session, as long as its log is kept: what is shown of it, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use crate::common;

use std::time::Duration;

use common::{Client, TestEngine, op, settled, stop, until_state};
use himalia_engine::{
    Engine, EngineError, Execute, ExecutionResult, ExecutionState, ExecutionStatus as Status,
    ExecutionTarget, FeedClosed, FeedStart, HistoryStatus, KernelId, Origin, SessionChange, SessionId,
    StartSession,
};
use himalia_testkit::patience::within;

fn place() -> TestEngine {
    TestEngine::with(|config| config.retention.time = Duration::from_hours(24))
}

async fn session(engine: &Engine, name: Option<&str>) -> KernelId {
    let start = StartSession {
        origin: Origin::V1,
        session_name: name.map(str::to_owned),
        labels: [("task".to_owned(), "a".to_owned())].into(),
        ..StartSession::default()
    };
    engine.start_session(&op(), start).await.unwrap().kernel.id
}

fn code(code: &str) -> Execute {
    Execute {
        code: code.into(),
        ..Execute::default()
    }
}

async fn run(engine: &Engine, kernel: KernelId, text: &str) -> ExecutionResult {
    let id = engine.execute(&op(), kernel, code(text)).await.unwrap().id;
    settled(engine, &op(), id).await
}

/// Everything that changes a session or needs its kernel.
async fn commands(engine: &Engine, id: KernelId) -> Vec<EngineError> {
    let (op, text) = (op(), id.to_string());
    let target = ExecutionTarget::Session {
        session: &text,
        kernel: None,
    };
    let submitted = engine.submit(&op, target, code("print x"), FeedStart::Now).await;
    vec![
        submitted.map(drop).unwrap_err(),
        engine.execute(&op, id, code("print x")).await.unwrap_err(),
        engine.variables(&op, id, 0, 100).await.unwrap_err(),
        engine.read_file(&op, id, "a", None).await.map(drop).unwrap_err(),
        engine
            .write_file(&op, id, "a", BTreeMap::new())
            .await
            .map(drop)
            .unwrap_err(),
        engine
            .session_usage(&op, SessionId::of_first_kernel(id))
            .await
            .unwrap_err(),
        engine
            .change_session(&op, SessionId::of_first_kernel(id), SessionChange::default())
            .await
            .unwrap_err(),
        engine.interrupt_kernel(&op, id).await.unwrap_err(),
        engine.restart_kernel(&op, id).await.unwrap_err(),
        engine.shutdown_kernel(&op, id).await.unwrap_err(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_over_is_shown_as_it_was_also_by_the_next_gateway() {
    let mut place = place();
    let mut engine = place.open().await;
    let id = session(&engine, Some("eda")).await;
    let living = engine.session_info(&op(), id).unwrap();
    assert_eq!(living.end, None);
    let first = run(&engine, id, "print hello").await;
    let failed = run(&engine, id, "error KeyError x").await;
    let briefs = engine.executions(&op(), id).await.unwrap();
    let history = engine.history(&op(), id, None, 10).await.unwrap();
    let notebook = engine.notebook(&op(), id).await.unwrap();
    let last = engine.session_info(&op(), id).unwrap();
    let (_, provenance) = engine.execution_with_provenance(&op(), first.id).await.unwrap();
    assert!(engine.ended_sessions(&op()).unwrap().is_empty());
    engine.shutdown_kernel(&op(), id).await.unwrap();

    for _ in 0..2 {
        let shown = engine.session_info(&op(), id).unwrap();
        let end = shown.end.unwrap();
        assert_eq!(end.kept_until - end.at, Duration::from_hours(24));
        assert!(end.at >= living.session.created());
        assert_eq!(shown.kernel.execution_state, ExecutionState::Ended);
        assert_eq!(shown.kernel.reason.as_deref(), Some("killed_by_user"));
        assert_eq!((shown.kernel.incarnation, shown.kernel.connections), (1, 0));
        assert_eq!(shown.kernel.name, living.kernel.name);
        assert_eq!(
            (&shown.session.labels, &shown.session.name),
            (&last.session.labels, &last.session.name)
        );
        assert_eq!(
            (shown.session.created(), &shown.session.template),
            (last.session.created(), &last.session.template)
        );
        assert_eq!(
            (&shown.session.sandbox.limits, &shown.session.cwd),
            (&last.session.sandbox.limits, &last.session.cwd)
        );
        assert_eq!(engine.ended_sessions(&op()).unwrap(), [shown]);

        assert_eq!(engine.history(&op(), id, None, 10).await.unwrap(), history);
        assert_eq!(engine.notebook(&op(), id).await.unwrap(), notebook);
        // Its kernelspec is known still, and is not one of Python.
        let script = engine.script(&op(), id).await;
        assert_eq!(script.unwrap_err().code(), "unsupported");
        let listed = engine.executions(&op(), id).await.unwrap();
        let ids: Vec<_> = listed
            .iter()
            .map(|one| (one.id, one.status, &one.title))
            .collect();
        let before: Vec<_> = briefs
            .iter()
            .map(|one| (one.id, one.status, &one.title))
            .collect();
        assert_eq!(ids, before);
        assert_eq!((ids[0].0, ids[1].0), (first.id, failed.id));

        let (_, kept) = engine.execution_with_provenance(&op(), first.id).await.unwrap();
        assert_eq!(kept, provenance);

        // Its log from the beginning, and then the end.
        let mut feed = engine.events(&op(), id, Some(0)).unwrap();
        let mut seen = 0;
        let closed = loop {
            match within("records", feed.next()).await.unwrap() {
                Ok(events) => seen += events.len(),
                Err(closed) => break closed,
            }
        };
        assert!(
            seen > 10 && matches!(closed, FeedClosed::KernelGone),
            "{seen} {closed:?}"
        );

        for error in commands(&engine, id).await {
            let EngineError::SessionEnded(ended) = &error else {
                panic!("{error}")
            };
            assert_eq!((ended.id.first_kernel(), ended.ended), (id, end.at));
            assert_eq!(ended.cause, "killed_by_user");
            assert_eq!((error.code(), error.retryable()), ("session_ended", false));
        }
        // Its name is free, and a caller that asks for it learns whose it was.
        let error = engine.find_session(&op(), "eda").unwrap_err();
        assert!(error.to_string().contains(&id.to_string()), "{error}");
        assert_eq!(error.code(), "session_not_found");

        stop(engine).await;
        engine = place.open().await;
    }

    // Its time has passed: of everything it is said that it was removed.
    let engine = place.open_past_retention(engine).await;
    engine.collect(&op(), false).await.unwrap();
    let removed = "removed_by_retention";
    assert_eq!(engine.session_info(&op(), id).unwrap_err().code(), removed);
    assert_eq!(engine.notebook(&op(), id).await.unwrap_err().code(), removed);
    assert_eq!(engine.executions(&op(), id).await.unwrap_err().code(), removed);
    assert_eq!(
        engine.events(&op(), id, None).map(drop).unwrap_err().code(),
        removed
    );
    for error in commands(&engine, id).await {
        assert_eq!(error.code(), removed);
    }
    assert!(engine.ended_sessions(&op()).unwrap().is_empty());
    assert!(matches!(
        engine.find_session(&op(), "eda"),
        Err(EngineError::NotFound { .. })
    ));
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_under_way_is_not_under_way_any_more() {
    let place = place();
    let engine = place.open().await;
    let id = session(&engine, None).await;
    let mut client = Client::attach(&engine, id, "jupyter").await;
    client.run("print by-jupyter").await;
    let running = engine.execute(&op(), id, code("hang")).await.unwrap().id;
    let waiting = engine.execute(&op(), id, code("print never")).await.unwrap().id;
    until_state(&engine, id, "busy").await;
    client.execute("print too-late").await;
    engine.shutdown_kernel(&op(), id).await.unwrap();

    let briefs = engine.executions(&op(), id).await.unwrap();
    let listed: Vec<_> = briefs.iter().map(|one| (one.id, one.status)).collect();
    // An end is polite first: what runs is interrupted.
    let status = engine.execution(&op(), running).await.unwrap().status;
    assert!(
        matches!(status, Status::Interrupted | Status::KernelDied),
        "{status:?}"
    );
    assert_eq!(listed, [(running, status), (waiting, Status::KernelDied)]);
    let history = engine.history(&op(), id, None, 10).await.unwrap().history;
    let open = [HistoryStatus::Running, HistoryStatus::Queued];
    assert!(
        history.iter().all(|one| !open.contains(&one.status)),
        "{history:?}"
    );
    let of = |text: &str| history.iter().find(|one| one.code == text).map(|one| one.status);
    assert_eq!(of("print by-jupyter"), Some(HistoryStatus::Ok));
    assert_eq!(of("print never"), Some(HistoryStatus::KernelDied));
    let input = engine.answer_execution(&op(), running, "x".into()).await;
    assert_eq!(input.unwrap_err().code(), "session_ended");
    assert!(!engine.interrupt_execution(&op(), running).await.unwrap());
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_or_a_name_that_lives_again_is_that_of_the_living() {
    let place = place();
    let engine = place.open().await;
    let old = session(&engine, Some("eda")).await;
    engine.shutdown_kernel(&op(), old).await.unwrap();
    let again = StartSession {
        id: Some(old),
        origin: Origin::V1,
        session_name: Some("eda".into()),
        ..StartSession::default()
    };
    engine.start_session(&op(), again).await.unwrap();
    assert_eq!(
        engine.find_session(&op(), "eda").unwrap(),
        SessionId::of_first_kernel(old)
    );
    assert_eq!(engine.session_info(&op(), old).unwrap().end, None);
    assert!(engine.ended_sessions(&op()).unwrap().is_empty());
    engine.shutdown_kernel(&op(), old).await.unwrap();
    let ended = engine.ended_sessions(&op()).unwrap();
    assert_eq!(ended.iter().map(|one| one.kernel.id).collect::<Vec<_>>(), [old]);
    assert!(ended[0].session.labels.is_empty(), "the later one of the two");

    // Kernels of the Jupyter API leave nothing.
    let jupyter = common::start(&engine).await;
    engine.shutdown_kernel(&op(), jupyter).await.unwrap();
    for error in commands(&engine, jupyter).await {
        assert!(error.code().ends_with("_not_found"), "{error}");
    }
    assert_eq!(
        engine.notebook(&op(), jupyter).await.unwrap_err().code(),
        "kernel_not_found"
    );
    stop(engine).await;
}
