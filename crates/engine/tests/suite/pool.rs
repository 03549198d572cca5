//! Kernels that wait, and claims on them.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use std::time::Duration;

use common::{Client, TestEngine, op, state, stop, until_state};
use himalia_engine::{
    Drain, Engine, EngineConfig, KernelId, Origin, PoolConfig, PoolStatus, SessionInfo, StartPath,
    StartSession, Template, ToolServerConfig,
};
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;
use serde_json::json;

fn pooled(config: &mut EngineConfig, name: &str, kernelspec: &str, size: u32) {
    let template = Template {
        kernelspec: Some(kernelspec.to_owned()),
        pool: PoolConfig {
            size,
            max: size,
            max_age: Duration::from_hours(1),
        },
        ..Template::default()
    };
    config.templates.insert(name.to_owned(), template);
}

fn named(name: &str) -> StartSession {
    StartSession {
        name: Some(name.to_owned()),
        ..StartSession::default()
    }
}

fn status(engine: &Engine) -> PoolStatus {
    engine.pools(&op()).unwrap().remove(0)
}

async fn until_ready(engine: &Engine, ready: u32) {
    assert_eventually!(status(engine).ready == ready, "{:?}", status(engine));
}

async fn session(engine: &Engine, start: StartSession) -> SessionInfo {
    within("start", engine.start_session(&op(), start))
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_gets_a_kernel_that_is_ready_and_knows_what_it_was_claimed_with() {
    let place = TestEngine::with(|config| pooled(config, "warm", "late", 1));
    let engine = place.open().await;
    until_ready(&engine, 1).await;
    assert!(
        engine.kernels(&op()).unwrap().is_empty(),
        "kernels without an owner are in no list"
    );
    let id = KernelId::random();
    let mut start = named("warm");
    start.id = Some(id);
    start.cwd = Some(place.data.path().display().to_string());
    start.env.insert("KERNEL_USERNAME".to_owned(), "ada".to_owned());
    start.secrets.0.insert("API_KEY".to_owned(), "hush".to_owned());
    start.labels.insert("team".to_owned(), "a".to_owned());
    assert!(!format!("{start:?}").contains("hush"));
    let info = session(&engine, start).await;
    assert_eq!(
        (
            info.kernel.id,
            info.session.start_path,
            &info.session.start_reason
        ),
        (id, StartPath::Pool, &None)
    );
    assert_eq!(
        (info.session.template.as_str(), info.kernel.incarnation),
        ("warm", 1)
    );
    assert_eq!(info.kernel.execution_state.as_str(), "idle");
    assert!(!format!("{info:?}").contains("hush"));
    let mut one = Client::attach(&engine, id, "one").await;
    for (code, expected) in [
        ("env KERNEL_USERNAME", "ada".to_owned()),
        ("env API_KEY", "hush".to_owned()),
        ("cwd", place.data.path().display().to_string()),
    ] {
        one.reset();
        let request = one.execute(code).await;
        one.finish(&request).await;
        assert!(
            one.output(&request).contains(&expected),
            "{code}: {}",
            one.output(&request)
        );
    }
    until_ready(&engine, 1).await;
    let now = status(&engine);
    assert_eq!((now.hits, now.misses, now.failures), (1, 0, 0));
    // Its row makes it survive, which those that still wait do not.
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop((one, engine));
    let engine = place.open().await;
    until_state(&engine, id, "idle").await;
    let info = engine.session_info(&op(), id).unwrap();
    assert_eq!(
        (info.session.start_path, info.session.labels.len()),
        (StartPath::Pool, 1)
    );
    assert_eq!(engine.kernels(&op()).unwrap().len(), 1);
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_pool_cannot_give_is_started_and_says_why() {
    let place = TestEngine::with(|config| pooled(config, "warm", "late", 1));
    let engine = place.open().await;
    until_ready(&engine, 1).await;
    let mut seeded = named("warm");
    seeded.env.insert("PYTHONHASHSEED".to_owned(), "1".to_owned());
    let mut limited = named("warm");
    limited.limits.open_files = Some(100);
    for (start, why) in [
        (seeded, "PYTHONHASHSEED is read"),
        (limited, "limits.open_files is set when a process starts"),
    ] {
        let info = session(&engine, start).await;
        assert_eq!(info.session.start_path, StartPath::Cold);
        assert!(
            info.session.start_reason.as_ref().unwrap().contains(why),
            "{info:?}"
        );
    }
    assert_eq!(status(&engine).hits, 0);
    let plain = session(&engine, named("fake")).await;
    assert_eq!(
        (plain.session.start_path, plain.session.start_reason),
        (StartPath::Cold, None)
    );
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_can_have_limits_of_its_own() {
    let place = TestEngine::with(|config| pooled(config, "warm", "late", 1));
    let engine = place.open().await;
    until_ready(&engine, 1).await;
    let mut start = named("warm");
    start.limits.memory_bytes = Some(1 << 30);
    start.limits.output_bytes = Some(20 << 20);
    let info = session(&engine, start).await;
    assert_eq!(
        (info.session.start_path, &info.session.start_reason),
        (StartPath::Pool, &None)
    );
    assert_eq!(
        (
            info.session.sandbox.limits.memory_bytes,
            info.session.sandbox.limits.output_bytes
        ),
        (Some(1 << 30), Some(20 << 20))
    );
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_cannot_be_bound_is_not_given_away() {
    let place = TestEngine::with(|config| pooled(config, "warm", "deaf", 1));
    let engine = place.open().await;
    until_ready(&engine, 1).await;
    let info = session(&engine, named("warm")).await;
    assert_eq!(info.session.start_path, StartPath::Cold);
    assert!(info.session.start_reason.unwrap().contains("could not be bound"));
    assert_eq!(engine.kernels(&op()).unwrap().len(), 1);
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_dies_while_it_waits_is_replaced() {
    let place = TestEngine::with(|config| pooled(config, "warm", "late", 1));
    let engine = place.open().await;
    until_ready(&engine, 1).await;
    let run = place.run.path().display().to_string();
    // Those that wait are not in the store: found by the run directory on their command lines.
    let shims = || processes(&run, "himalia-shim");
    let before = shims();
    assert_eq!(before.len(), 1);
    rustix::process::kill_process(before[0], rustix::process::Signal::KILL).unwrap();
    assert_eventually!(
        status(&engine).failures == 1 && status(&engine).ready == 1,
        "{:?}",
        status(&engine)
    );
    assert_ne!(shims(), before);
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_ends_with_the_gateway() {
    let place = TestEngine::with(|config| pooled(config, "warm", "late", 2));
    let engine = place.open().await;
    until_ready(&engine, 2).await;
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_cannot_start_says_so_and_does_not_stand_in_the_way() {
    let place = TestEngine::with(|config| pooled(config, "warm", "missing", 1));
    let engine = place.open().await;
    assert_eventually!(status(&engine).problem.is_some(), "{:?}", status(&engine));
    assert!(
        session(&engine, named("fake"))
            .await
            .session
            .start_reason
            .is_none()
    );
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_kernel_follows_the_rules_of_its_new_owner() {
    let place = TestEngine::with(|config| pooled(config, "warm", "late", 1));
    let engine = place.open().await;
    for (origin, after) in [(Origin::Jupyter, "idle"), (Origin::V1, "dead")] {
        until_ready(&engine, 1).await;
        let mut start = named("warm");
        start.origin = origin;
        let id = session(&engine, start).await.kernel.id;
        let mut one = Client::attach(&engine, id, "one").await;
        one.execute("kill KILL").await;
        assert_eventually!(
            engine.kernel(&op(), id).unwrap().reason.is_some() && state(&engine, id) == after,
            "{origin:?}: {:?}",
            engine.kernel(&op(), id)
        );
    }
    stop(engine).await;
}

fn processes(run: &str, program: &str) -> Vec<rustix::process::Pid> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let mine = all.filter(|process| {
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        command.contains(run)
            && command
                .split('\0')
                .next()
                .is_some_and(|first| first.ends_with(program))
    });
    mine.filter_map(|process| rustix::process::Pid::from_raw(process.file_name().to_str()?.parse().ok()?))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_has_the_tools_that_it_asks_for_and_no_others() {
    let place = TestEngine::with(|config| {
        pooled(config, "warm", "late", 1);
        // Servers that are not there: their tools have names all the same.
        config.tool_servers = ["orders", "stripe"]
            .map(|name| {
                let fields = serde_json::from_value(json!({ "url": "http://127.0.0.1:9/mcp" })).unwrap();
                ToolServerConfig::new(name, fields).unwrap()
            })
            .into();
        let template = config.templates.get_mut("warm").unwrap();
        template.tools.tools = vec!["orders".parse().unwrap(), "stripe".parse().unwrap()];
    });
    let engine = place.open().await;
    until_ready(&engine, 1).await;
    let start = StartSession {
        tools: Some(vec!["orders.list_*".parse().unwrap()]),
        ..named("warm")
    };
    let info = session(&engine, start).await;
    assert_eq!(info.session.start_path, StartPath::Pool);
    let tools: Vec<String> = info
        .session
        .sandbox
        .tools
        .tools
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(tools, ["orders.list_*"]);
    stop(engine).await;
}
