//! Branches: kernels that share a sandbox.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use common::{Client, TestEngine, op, state, stop, until_state};
use himalia_engine::{
    Branch, Drain, Engine, EngineError, ForkError, ForkFiles, ForkKernel, ForkPolicy, KernelId, SessionId,
    StartPath, StartSession,
};
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;

fn forks(count: u32) -> ForkKernel {
    ForkKernel {
        count,
        policy: ForkPolicy::Report,
        files: ForkFiles::Share,
        ..ForkKernel::default()
    }
}

async fn start(engine: &Engine, name: &str) -> KernelId {
    let start = StartSession {
        name: Some(name.to_owned()),
        ..StartSession::default()
    };
    let id = engine.start_kernel(&op(), start).await.unwrap().id;
    until_state(engine, id, "idle").await;
    id
}

async fn fork(
    engine: &Engine,
    id: KernelId,
    forks: ForkKernel,
) -> Result<Vec<Result<Branch, EngineError>>, EngineError> {
    within("fork", engine.fork_kernel(&op(), id, forks))
        .await
        .unwrap()
}

async fn value(engine: &Engine, id: KernelId, client: &str) -> String {
    let mut one = Client::attach(engine, id, client).await;
    let request = one.execute("get x").await;
    one.finish(&request).await;
    one.output(&request).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_have_the_variables_and_go_their_own_ways() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine, "late").await;
    Client::attach(&engine, id, "one").await.run("set x 1").await;
    let made = fork(&engine, id, forks(2)).await.unwrap();
    let branches: Vec<Branch> = made.into_iter().map(Result::unwrap).collect();
    assert_eq!(branches.len(), 2);
    for branch in &branches {
        let session = &branch.session;
        assert_eq!(
            (session.session.parent, session.session.start_path),
            (Some(SessionId::of_first_kernel(id)), StartPath::Fork)
        );
        assert_eq!(branch.hazards[0].kind, "native-thread");
        assert_eq!(value(&engine, session.kernel.id, "two").await, "1");
    }
    let (first, second) = (branches[0].session.kernel.id, branches[1].session.kernel.id);
    Client::attach(&engine, first, "three").await.run("set x 2").await;
    assert_eq!(value(&engine, first, "four").await, "2");
    assert_eq!(value(&engine, id, "four").await, "1");
    assert_eq!(value(&engine, second, "four").await, "1");
    assert_eq!(engine.kernels(&op()).unwrap().len(), 3);

    // The parent goes, the sandbox stays for its branches; it ends with the last of them.
    within("parent's end", engine.shutdown_kernel(&op(), id))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(value(&engine, first, "five").await, "2");
    within("first's end", engine.shutdown_kernel(&op(), first))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(value(&engine, second, "six").await, "1");
    within("last's end", engine.shutdown_kernel(&op(), second))
        .await
        .unwrap()
        .unwrap();
    assert_eventually!(place.is_clean(), "something is left");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_outlive_the_gateway() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let id = start(&engine, "late").await;
    Client::attach(&engine, id, "one").await.run("set x 1").await;
    let branch = fork(&engine, id, forks(1)).await.unwrap().remove(0).unwrap();
    let branch = branch.session.kernel.id;
    Client::attach(&engine, branch, "two").await.run("set x 2").await;
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);
    let engine = place.open().await;
    until_state(&engine, id, "idle").await;
    until_state(&engine, branch, "idle").await;
    assert_eq!(
        engine.session_info(&op(), branch).unwrap().session.parent,
        Some(SessionId::of_first_kernel(id))
    );
    assert_eq!(value(&engine, id, "three").await, "1");
    assert_eq!(value(&engine, branch, "three").await, "2");
    // Also a new one, in the sandbox of an earlier gateway.
    let third = fork(&engine, branch, forks(1)).await.unwrap().remove(0).unwrap();
    assert_eq!(value(&engine, third.session.kernel.id, "four").await, "2");
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_why_and_leaves_nothing() {
    let place = TestEngine::new();
    let engine = place.open().await;
    for (name, expected) in [("busy", ForkError::Busy), ("hazardous", ForkError::Hazard)] {
        let id = start(&engine, name).await;
        for atomic in [false, true] {
            let forks = ForkKernel { atomic, ..forks(3) };
            let result = fork(&engine, id, forks).await;
            let error = if atomic {
                result.unwrap_err()
            } else {
                let mut tried = result.unwrap();
                assert_eq!(tried.len(), 1, "after a failure no other one is tried");
                tried.remove(0).unwrap_err()
            };
            match error {
                EngineError::Fork { code, hazards, .. } => {
                    assert_eq!(
                        (code, hazards.is_empty()),
                        (expected, expected == ForkError::Busy)
                    );
                }
                other => panic!("{other}"),
            }
        }
        assert_eq!(state(&engine, id), "idle");
        engine.shutdown_kernel(&op(), id).await.unwrap();
    }
    for count in [0, 17] {
        let id = start(&engine, "late").await;
        let error = fork(&engine, id, forks(count)).await.unwrap_err();
        assert!(
            matches!(error, EngineError::BadRequest { field: "count", .. }),
            "{error}"
        );
    }
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_or_none() {
    let place = TestEngine::with(|config| config.max_kernels = 3);
    let engine = place.open().await;
    let id = start(&engine, "late").await;
    let atomic = ForkKernel {
        atomic: true,
        ..forks(3)
    };
    let error = fork(&engine, id, atomic).await.unwrap_err();
    assert!(
        matches!(error, EngineError::KernelLimit { limit: 3, .. }),
        "{error}"
    );
    assert_eq!(
        engine.kernels(&op()).unwrap().len(),
        1,
        "those that were made are ended"
    );
    let some = fork(&engine, id, forks(3)).await.unwrap();
    assert_eq!(some.iter().filter(|one| one.is_ok()).count(), 2);
    assert!(some[2].is_err());
    stop(engine).await;
}
