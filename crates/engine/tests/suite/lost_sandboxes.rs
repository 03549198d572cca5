//! A session outlives its sandbox: the next use of it starts another one.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use std::time::Duration;

use common::{
    Client, TestEngine, kill_with_shim, lose_while_away, op, parent_of, settled, state, stop, until_state,
};
use himalia_engine::{
    Drain, Engine, EngineError, Execute, ExecutionResult, ExecutionStatus as Status, KernelId, NewKernel,
    Origin, Principal, SandboxLoss, Secrets, SessionId, SessionInfo, StartSession, TenantLimits,
};
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;

fn named(name: &str) -> StartSession {
    StartSession {
        origin: Origin::V1,
        session_name: Some(name.into()),
        env: [("PLAIN".to_owned(), "kept".to_owned())].into(),
        secrets: Secrets([("HIDDEN".to_owned(), "hush".to_owned())].into()),
        ..StartSession::default()
    }
}

async fn put(engine: &Engine, name: &str) -> (SessionInfo, bool) {
    let principal = op();
    within("PUT", engine.put_session(&principal, named(name)))
        .await
        .unwrap()
        .unwrap()
}

fn code(code: &str) -> Execute {
    Execute {
        code: code.into(),
        ..Execute::default()
    }
}

async fn run(engine: &Engine, kernel: KernelId, wanted: Execute) -> ExecutionResult {
    let principal = op();
    let taken = within("the order", engine.execute(&principal, kernel, wanted))
        .await
        .unwrap();
    let id = taken.unwrap().id;
    settled(engine, &op(), id).await
}

/// An engine with one session, `eda`, whose kernel is there.
async fn begun(place: &TestEngine) -> (Engine, KernelId) {
    let engine = place.open().await;
    let id = put(&engine, "eda").await.0.kernel.id;
    until_state(&engine, id, "idle").await;
    (engine, id)
}

async fn pid_of(engine: &Engine, kernel: KernelId) -> i32 {
    let said = run(engine, kernel, code("pid")).await;
    said.text.trim().parse().unwrap()
}

/// Ends the kernel and its shim, while the gateway looks.
async fn lose(engine: &Engine, kernel: KernelId) {
    kill_with_shim(pid_of(engine, kernel).await);
    until_state(engine, kernel, "dead").await;
}

/// Tells the sandbox to end, as a container engine does that stops, or a host that goes down.
async fn end_from_outside(engine: &Engine, kernel: KernelId) {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = pid_of(engine, kernel).await;
    kill_process(Pid::from_raw(parent_of(pid)).unwrap(), Signal::TERM).unwrap();
    until_state(engine, kernel, "dead").await;
}

/// Everything in the store, as text.
fn stored(place: &TestEngine) -> String {
    let files = std::fs::read_dir(place.data.path()).unwrap();
    let bytes = files.filter_map(|file| std::fs::read(file.unwrap().path()).ok());
    bytes
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .collect()
}

