//! Signed messages that start runs.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::{SystemTime, UNIX_EPOCH};

use crate::common;

use common::{TestEngine, stop};
use himalia_engine::{
    CallOrigin, EngineConfig, EngineError, NewTrigger, Principal, RunTarget, TenantLimits, TriggerKind,
    WebhookMessage, WorkflowDefinition,
};
use himalia_model::Share;
use himalia_model::credential::CredentialKeys;
use himalia_schedules::{Secret, SignedMessage};
use serde_json::{Map, json};

/// A caller whose token the gateway knows by its mark.
fn ada() -> Principal {
    let via = CallOrigin {
        mark: Some("mark".to_owned()),
        ..CallOrigin::default()
    };
    Principal::of_tenant("acme", "ada").unwrap().came(via)
}

/// A tenant that may send one request a second, four at once.
fn settings(config: &mut EngineConfig) {
    let share = Share {
        requests_per_second: 1,
        ..Share::default()
    };
    let limits = TenantLimits {
        share,
        ..TenantLimits::default()
    };
    config.tenants.insert("acme".to_owned(), limits);
    config.credentials.keys = Some(CredentialKeys("ab".repeat(32)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_message_counts_as_a_request_of_its_tenant() {
    let place = TestEngine::with(settings);
    let engine = place.open().await;
    engine.start_triggers(|_| Some(ada()));
    let asks = json!({
        "name": "asks", "version": "1.0.0", "description": "d", "inputs": {"type": "object"},
        "steps": [{"id": "sign", "approval": {"text": "Pay?"}}],
    });
    let asks: WorkflowDefinition = serde_json::from_value(asks).unwrap();
    engine.publish_workflow(&ada(), asks).await.unwrap();
    let new = NewTrigger {
        name: "hook".to_owned(),
        target: Some(RunTarget::workflow("asks")),
        inputs: Map::new(),
        template: None,
        timeout: None,
        times: None,
        enabled: true,
        callback: None,
    };
    let (hook, secrets) = engine
        .create_trigger(&ada(), TriggerKind::Webhook, new)
        .await
        .unwrap();
    let secret = Secret::parse(&secrets.incoming.unwrap()).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let (timestamp, body) = (now.to_string(), b"{}".as_slice());
    let mut taken = 0;
    let refused = loop {
        let id = format!("msg_{taken}");
        let signature = secret.sign(SignedMessage {
            id: &id,
            timestamp: &timestamp,
            body,
        });
        let message = WebhookMessage {
            id: &id,
            timestamp: &timestamp,
            signature: &signature,
            body,
        };
        match engine.receive_webhook(hook.id, message).await {
            Ok(run) => assert!(run.is_some(), "it is signed well"),
            Err(error) => break error,
        }
        taken += 1;
    };
    assert!(
        matches!(refused, EngineError::OverBudget { what: "requests", .. }),
        "{refused:?}"
    );
    assert!(taken >= 4, "{taken}");
    stop(engine).await;
}
