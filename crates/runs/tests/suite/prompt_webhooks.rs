//! Webhooks of prompts learn what steps of workflows ask: each prompt once, also across gateways, and a new webhook what is open.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use crate::common;

use crate::{open_runs, stop};
use common::{TestEngine, op};
use himalia_engine::{Drain, EngineConfig, Principal, TenantLimits};
use himalia_model::credential::CredentialKeys;
use himalia_runs::{DeliveriesOf, NewTrigger, Runs, StartRun, TriggerKind, WorkflowDefinition};
use himalia_testkit::assert_eventually;
use serde_json::{Map, json};

fn of(tenant: &str) -> Principal {
    Principal::of_tenant(tenant, "ada").unwrap()
}

fn settings(config: &mut EngineConfig) {
    for name in ["acme", "evil"] {
        config.tenants.insert(name.to_owned(), TenantLimits::default());
    }
    config.credentials.keys = Some(CredentialKeys("ab".repeat(32)));
}

async fn open(place: &TestEngine) -> Runs {
    let runs = open_runs(place).await;
    runs.start_triggers(|_| None);
    runs
}

async fn hook(runs: &Runs, name: &str) {
    let new = NewTrigger {
        name: name.to_owned(),
        target: None,
        inputs: Map::new(),
        template: None,
        timeout: None,
        times: None,
        enabled: true,
        callback: Some("http://127.0.0.1:1/prompts".to_owned()),
    };
    runs.create_trigger(&op(), TriggerKind::Prompts, new)
        .await
        .unwrap();
}

/// Starts a run whose steps ask; its id.
async fn ask(runs: &Runs, tenant: &str, steps: usize) -> String {
    let steps: Vec<_> = (0..steps)
        .map(|n| json!({ "id": format!("s{n}"), "approval": { "text": "?" } }))
        .collect();
    let definition = json!({
        "name": "asks", "version": "1.0.0", "description": "d", "inputs": {"type": "object"}, "steps": steps,
    });
    let definition: WorkflowDefinition = serde_json::from_value(definition).unwrap();
    runs.publish_workflow(&of(tenant), definition).await.unwrap();
    let run = runs.run_workflow(&of(tenant), "asks", StartRun::default()).await;
    run.unwrap().id
}

/// The deliveries of prompts to a webhook, by what they tell of.
async fn told(runs: &Runs, name: &str) -> Vec<String> {
    let of = DeliveriesOf::Trigger(TriggerKind::Prompts);
    let all = runs.deliveries(&op(), of, name).await.unwrap();
    all.into_iter().map(|told| told.run).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_prompt_is_told_once_and_a_new_webhook_gets_what_is_open() {
    let place = TestEngine::with(settings);
    let runs = open(&place).await;
    hook(&runs, "people").await;
    let flood = ask(&runs, "evil", 30).await;
    ask(&runs, "acme", 1).await;
    assert_eventually!(told(&runs, "people").await.len() == 31);
    runs.answer_workflow_step(&op(), &flood, "s7", "approve".into())
        .await
        .unwrap();
    hook(&runs, "later").await;
    assert_eventually!(told(&runs, "later").await.len() == 30);

    // The next gateway tells neither of anything again, and of what is new.
    runs.engine().drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(runs);
    let runs = open(&place).await;
    runs.run_workflow(&of("acme"), "asks", StartRun::default())
        .await
        .unwrap();
    for (name, count) in [("people", 32), ("later", 31)] {
        assert_eventually!(told(&runs, name).await.len() >= count);
        let all = told(&runs, name).await;
        assert_eq!(
            (all.len(), all.iter().collect::<BTreeSet<_>>().len()),
            (count, count),
            "{name}"
        );
    }
    stop(runs).await;
}
