//! Drafts of skills within the memory of a tenant.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use crate::{open_runs, stop};
use common::{TestEngine, settled};
use himalia_engine::{EngineError, Execute, KernelId, Principal, Share, StartSession, TenantLimits};
use himalia_runs::{Draft, Runs};
use serde_json::json;

/// Bytes of code: half of the memory of the tenant.
const LONG: usize = 100_000;

fn ada() -> Principal {
    Principal::of_tenant("acme", "ada").unwrap()
}

/// Runs code; the number of its cell.
async fn run(runs: &Runs, kernel: KernelId, code: String) -> u64 {
    let code = Execute {
        code,
        ..Execute::default()
    };
    let id = runs.engine().execute(&ada(), kernel, code).await.unwrap().id;
    settled(runs.engine(), &ada(), id).await;
    let history = runs.engine().history(&ada(), kernel, None, 10).await.unwrap();
    history.history.last().unwrap().seq
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_takes_memory_of_its_tenant() {
    let place = TestEngine::with(|config| {
        let share = Share {
            memory_bytes: 2 * LONG as u64,
            ..Share::default()
        };
        let limits = TenantLimits {
            share,
            ..TenantLimits::default()
        };
        config.tenants.insert("acme".to_owned(), limits);
    });
    let fake = himalia_testkit::binaries::fake_kernel().unwrap();
    place.kernelspec(
        "fake",
        &json!({"argv": [fake, "-f", "{connection_file}"], "display_name": "Fake", "language": "python"}),
    );
    let runs = open_runs(&place).await;
    let started = runs.engine().start_kernel(&ada(), StartSession::default()).await;
    let kernel = started.unwrap().id;
    // What is read of the log later is read without a part of the memory.
    run(&runs, kernel, "x = 1".to_owned()).await;
    let long = run(&runs, kernel, format!("y = '{}'", "y".repeat(LONG))).await;
    let wanted = Draft {
        name: "mine".to_owned(),
        description: "d".to_owned(),
        ..Draft::default()
    };
    // An answer that is being sent.
    let sent = runs.engine().script(&ada(), kernel).await.unwrap();
    let refused = runs.draft_skill(&ada(), kernel, &[long], wanted.clone()).await;
    let refused = refused.map(|skill| skill.digest().to_owned());
    assert!(
        matches!(refused, Err(EngineError::OverBudget { what: "memory", .. })),
        "{refused:?}"
    );
    drop(sent);
    let drafted = runs.draft_skill(&ada(), kernel, &[long], wanted).await.unwrap();
    assert_eq!(drafted.manifest().name, "mine");
    // It holds nothing afterwards.
    let uses = runs.engine().budgets(&Principal::operator()).unwrap();
    let mine = uses.iter().find(|one| one.owner == "acme").unwrap();
    assert_eq!(mine.memory_bytes, 0);
    stop(runs).await;
}
