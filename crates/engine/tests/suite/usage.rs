//! What owners and callers use, and what an exhausted quota stops.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use himalia_engine::{
    Attach, Drain, Engine, EngineConfig, EngineError, Execute, KernelId, Origin, Principal, Scope,
    StartSession, TenantLimits,
};
use himalia_testkit::patience::Deadline;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, build};
use serde_json::json;

use crate::common::{TestEngine, op, settled, stop, until_state};

fn ada() -> Principal {
    Principal::of_tenant("acme", "ada").unwrap()
}

/// Of a tenant without quotas.
fn eve() -> Principal {
    Principal::of_tenant("other", "eve").unwrap()
}

async fn start(engine: &Engine, principal: &Principal) -> Result<KernelId, EngineError> {
    let start = StartSession {
        name: Some("fake".into()),
        origin: Origin::V1,
        ..StartSession::default()
    };
    let started = engine.start_session(principal, start).await?;
    until_state(engine, started.kernel.id, "idle").await;
    Ok(started.kernel.id)
}

async fn run(engine: &Engine, principal: &Principal, kernel: KernelId) -> Result<(), EngineError> {
    let wanted = Execute {
        code: "result 1".into(),
        ..Execute::default()
    };
    let id = engine.execute(principal, kernel, wanted).await?.id;
    settled(engine, principal, id).await;
    Ok(())
}

fn tight(config: &mut EngineConfig) {
    let limits = TenantLimits {
        cpu_per_day: Some(Duration::from_millis(1)),
        max_kernels: Some(3),
        ..TenantLimits::default()
    };
    config.tenants.insert("acme".into(), limits);
}

#[tokio::test(flavor = "multi_thread")]
async fn processor_time_that_is_used_up_stops_what_begins_also_after_a_restart() {
    let place = TestEngine::with(tight);
    let engine = place.open().await;
    let (kernel, others) = (
        start(&engine, &ada()).await.unwrap(),
        start(&engine, &eve()).await.unwrap(),
    );
    let attach = Attach {
        wire_session: "s".into(),
        after: None,
    };
    let client = engine.attach(&ada(), kernel, attach).await.unwrap();
    // Until the sandbox was measured for the first time.
    let deadline = Deadline::new();
    let error = loop {
        match run(&engine, &ada(), kernel).await {
            Err(error) => break error,
            Ok(()) => assert!(!deadline.is_over(), "nothing was measured"),
        }
        deadline.pause().await;
    };
    let is_exhausted = |error: &EngineError| {
        assert_eq!(error.code(), "quota_exceeded", "{error}");
        let text = error.to_string();
        assert!(text.contains("cpu_seconds_per_day of the tenant acme"), "{text}");
        assert!(text.contains("possible again at 2"), "{text}");
    };
    is_exhausted(&error);
    is_exhausted(&start(&engine, &ada()).await.unwrap_err());
    let content = json!({"code": "result 1", "silent": false});
    let parts = build::message("s", "execute_request", None, &content);
    let frame = Frame::new(Channel::Shell, &parts);
    is_exhausted(&client.requests.send(frame).await.unwrap_err());
    // What runs no code, and other tenants, are as before.
    let frame = Frame::new(Channel::Shell, &build::kernel_info_request("s"));
    client.requests.send(frame).await.unwrap();
    run(&engine, &eve(), others).await.unwrap();

    let usage = engine.usage(&ada(), None).await.unwrap();
    assert_eq!((usage.owner.as_str(), usage.cpu_ms.limit), ("acme", Some(1)));
    assert!(usage.cpu_ms.used >= 1, "{usage:?}");
    assert_eq!((usage.kernels.used, usage.kernels.limit), (1, Some(3)));
    let disk = (usage.disk_live_bytes > 0, usage.disk_limit_bytes);
    assert_eq!(disk, (true, Some(64 << 30)), "{usage:?}");
    assert!(usage.sandbox_memory_bytes.used > 0, "{usage:?}");
    let ran = usage.executions;
    assert!(ran >= 1);
    assert_eq!(usage.callers.len(), 1, "{usage:?}");
    assert_eq!(usage.callers[0].caller, "acme/ada");
    assert_eq!(usage.callers[0].executions, ran);

    drop(client);
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);
    let engine = place.open().await;
    let usage = engine.usage(&op(), Some("acme")).await.unwrap();
    assert!(usage.cpu_ms.used >= 1 && usage.executions == ran, "{usage:?}");
    is_exhausted(&run(&engine, &ada(), kernel).await.unwrap_err());
    stop(engine).await;
}

fn little_memory(config: &mut EngineConfig) {
    let limits = TenantLimits {
        sandbox_memory_bytes: Some(1 << 20),
        ..TenantLimits::default()
    };
    config.tenants.insert("acme".into(), limits);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_sandboxes_stops_the_next_session() {
    let place = TestEngine::with(little_memory);
    let engine = place.open().await;
    let first = start(&engine, &ada()).await.unwrap();
    let error = start(&engine, &ada()).await.unwrap_err();
    assert_eq!(error.code(), "quota_exceeded");
    let text = error.to_string();
    assert!(
        text.starts_with("the quota sandbox_memory of the tenant acme is exhausted: ")
            && text.contains(" of 1048576 bytes are used; it is possible again when"),
        "{text}"
    );
    run(&engine, &ada(), first).await.unwrap();
    engine.shutdown_kernel(&ada(), first).await.unwrap();
    start(&engine, &ada()).await.unwrap();
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_shown_to_whom_it_belongs() {
    let place = TestEngine::with(tight);
    let engine = place.open().await;
    for (who, tenant, wanted) in [
        (ada(), None, Ok("acme")),
        (ada(), Some("acme"), Ok("acme")),
        (ada(), Some("other"), Err("forbidden")),
        (ada(), Some("no-such-tenant"), Err("forbidden")),
        (ada().read_only(), None, Ok("acme")),
        (ada().with_scope(Scope::Admin), Some("operator"), Err("forbidden")),
        (op(), None, Ok("operator")),
        (op(), Some("acme"), Ok("acme")),
        (op(), Some("no-such-tenant"), Err("bad_request")),
    ] {
        let shown = engine.usage(&who, tenant).await;
        let got = shown.as_ref().map(|usage| usage.owner.as_str());
        assert_eq!(got.map_err(EngineError::code), wanted, "{who:?} {tenant:?}");
    }
    let usage = engine.usage(&op(), None).await.unwrap();
    assert_eq!((usage.disk_limit_bytes, usage.requests_per_second), (None, None));
    stop(engine).await;
}
