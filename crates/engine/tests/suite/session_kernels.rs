//! Additional kernels of a session: in its sandbox, and with its end.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use std::time::Duration;

use common::{Client, TestEngine, kill, op, start, state, stop, until_state};
use himalia_engine::{
    CullConfig, Drain, Engine, EngineError, KernelId, MAX_SESSION_KERNELS, NewKernel, Origin, Secrets,
    SessionId, SessionInfo, StartSession,
};
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;

fn of(kernelspec: &str) -> NewKernel {
    NewKernel {
        kernelspec: Some(kernelspec.to_owned()),
        ..NewKernel::default()
    }
}

async fn try_add(engine: &Engine, session: KernelId, wanted: NewKernel) -> Result<SessionInfo, EngineError> {
    let principal = op();
    let started = engine.start_session_kernel(&principal, SessionId::of_first_kernel(session), wanted);
    within("an additional kernel", started).await.unwrap()
}

async fn add(engine: &Engine, session: KernelId, wanted: NewKernel) -> KernelId {
    let id = try_add(engine, session, wanted).await.unwrap().kernel.id;
    until_state(engine, id, "idle").await;
    id
}

async fn end(engine: &Engine, id: KernelId) {
    within("the end", engine.shutdown_kernel(&op(), id))
        .await
        .unwrap()
        .unwrap();
}

async fn said(engine: &Engine, id: KernelId, client: &str, code: &str) -> String {
    let mut one = Client::attach(engine, id, client).await;
    let request = one.execute(code).await;
    one.finish(&request).await;
    one.output(&request).trim().to_owned()
}

