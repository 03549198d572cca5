//! Tests of runs with shims and fake kernels as processes.
//!
//! One program for all files: each would link the whole crate again.

mod audit;
mod callbacks;
#[macro_use]
#[path = "../../../engine/tests/suite/common/mod.rs"]
mod common;
mod costs;
mod drafts;
mod prompt_webhooks;
mod runs;
mod tenants;
mod triggers;
mod webhooks;

use common::TestEngine;
use himalia_runs::Runs;

/// The runs of a new gateway on the data directory of this place.
async fn open_runs(place: &TestEngine) -> Runs {
    Runs::open(place.open().await)
}

/// Ends the gateway.
async fn stop(runs: Runs) {
    let engine = runs.engine().clone();
    drop(runs);
    common::stop(engine).await;
}