fn incarnation(engine: &Engine, kernel: KernelId) -> u32 {
    engine.kernel(&op(), kernel).unwrap().incarnation
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_execution_starts_another_sandbox() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = put(&engine, "eda").await.0.kernel.id;
    let before = run(&engine, id, code("set x 1\nprint first")).await;
    lose(&engine, id).await;

    let after = run(&engine, id, code("env PLAIN\nget x")).await;
    assert_eq!((after.status, after.kernel.incarnation), (Status::Error, 2));
    assert_eq!(
        after.text, "kept\n",
        "with the variables that it was started with"
    );
    let replaced = after.kernel.replaced.clone().unwrap();
    assert_eq!(replaced.incarnation, 1);
    assert!(replaced.cause.unwrap().starts_with("sandbox_lost"));
    assert_eq!(incarnation(&engine, id), 2);

    // The log continues, in one order.
    assert!(after.id.seq > before.id.seq);
    assert_eq!(engine.execution(&op(), before.id).await.unwrap().text, "first\n");
    let all = engine.executions(&op(), id).await.unwrap();
    assert_eq!(all.len(), 3, "{all:?}");
    // What was lost is said once.
    let next = run(&engine, id, code("print on")).await;
    assert_eq!((next.text.as_str(), next.kernel.replaced), ("on\n", None));
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_is_ended_from_outside_ends_no_session() {
    let place = TestEngine::new();
    let (engine, id) = begun(&place).await;
    end_from_outside(&engine, id).await;
    let reason = engine.kernel(&op(), id).unwrap().reason.unwrap();
    assert!(reason.starts_with("sandbox_lost: "), "{reason}");
    assert!(reason.ends_with("it was ended from outside"), "{reason}");

    let after = run(&engine, id, code("print back")).await;
    assert_eq!((after.text.as_str(), after.kernel.incarnation), ("back\n", 2));
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_never_that_of_a_dead_session() {
    let place = TestEngine::new();
    let (engine, id) = begun(&place).await;
    lose(&engine, id).await;
    let (session, started) = put(&engine, "eda").await;
    assert_eq!((session.kernel.id, started), (id, false));
    assert_eq!(session.kernel.incarnation, 2);
    until_state(&engine, id, "idle").await;

    // Also one whose sandbox lives.
    let dies = engine.execute(&op(), id, code("kill KILL")).await;
    dies.unwrap();
    until_state(&engine, id, "dead").await;
    let (session, _) = put(&engine, "eda").await;
    assert_eq!((session.kernel.id, session.kernel.incarnation), (id, 3));
    let done = run(&engine, id, code("print on")).await;
    assert!(
        done.kernel
            .replaced
            .unwrap()
            .cause
            .unwrap()
            .starts_with("signal(9)")
    );
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_finds_no_sandbox_starts_another_one() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = put(&engine, "eda").await.0.kernel.id;
    let wanted = Execute {
        key: Some("once".into()),
        ..code("pid")
    };
    let first = run(&engine, id, wanted.clone()).await;
    let pid: i32 = first.text.trim().parse().unwrap();
    let engine = lose_while_away(&place, engine, id, pid).await;
    // Who counts on the variables is refused, and what was answered before is answered again.
    let counts = Execute {
        expect_incarnation: Some(1),
        ..code("print never")
    };
    let refused = engine.execute(&op(), id, counts).await.unwrap_err();
    assert!(
        matches!(
            refused,
            EngineError::IncarnationMismatch {
                expected: 1,
                incarnation: 2
            }
        ),
        "{refused}"
    );
    let again = engine.execute(&op(), id, wanted).await.unwrap();
    assert_eq!((again.id, again.repeated), (first.id, true));
    assert_eq!(state(&engine, id), "dead", "neither needs a sandbox");

    let expects = Execute {
        expect_incarnation: Some(2),
        ..code("print back")
    };
    let back = run(&engine, id, expects).await;
    assert_eq!((back.text.as_str(), back.kernel.incarnation), ("back\n", 2));

    // The next gateway takes over the new sandbox, and the one after the next one finds it lost again.
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);
    let engine = place.open().await;
    until_state(&engine, id, "idle").await;
    assert_eq!(run(&engine, id, code("print still")).await.kernel.incarnation, 2);
    lose(&engine, id).await;
    assert_eq!(run(&engine, id, code("print third")).await.kernel.incarnation, 3);
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_and_a_jupyter_client_start_another_sandbox_too() {
    let place = TestEngine::new();
    let (engine, id) = begun(&place).await;
    let mut client = Client::attach(&engine, id, "one").await;
    client.run("print first").await;
    lose(&engine, id).await;
    client
        .until("dead", |seen| seen.content["execution_state"] == "dead")
        .await;
    let principal = op();
    let restarted = within("restart", engine.restart_kernel(&principal, id))
        .await
        .unwrap();
    assert_eq!(restarted.unwrap().incarnation, 2);
    client
        .until("restarting", |seen| {
            seen.content["execution_state"] == "restarting"
        })
        .await;
    assert_eq!(client.run("print second").await.content["status"], "ok");

    lose(&engine, id).await;
    let reply = client.run("print third").await;
    assert_eq!(reply.content["status"], "ok");
    assert_eq!(incarnation(&engine, id), 3);
    drop(client);
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_order_or_its_times_end_it() {
    let place = TestEngine::with(|config| config.retention.time = Duration::from_millis(1));
    let (engine, id) = begun(&place).await;
    lose(&engine, id).await;
    let done = engine.collect(&op(), false).await.unwrap();
    assert!(done.sessions.is_empty(), "{done:?}");
    assert_eq!(run(&engine, id, code("print on")).await.text, "on\n");

    // Idle for too long, it ends as any other does.
    lose(&engine, id).await;
    let change = himalia_engine::SessionChange {
        idle_timeout: himalia_engine::TimeChange::Set(Duration::from_millis(1)),
        ..himalia_engine::SessionChange::default()
    };
    engine
        .change_session(&op(), SessionId::of_first_kernel(id), change)
        .await
        .unwrap();
    assert_eventually!(state(&engine, id) == "gone", "its time is over");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_find_one_sandbox() {
    let place = TestEngine::with(|config| config.max_kernels = 1);
    let (engine, id) = begun(&place).await;
    lose(&engine, id).await;
    // It keeps its place: no other session gets it meanwhile.
    let other = engine
        .start_kernel(&op(), StartSession::default())
        .await
        .unwrap_err();
    assert!(matches!(other, EngineError::KernelLimit { .. }), "{other}");
    let (one, two, three, four) = tokio::join!(
        run(&engine, id, code("pid")),
        run(&engine, id, code("pid")),
        put(&engine, "eda"),
        put(&engine, "eda")
    );
    assert_eq!(one.text, two.text);
    assert!(!one.text.is_empty());
    assert_eq!((three.0.kernel.id, four.0.kernel.id), (id, id));
    assert_eq!(incarnation(&engine, id), 2);
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_reads_starts_no_sandbox() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let ada = Principal::of_tenant("acme", "ada").unwrap();
    let reader = Principal::of_tenant("acme", "eye").unwrap().read_only();
    let session = engine.start_session(&ada, named("eda")).await.unwrap();
    let id = session.kernel.id;
    until_state(&engine, id, "idle").await;
    assert!(engine.list_files(&reader, id, "", 1, 10, None).await.is_ok());
    lose(&engine, id).await;
    let refused = [
        engine.list_files(&reader, id, "", 1, 10, None).await.err(),
        engine.read_file(&reader, id, "x", None).await.err(),
        engine.read_archive(&reader, id, "").await.err(),
    ];
    for error in refused {
        assert!(matches!(error, Some(EngineError::Forbidden { .. })), "{error:?}");
    }
    assert_eq!(
        (state(&engine, id).as_str(), incarnation(&engine, id)),
        ("dead", 1)
    );
    // A principal that may do more starts it, and then it can be read again.
    engine.list_files(&ada, id, "", 1, 10, None).await.unwrap();
    engine.list_files(&reader, id, "", 1, 10, None).await.unwrap();
    assert_eq!(incarnation(&engine, id), 2);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_sandbox_is_a_start_in_the_budgets() {
    let mut place = TestEngine::new();
    let engine = place.open().await;
    let ada = Principal::of_tenant("acme", "ada").unwrap();
    let mut ids = Vec::new();
    for at in 0..8 {
        let name = format!("s{at}");
        let id = engine.start_session(&ada, named(&name)).await.unwrap().kernel.id;
        until_state(&engine, id, "idle").await;
        lose(&engine, id).await;
        ids.push(id);
    }
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);

    // No disk has that much room.
    place.change = |config| config.min_free_bytes = u64::MAX;
    let engine = place.open().await;
    let refused = engine.execute(&ada, ids[0], code("print x")).await.unwrap_err();
    assert!(matches!(refused, EngineError::DiskFull { .. }), "{refused:?}");
    assert_eq!(state(&engine, ids[0]), "dead");
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);

    place.change = |config| {
        let mut limits = TenantLimits::default();
        limits.share.starts_per_second = 1;
        config.tenants.insert("acme".into(), limits);
    };
    let engine = place.open().await;
    // At once more than four seconds of the rate; whichever request it is that starts a session.
    let mut orders = tokio::task::JoinSet::new();
    for id in ids {
        let (engine, ada) = (engine.clone(), ada.clone());
        orders.spawn(async move { engine.execute(&ada, id, code("print x")).await });
    }
    let answers = orders.join_all().await;
    let refused = answers.iter().filter_map(|answer| answer.as_ref().err());
    let refused: Vec<_> = refused.collect();
    let over = |error: &&EngineError| matches!(error, EngineError::OverBudget { what: "starts", .. });
    assert!(!refused.is_empty() && refused.iter().all(over), "{answers:?}");
    assert!(answers.len() - refused.len() >= 4, "{answers:?}");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_had_again_is_named() {
    let place = TestEngine::new();
    let (engine, id) = begun(&place).await;
    assert!(!stored(&place).contains("hush"), "secrets are stored nowhere");
    let second = engine
        .start_session_kernel(&op(), SessionId::of_first_kernel(id), NewKernel::default())
        .await;
    let second = second.unwrap().kernel.id;
    until_state(&engine, second, "idle").await;
    lose(&engine, id).await;
    let done = run(&engine, id, code("print on")).await;
    let expected = SandboxLoss {
        // Without a sandbox's walls the files are the host's.
        files: false,
        secrets: vec!["HIDDEN".into()],
        kernels: vec![second.to_string()],
        branches: Vec::new(),
    };
    assert_eq!(done.kernel.replaced.unwrap().sandbox_lost, Some(expected));
    assert_eq!(state(&engine, second), "gone", "its sandbox is gone");

    // It stays in the log until a client learns of it: here by the next gateway.
    let third = engine
        .start_session_kernel(&op(), SessionId::of_first_kernel(id), NewKernel::default())
        .await;
    let third = third.unwrap().kernel.id;
    lose(&engine, id).await;
    put(&engine, "eda").await;
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);
    let engine = place.open().await;
    until_state(&engine, id, "idle").await;
    let done = run(&engine, id, code("env HIDDEN")).await;
    let lost = done.kernel.replaced.unwrap().sandbox_lost.unwrap();
    assert_eq!(lost.kernels, [third.to_string()]);
    assert!(lost.secrets.is_empty(), "PUT gave them again: {lost:?}");
    assert_eq!(done.text, "hush\n");
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}