fn ids(infos: &[SessionInfo]) -> Vec<KernelId> {
    infos.iter().map(|info| info.kernel.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_kernel_runs_beside_the_first_and_ends_with_the_session() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine).await;
    until_state(&engine, id, "idle").await;
    let wanted = NewKernel {
        env: [("PLAIN".to_owned(), "1".to_owned())].into(),
        secrets: Secrets([("HIDDEN".to_owned(), "2".to_owned())].into()),
        ..of("late")
    };
    let second = add(&engine, id, wanted).await;

    // One sandbox, one directory, two processes with variables of their own.
    assert_eq!(
        said(&engine, id, "cwd", "cwd").await,
        said(&engine, second, "cwd", "cwd").await
    );
    assert_eq!(said(&engine, second, "env", "env PLAIN").await, "1");
    assert_eq!(said(&engine, second, "env2", "env HIDDEN").await, "2");
    let parent = |pid: String| common::parent_of(pid.parse().unwrap());
    let (here, there) = (
        said(&engine, id, "pid", "pid").await,
        said(&engine, second, "pid", "pid").await,
    );
    assert_ne!(here, there);
    assert_eq!(parent(here), parent(there), "one shim");

    // Both at once: the second answers while the first hangs.
    let mut busy = Client::attach(&engine, id, "busy").await;
    let hang = busy.execute("set x 1\nhang").await;
    until_state(&engine, id, "busy").await;
    assert_eq!(said(&engine, second, "one", "set x 2\nget x").await, "2");
    engine.interrupt_kernel(&op(), id).await.unwrap();
    busy.finish(&hang).await;
    assert_eq!(said(&engine, id, "two", "get x").await, "1");

    // A restart is of the one alone.
    engine.restart_kernel(&op(), second).await.unwrap();
    until_state(&engine, second, "idle").await;
    assert_eq!(said(&engine, id, "three", "get x").await, "1");

    // It is a kernel among all, and no session.
    assert_eq!(engine.kernels(&op()).unwrap().len(), 2);
    assert_eq!(ids(&engine.session_infos(&op()).unwrap()), [id]);
    let kernels = engine
        .session_kernels(&op(), SessionId::of_first_kernel(id))
        .unwrap();
    assert_eq!(ids(&kernels), [id, second]);
    assert_eq!(
        (kernels[1].kernel.name.as_str(), kernels[1].session.origin),
        ("late", Origin::V1)
    );
    assert!(engine.find_session(&op(), &second.to_string()).is_err());
    assert_eq!(
        engine.find_session(&op(), &id.to_string()).unwrap(),
        SessionId::of_first_kernel(id)
    );
    engine.release_kernel(&op(), second).await.unwrap();
    assert_eq!(state(&engine, second), "idle", "a Jupyter client only leaves it");

    end(&engine, id).await;
    assert_eq!(state(&engine, second), "gone");
    // Readers keep logs.
    drop(busy);
    assert_eventually!(place.is_clean(), "something is left");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kernels_are_found_in_their_session_only() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let (id, other) = (start(&engine).await, start(&engine).await);
    let second = add(&engine, id, of("fake")).await;
    let find =
        |session, text: &str| engine.session_kernel(&op(), SessionId::of_first_kernel(session), Some(text));
    assert_eq!(
        engine
            .session_kernel(&op(), SessionId::of_first_kernel(id), None)
            .unwrap(),
        id
    );
    assert_eq!(find(id, &id.to_string()).unwrap(), id);
    assert_eq!(find(id, &second.to_string()).unwrap(), second);
    let unknown = KernelId::random();
    for (session, text) in [
        (other, second.to_string()),
        (id, other.to_string()),
        (id, unknown.to_string()),
        (id, "none".to_owned()),
    ] {
        let error = find(session, &text).unwrap_err();
        assert!(
            matches!(error, EngineError::NotFound { what: "Kernel", .. }),
            "{error}"
        );
    }
    for session in [unknown, second] {
        let error = find(session, &second.to_string()).unwrap_err();
        assert!(
            matches!(error, EngineError::NotFound { what: "Session", .. }),
            "{error}"
        );
        let error = try_add(&engine, session, of("fake")).await.unwrap_err();
        assert!(
            matches!(error, EngineError::NotFound { what: "Session", .. }),
            "{error}"
        );
    }

    let principal = op();
    let first = engine
        .end_session_kernel(&principal, SessionId::of_first_kernel(id), &id.to_string())
        .await;
    assert!(matches!(first.unwrap_err(), EngineError::Conflict { .. }));
    assert!(
        engine
            .end_session_kernel(&op(), SessionId::of_first_kernel(other), &second.to_string())
            .await
            .is_err()
    );
    engine
        .end_session_kernel(&op(), SessionId::of_first_kernel(id), &second.to_string())
        .await
        .unwrap();
    assert_eq!(state(&engine, second), "gone");
    assert_eq!(said(&engine, id, "one", "print on").await, "on");
    assert!(find(id, &second.to_string()).is_err());
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_one_that_is_over_is_kept_and_it_is_no_session() {
    let place = TestEngine::with(|config| config.retention.time = Duration::from_hours(24));
    let engine = place.open().await;
    let id = start(&engine).await;
    let second = add(&engine, id, of("fake")).await;
    engine
        .end_session_kernel(&op(), SessionId::of_first_kernel(id), &second.to_string())
        .await
        .unwrap();
    assert!(engine.history(&op(), second, None, 10).await.is_ok());
    assert!(engine.ended_sessions(&op()).unwrap().is_empty());
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_leaves_nothing_and_numbers_are_bounded() {
    let place = TestEngine::with(|config| config.max_kernels = MAX_SESSION_KERNELS + 1);
    let engine = place.open().await;
    let id = start(&engine).await;
    let logs = || {
        std::fs::read_dir(place.data.path().join("kernels"))
            .unwrap()
            .count()
    };
    let failed = try_add(&engine, id, of("missing")).await.unwrap_err();
    assert!(matches!(failed, EngineError::KernelStart { .. }), "{failed}");
    let unknown = try_add(&engine, id, of("nothing")).await.unwrap_err();
    assert!(
        matches!(unknown, EngineError::NoSuchKernelspec { .. }),
        "{unknown}"
    );
    let nowhere = NewKernel {
        cwd: Some("/no/such/directory".to_owned()),
        ..of("fake")
    };
    let nowhere = try_add(&engine, id, nowhere).await.unwrap_err();
    assert!(
        matches!(nowhere, EngineError::BadRequest { field: "cwd", .. }),
        "{nowhere}"
    );
    assert_eq!(
        engine
            .session_kernels(&op(), SessionId::of_first_kernel(id))
            .unwrap()
            .len(),
        1
    );
    assert_eventually!(logs() == 1, "a log is left of a start that failed");

    // In this session, and of this gateway.
    for _ in 1..MAX_SESSION_KERNELS {
        try_add(&engine, id, NewKernel::default()).await.unwrap();
    }
    let full = try_add(&engine, id, of("fake")).await.unwrap_err();
    let limit = MAX_SESSION_KERNELS;
    assert!(
        matches!(full, EngineError::KernelLimit { limit: of, .. } if of == limit),
        "{full}"
    );
    let other = start(&engine).await;
    let full = try_add(&engine, other, of("fake")).await.unwrap_err();
    assert!(
        matches!(full, EngineError::KernelLimit { limit: of, .. } if of == limit + 1),
        "{full}"
    );
    let last = engine
        .session_kernels(&op(), SessionId::of_first_kernel(id))
        .unwrap()
        .pop()
        .unwrap()
        .kernel
        .id;
    engine
        .end_session_kernel(&op(), SessionId::of_first_kernel(id), &last.to_string())
        .await
        .unwrap();
    try_add(&engine, other, of("fake")).await.unwrap();
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn they_outlive_the_gateway_and_a_crash_of_the_first() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let wanted = StartSession {
        origin: Origin::V1,
        ..StartSession::default()
    };
    let id = engine.start_kernel(&op(), wanted).await.unwrap().id;
    let second = add(&engine, id, of("late")).await;
    said(&engine, second, "one", "set x 2").await;
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);
    let engine = place.open().await;
    until_state(&engine, id, "idle").await;
    until_state(&engine, second, "idle").await;
    assert_eq!(said(&engine, second, "two", "get x").await, "2");
    assert_eq!(
        ids(&engine
            .session_kernels(&op(), SessionId::of_first_kernel(id))
            .unwrap()),
        [id, second]
    );
    assert_eq!(ids(&engine.session_infos(&op()).unwrap()), [id]);

    // The sandbox is there without the first kernel's process, too.
    let pid = said(&engine, id, "pid", "pid").await;
    kill(pid.parse().unwrap());
    until_state(&engine, id, "dead").await;
    assert_eq!(said(&engine, second, "three", "get x").await, "2");
    let third = add(&engine, id, NewKernel::default()).await;
    assert_eq!(said(&engine, third, "four", "print on").await, "on");
    end(&engine, id).await;
    assert_eventually!(place.is_clean(), "something is left");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_idle_when_all_of_its_kernels_are() {
    let place = TestEngine::with(|config| {
        config.cull = CullConfig {
            idle_timeout: Duration::from_secs(1),
            interval: Duration::from_millis(100),
            ..CullConfig::default()
        };
    });
    let engine = place.open().await;
    let id = start(&engine).await;
    let second = try_add(&engine, id, of("fake")).await.unwrap().kernel.id;
    let gate = place.data.path().join("gate");
    let mut busy = Client::attach(&engine, second, "busy").await;
    let request = busy.execute(&format!("wait-file {}", gate.display())).await;
    until_state(&engine, second, "busy").await;
    // No client is at the first, and it has been idle for longer than it may.
    let idle_for = |id| {
        let model = engine.kernel(&op(), id).unwrap();
        time::OffsetDateTime::now_utc() - model.last_activity
    };
    assert_eventually!(idle_for(id) > Duration::from_secs(2), "it is used");
    assert_eq!(state(&engine, id), "idle");
    std::fs::write(&gate, "").unwrap();
    busy.finish(&request).await;
    drop(busy);
    assert_eventually!(state(&engine, id) == "gone", "it is not culled");
    assert_eventually!(state(&engine, second) == "gone", "it stays behind");
    assert_eventually!(place.is_clean(), "something is left");
    stop(engine).await;
}
