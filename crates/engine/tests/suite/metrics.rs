//! What the gateway counts, with a scripted kernel.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use std::os::unix::fs::PermissionsExt as _;

use common::{TestEngine, op, settled, start, stop};
use himalia_engine::{Execute, Metrics, Principal};

fn value(metrics: &Metrics, series: &str) -> f64 {
    metrics
        .value(series)
        .unwrap_or_else(|| panic!("{series} is not there"))
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_executions_bytes_and_calls_of_the_store_are_counted() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let kernel = start(&engine).await;
    for (code, outcome) in [("print hello", "ok"), ("error ValueError no", "error")] {
        let wanted = Execute {
            code: code.into(),
            ..Execute::default()
        };
        let done = settled(
            &engine,
            &op(),
            engine.execute(&op(), kernel, wanted).await.unwrap().id,
        )
        .await;
        assert!(done.ran);
        let series = format!("himalia_executions_total{{outcome=\"{outcome}\"}}");
        // The result is in the log a moment before it is counted.
        himalia_testkit::assert_eventually!(engine.counted().value(&series) == Some(1.0));
    }
    let text = engine.metrics(&op()).unwrap();
    let metrics = engine.counted();
    for (series, wanted) in [
        ("himalia_start_seconds_count{path=\"cold\"}", 1.0),
        ("himalia_start_failures_total{source=\"session\"}", 0.0),
        ("himalia_execution_queue_seconds_count", 2.0),
        ("himalia_execution_seconds_count", 2.0),
        ("himalia_store_seconds_count{operation=\"insert_kernel\"}", 1.0),
        ("himalia_sessions{state=\"live\"}", 1.0),
        ("himalia_kernels{state=\"dead\"}", 0.0),
        ("himalia_gaps_total{kind=\"dropped\"}", 0.0),
        ("himalia_ready", 1.0),
    ] {
        assert_eq!(
            value(metrics, series).to_bits(),
            f64::to_bits(wanted),
            "{series}\n{text}"
        );
    }
    for series in [
        "himalia_kernel_bytes_total{direction=\"in\"}",
        "himalia_kernel_bytes_total{direction=\"out\"}",
        "himalia_journal_append_seconds_count",
        "himalia_data_dir_free_bytes",
    ] {
        assert!(value(metrics, series) > 0.0, "{series}");
    }
    // Whatever was done, nothing of it is named.
    assert!(!text.contains(&kernel.to_string()));
    let tenant = Principal::of_tenant("acme", "ada").unwrap();
    assert_eq!(engine.metrics(&tenant).unwrap_err().code(), "forbidden");
    assert!(engine.metrics(&op().read_only()).is_ok());
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_is_counted() {
    let place = TestEngine::new();
    let scripts = tempfile::tempdir().unwrap();
    let script = scripts.path().join("broken");
    std::fs::write(&script, "#!/does/not/exist\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let spec =
        serde_json::json!({ "argv": [script, "{connection_file}"], "display_name": "x", "language": "x" });
    place.kernelspec("broken", &spec);
    let engine = place.open().await;
    let wanted = himalia_engine::StartSession {
        name: Some("broken".into()),
        ..himalia_engine::StartSession::default()
    };
    engine.start_kernel(&op(), wanted).await.unwrap_err();
    let failures = engine
        .counted()
        .value("himalia_start_failures_total{source=\"session\"}");
    assert_eq!(failures, Some(1.0));
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_ready_until_it_drains() {
    let place = TestEngine::new();
    let engine = place.open().await;
    assert_eq!(engine.not_ready().await, Vec::<String>::new());
    let checks = || {
        engine
            .counted()
            .value("himalia_store_seconds_count{operation=\"check\"}")
    };
    assert_eq!(checks(), Some(1.0));
    stop(engine.clone()).await;
    assert_eq!(engine.not_ready().await, ["draining"]);
    assert_eq!(checks(), Some(1.0), "nothing is asked of a store that is closed");
}
