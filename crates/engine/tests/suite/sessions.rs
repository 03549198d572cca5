//! What a session is ended by, and what its kernel gets.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use std::time::Duration;

use common::{Client, TestEngine, op, state, stop, until_state};
use himalia_engine::{
    Drain, EngineError, HistoryStatus, NotOffered, Origin, Provisioners, SessionChange, SessionId,
    SessionLimits, StartSession, Starter, Template, TimeChange, TreeLimits, TreePlace,
};
use himalia_provisioner::Isolation;
use himalia_testkit::assert_eventually;

fn of_v1() -> StartSession {
    StartSession {
        origin: Origin::V1,
        ..StartSession::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lifetime_ends_a_session_also_when_it_passed_without_a_gateway() {
    let place = TestEngine::new();
    let engine = place.open().await;
    // Long enough for a start on a machine that has much to do.
    let mut start = of_v1();
    start.lifetime = Some(Duration::from_secs(6));
    let short = engine.start_session(&op(), start.clone()).await.unwrap();
    assert!(short.session.expires().is_some());
    assert_eventually!(state(&engine, short.kernel.id) == "gone", "its time has come");
    let long = engine.start_session(&op(), start).await.unwrap().kernel.id;
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);
    let engine = place.open().await;
    assert_eventually!(state(&engine, long) == "gone", "its time has come");
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_ends_and_one_that_is_watched_does_not() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let start = || StartSession {
        idle_timeout: Some(Duration::from_millis(300)),
        ..of_v1()
    };
    let watched = engine.start_session(&op(), start()).await.unwrap().kernel.id;
    let one = Client::attach(&engine, watched, "one").await;
    let idle = engine.start_session(&op(), start()).await.unwrap().kernel.id;
    assert_eventually!(state(&engine, idle) == "gone", "no client uses it");
    assert_ne!(state(&engine, watched), "gone");
    drop(one);
    assert_eventually!(
        state(&engine, watched) == "gone",
        "no client is attached any more"
    );
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crashed_session_is_dead_until_it_is_used() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = engine.start_session(&op(), of_v1()).await.unwrap().kernel.id;
    let mut one = Client::attach(&engine, id, "one").await;
    one.execute("kill KILL").await;
    until_state(&engine, id, "dead").await;
    let model = engine.kernel(&op(), id).unwrap();
    assert!(model.reason.unwrap().starts_with("signal(9)"));
    assert_eq!(model.incarnation, 1);
    one.reset();
    assert_eq!(one.run("print back").await.content["status"], "ok");
    let model = engine.kernel(&op(), id).unwrap();
    assert_eq!(model.incarnation, 2);
    assert!(model.reason.unwrap().starts_with("restarted after signal(9)"));
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_that_takes_too_long_is_interrupted() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let mut start = of_v1();
    start.limits.execution_ms = Some(300);
    let id = engine.start_session(&op(), start).await.unwrap().kernel.id;
    let mut one = Client::attach(&engine, id, "one").await;
    let reply = one.run("hang").await;
    assert_eq!(reply.content["ename"], "KeyboardInterrupt");
    assert_eq!(one.run("print on").await.content["status"], "ok");
    // One that does not listen is ended, and the next execution starts a new process.
    one.execute("ignore-sigint\nhang").await;
    until_state(&engine, id, "dead").await;
    assert_eq!(
        engine.kernel(&op(), id).unwrap().reason.as_deref(),
        Some("execution_timeout")
    );
    one.reset();
    assert_eq!(one.run("print back").await.content["status"], "ok");
    assert_eq!(engine.kernel(&op(), id).unwrap().incarnation, 2);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_given_is_refused_and_leaves_nothing() {
    let place = TestEngine::with(|config| {
        let template = Template {
            kernelspec: Some("fake".to_owned()),
            limits: SessionLimits {
                memory_bytes: Some(100),
                ..SessionLimits::default()
            },
            ..Template::default()
        };
        config.templates.insert("small".to_owned(), template);
    });
    let engine = place.open().await;
    let mut strong = of_v1();
    strong.isolation = Some(Isolation::Gvisor);
    let mut large = of_v1();
    large.name = Some("small".to_owned());
    large.limits.memory_bytes = Some(101);
    for (start, code, field) in [
        (strong, NotOffered::Isolation, "isolation"),
        (large, NotOffered::Limit, "limits.memory_bytes"),
    ] {
        match engine.start_session(&op(), start).await.unwrap_err() {
            EngineError::NotOffered {
                code: given,
                field: named,
                ..
            } => assert_eq!((given, named), (code, field)),
            other => panic!("{other}"),
        }
    }
    let mut unknown = of_v1();
    unknown.name = Some("unknown".to_owned());
    let error = engine.start_session(&op(), unknown).await.unwrap_err();
    assert!(
        matches!(&error, EngineError::NoSuchTemplate { there, .. } if !there.is_empty()),
        "{error}"
    );
    let mut twice = of_v1();
    twice.env.insert("A".to_owned(), "1".to_owned());
    twice.secrets.0.insert("A".to_owned(), "2".to_owned());
    let error = engine.start_session(&op(), twice).await.unwrap_err();
    assert!(
        matches!(error, EngineError::BadRequest { field: "secrets", .. }),
        "{error}"
    );
    assert!(engine.session_infos(&op()).unwrap().is_empty());
    let templates = engine.templates(&op()).await.unwrap();
    assert_eq!(
        (templates[0].name.as_str(), templates[0].implicit),
        ("small", false)
    );
    assert!(templates.iter().any(|one| one.name == "fake" && one.implicit));
    assert_eq!(engine.provisioners(&op()).unwrap()[0].kind, "local");
    stop(engine).await;
}

#[tokio::test]
async fn a_gateway_without_provisioners_or_with_a_bad_template_does_not_open() {
    let data = tempfile::tempdir().unwrap();
    let config = || himalia_engine::EngineConfig::new(data.path());
    let none = himalia_engine::Engine::open(config(), Provisioners::new(Vec::new())).await;
    assert!(matches!(
        none,
        Err(EngineError::BadRequest {
            field: "provisioners",
            ..
        })
    ));
}

fn named(name: &str) -> StartSession {
    StartSession {
        session_name: Some(name.into()),
        ..of_v1()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_with_a_key_is_one_session_and_outlives_the_gateway() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let principal = op();
    let start = |key: &str| StartSession {
        key: Some(key.into()),
        ..of_v1()
    };
    let (one, other) = tokio::join!(
        engine.put_session(&principal, start("k")),
        engine.put_session(&principal, start("k"))
    );
    let ((one, begun), (other, again)) = (one.unwrap(), other.unwrap());
    assert_eq!(one.kernel.id, other.kernel.id);
    assert!(begun != again, "one of them started it");
    let (another, _) = engine.put_session(&principal, start("l")).await.unwrap();
    assert_ne!(another.kernel.id, one.kernel.id);
    let mut wrong = start("k");
    wrong.labels = [("a".to_owned(), "b".to_owned())].into();
    let refused = engine.put_session(&principal, wrong).await.unwrap_err();
    assert!(matches!(refused, EngineError::KeyReused), "{refused}");
    // A name that another start has is not taken over by a key.
    engine.put_session(&principal, named("eda")).await.unwrap();
    let mut taken = start("m");
    taken.session_name = Some("eda".into());
    let refused = engine.put_session(&principal, taken).await.unwrap_err();
    assert!(matches!(refused, EngineError::Conflict { .. }), "{refused}");
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);

    let engine = place.open().await;
    let (found, begun) = engine.put_session(&principal, start("k")).await.unwrap();
    assert!(!begun && found.kernel.id == one.kernel.id);
    engine.shutdown_kernel(&op(), one.kernel.id).await.unwrap();
    let (fresh, begun) = engine.put_session(&principal, start("k")).await.unwrap();
    assert!(begun && fresh.kernel.id != one.kernel.id);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_one_sessions_and_outlives_the_gateway() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let principal = op();
    let (one, other) = tokio::join!(
        engine.put_session(&principal, named("eda")),
        engine.put_session(&principal, named("eda"))
    );
    let ((one, begun), (other, again)) = (one.unwrap(), other.unwrap());
    assert_eq!(
        (one.kernel.id, one.session.name.as_deref()),
        (other.kernel.id, Some("eda"))
    );
    assert!(begun != again, "one of them started it");
    let id = one.kernel.id;
    let refused = engine.start_session(&op(), named("eda")).await.unwrap_err();
    assert!(matches!(refused, EngineError::Conflict { .. }), "{refused}");
    let mut wrong = named("eda");
    wrong.name = Some("late".into());
    let refused = engine.put_session(&op(), wrong).await.unwrap_err();
    assert!(matches!(refused, EngineError::Conflict { .. }), "{refused}");
    let change = SessionChange {
        labels: [("team".to_owned(), Some("a".to_owned()))].into(),
        idle_timeout: TimeChange::Set(Duration::from_mins(15)),
        lifetime: TimeChange::Keep,
        ..SessionChange::default()
    };
    engine
        .change_session(&op(), SessionId::of_first_kernel(id), change)
        .await
        .unwrap();
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);

    let engine = place.open().await;
    assert_eq!(
        engine.find_session(&op(), "eda").unwrap(),
        SessionId::of_first_kernel(id)
    );
    let info = engine.session_info(&op(), id).unwrap();
    assert_eq!(info.session.labels.get("team").map(String::as_str), Some("a"));
    assert_eq!(info.session.idle_timeout, Some(Duration::from_mins(15)));
    // A Jupyter client leaves it, and its owner ends it: then the name is free.
    engine.release_kernel(&op(), id).await.unwrap();
    assert!(engine.session_info(&op(), id).is_ok());
    engine.shutdown_kernel(&op(), id).await.unwrap();
    assert!(engine.find_session(&op(), "eda").is_err());
    let (fresh, begun) = engine.put_session(&op(), named("eda")).await.unwrap();
    assert!(begun && fresh.kernel.id != id);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_is_asked_and_no_client_sees_it() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = engine.start_session(&op(), of_v1()).await.unwrap().kernel.id;
    let done = engine.complete(&op(), id, "prin", None).await.unwrap();
    assert!(
        done.matches.contains(&"print".to_owned()) && done.cursor_end == 4,
        "{done:?}"
    );
    assert!(!engine.inspect(&op(), id, "x", Some(1), 0).await.unwrap().found);
    // The fake kernel knows nothing of variables, as most kernels.
    let unknown = engine.variables(&op(), id, 0, 100).await.unwrap_err();
    assert!(matches!(unknown, EngineError::Unsupported { .. }), "{unknown}");
    let mut one = Client::attach(&engine, id, "one").await;
    one.execute("kill KILL").await;
    until_state(&engine, id, "dead").await;
    let dead = engine.variables(&op(), id, 0, 100).await.unwrap_err();
    assert!(matches!(dead, EngineError::KernelDead { .. }), "{dead}");
    let history = engine.history(&op(), id, None, 10).await.unwrap();
    let told: Vec<_> = history
        .history
        .iter()
        .map(|entry| (entry.code.as_str(), entry.status))
        .collect();
    assert_eq!(told, [("kill KILL", HistoryStatus::KernelDied)]);
    stop(engine).await;
}

fn below(above: &himalia_engine::SessionInfo) -> StartSession {
    StartSession {
        starter: Some(Box::new(Starter::new(above.id(), &above.session, Some(5)))),
        ..of_v1()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_of_sessions_has_a_depth_and_a_number_also_after_a_gateway_has_gone() {
    let place = TestEngine::with(|config| {
        config.defaults.tree = TreeLimits {
            depth: 2,
            sessions: 2,
        };
    });
    let engine = place.open().await;
    let top = engine.start_session(&op(), of_v1()).await.unwrap();
    assert_eq!((top.session.tree, top.session.depth()), (None, 0));
    let first = engine.start_session(&op(), below(&top)).await.unwrap();
    let second = engine.start_session(&op(), below(&first)).await.unwrap();
    let wanted = TreePlace {
        root: top.id(),
        root_execution: Some(5),
        parent: first.id(),
        depth: 2,
    };
    assert_eq!(second.session.tree, Some(wanted));
    let refused = |error: EngineError| match error {
        EngineError::Tool(error) => error.message,
        other => panic!("{other}"),
    };
    let deep = engine.start_session(&op(), below(&second)).await.unwrap_err();
    assert!(refused(deep).contains("tree_depth"));
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);

    let engine = place.open().await;
    let kept = engine.session_info(&op(), second.kernel.id).unwrap();
    assert_eq!(kept.session.tree, Some(wanted));
    let many = engine.start_session(&op(), below(&top)).await.unwrap_err();
    assert!(refused(many).contains("tree_sessions"));
    engine.shutdown_kernel(&op(), second.kernel.id).await.unwrap();
    engine.start_session(&op(), below(&top)).await.unwrap();
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_good_once_names_one_session_also_after_its_end() {
    let place = TestEngine::with(|config| config.retention.time = Duration::from_hours(1));
    let engine = place.open().await;
    let start = |asked: &str| StartSession {
        session_name: Some("run-1".to_owned()),
        key: Some("k".to_owned()),
        once: Some(asked.to_owned()),
        ..of_v1()
    };
    let first = engine.start_session(&op(), start("a")).await.unwrap();
    let again = engine.start_session(&op(), start("a")).await.unwrap();
    assert_eq!(first.kernel.id, again.kernel.id);
    let other = engine.start_session(&op(), start("b")).await.unwrap_err();
    assert!(matches!(other, EngineError::KeyReused), "{other}");
    engine.shutdown_kernel(&op(), first.kernel.id).await.unwrap();
    for _ in 0..2 {
        match engine.start_session(&op(), start("a")).await.unwrap_err() {
            EngineError::NameEnded { last, .. } => assert_eq!(last.id, first.id()),
            other => panic!("{other}"),
        }
    }
    let other = engine.start_session(&op(), start("b")).await.unwrap_err();
    assert!(matches!(other, EngineError::KeyReused), "{other}");
    stop(engine).await;
}
