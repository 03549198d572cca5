//! Callbacks of runs of workflows that a client starts. Their step asks a person, so that they need no kernels. No server is where they are
//! posted: an attempt that has failed tells that the run was seen to end.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::{Arc, Mutex};

use crate::common;

use common::{TestEngine, op, stop};
use himalia_engine::{
    DeliveriesOf, DeliveryInfo, DeliveryState, Drain, Engine, EngineConfig, EngineError, MissedPolicy,
    NewTrigger, Overlap, Principal, RunFilter, RunTarget, Runnable, Scope, StartRun, StartedRun,
    TenantLimits, Times, TriggerChange, TriggerKind, WorkflowDefinition,
};
use himalia_model::credential::CredentialKeys;
use himalia_testkit::assert_eventually;
use serde_json::{Map, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const URL: &str = "http://127.0.0.1:1/results";
/// As every caller sees it.
const SHOWN: &str = "http://127.0.0.1:1/…";

fn ada() -> Principal {
    Principal::of_tenant("acme", "ada").unwrap()
}

/// Of another tenant, with a name that the first has too.
fn eve() -> Principal {
    Principal::of_tenant("evil", "ada").unwrap()
}

fn signs() -> WorkflowDefinition {
    let definition = json!({
        "name": "signs", "version": "1.0.0", "description": "d", "inputs": {"type": "object"},
        "steps": [{"id": "sign", "approval": {"text": "Pay?", "options": ["yes", "no"]}, "inputs": {}}],
        "outputs": {"by": {"from": "steps.sign.outputs.by"}},
    });
    serde_json::from_value(definition).unwrap()
}

fn tenants(config: &mut EngineConfig) {
    for name in ["acme", "evil"] {
        config.tenants.insert(name.to_owned(), TenantLimits::default());
    }
}

fn with_key(config: &mut EngineConfig) {
    tenants(config);
    config.credentials.keys = Some(CredentialKeys("ab".repeat(32)));
}

async fn open(place: &TestEngine) -> Engine {
    let engine = place.open().await;
    // No token counts any more: a run continues without that of its caller.
    engine.start_triggers(|_| None);
    engine
}

fn start(key: Option<&str>, callback: Option<&str>) -> StartRun {
    StartRun {
        key: key.map(str::to_owned),
        callback: callback.map(str::to_owned),
        ..StartRun::default()
    }
}

async fn begin(engine: &Engine, wanted: StartRun) -> Result<StartedRun, EngineError> {
    engine.run_workflow(&ada(), "signs", wanted).await
}

async fn deliveries(engine: &Engine, run: &str) -> Vec<DeliveryInfo> {
    let found = engine.deliveries(&ada(), DeliveriesOf::Run, run).await;
    found.unwrap()
}

async fn count_runs(engine: &Engine) -> usize {
    let filter = RunFilter {
        limit: 100,
        ..RunFilter::default()
    };
    engine.runs(&ada(), filter).await.unwrap().runs.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_follows_its_run_across_gateways() {
    let place = TestEngine::with(with_key);
    let engine = open(&place).await;
    engine.publish_workflow(&ada(), signs()).await.unwrap();
    let first = begin(&engine, start(Some("k"), Some(URL))).await.unwrap();
    let secret = first.callback_secret.clone().unwrap();
    assert!(first.is_new && secret.0.starts_with("whsec_"));
    assert!(!format!("{first:?}").contains(&secret.0));
    // The same start again is the same run and the same secret; with another callback, or none, it is another start.
    let again = begin(&engine, start(Some("k"), Some(URL))).await.unwrap();
    assert!(!again.is_new);
    assert_eq!((&again.id, again.callback_secret), (&first.id, Some(secret)));
    for other in [None, Some("http://127.0.0.1:1/others")] {
        let reused = begin(&engine, start(Some("k"), other)).await;
        assert!(matches!(reused, Err(EngineError::KeyReused)), "{reused:?}");
    }
    assert_eq!(deliveries(&engine, &first.id).await, []);
    assert_eq!(count_runs(&engine).await, 1);
    // It is no trigger that is listed.
    for kind in [TriggerKind::Schedule, TriggerKind::Webhook, TriggerKind::Prompts] {
        assert_eq!(engine.triggers(&op(), kind).await.unwrap(), []);
    }

    // The next gateway follows it.
    assert_eventually!(engine.open_prompts(&op(), None, 10).await.unwrap().prompts.len() == 1);
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);
    let engine = open(&place).await;
    engine
        .answer_workflow_step(&op(), &first.id, "sign", "yes".into())
        .await
        .unwrap();
    assert_eventually!(
        deliveries(&engine, &first.id)
            .await
            .first()
            .is_some_and(|told| !told.attempts.is_empty())
    );
    let [told] = deliveries(&engine, &first.id).await.try_into().unwrap();
    assert_eq!(
        (told.run.as_str(), told.url.as_str(), told.state),
        (first.id.as_str(), SHOWN, DeliveryState::Pending)
    );
    assert_eq!(told.attempts.first().unwrap().status, None);

    // Another tenant has neither.
    let seen = engine.deliveries(&eve(), DeliveriesOf::Run, &first.id).await;
    assert!(
        matches!(seen, Err(EngineError::NotFound { what: "Run", .. })),
        "{seen:?}"
    );
    let retried = engine.redeliver(&eve(), &told.id.to_string()).await;
    assert!(
        matches!(retried, Err(EngineError::NotFound { what: "Delivery", .. })),
        "{retried:?}"
    );
    let seen = engine.deliveries(&op(), DeliveriesOf::Run, &first.id).await;
    assert_eq!(seen.unwrap().len(), 1);
    // The id of a run names it alone.
    let id = uuid_of(&first.id);
    for text in [&id, "run_x", "exe_x", "", &format!("run_{id}")] {
        let found = engine.deliveries(&ada(), DeliveriesOf::Run, text).await;
        assert!(
            matches!(found, Err(EngineError::NotFound { what: "Run", .. })),
            "{text}: {found:?}"
        );
        let found = engine.trigger(&op(), TriggerKind::Webhook, text).await;
        assert!(matches!(found, Err(EngineError::NotFound { .. })), "{found:?}");
    }
    // A run without a callback has no secret and no deliveries, and another tenant has no such run.
    let plain = begin(&engine, start(None, None)).await.unwrap();
    assert_eq!(plain.callback_secret, None);
    assert_eq!(deliveries(&engine, &plain.id).await, []);
    let found = engine.deliveries(&eve(), DeliveriesOf::Run, &plain.id).await;
    assert!(matches!(found, Err(EngineError::NotFound { .. })), "{found:?}");
    stop(engine).await;
}

fn uuid_of(run: &str) -> String {
    let digits = run.trim_start_matches("run_");
    uuid::Uuid::try_parse(digits).unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_is_shown_without_its_path() {
    let place = TestEngine::with(with_key);
    let engine = open(&place).await;
    let maker = ada().with_scope(Scope::Admin);
    engine.publish_workflow(&maker, signs()).await.unwrap();
    let new = |kind: TriggerKind, url: &str| NewTrigger {
        name: "w".to_owned(),
        target: (kind != TriggerKind::Prompts).then(|| RunTarget {
            what: Runnable::Workflow("signs".to_owned()),
            version: None,
        }),
        inputs: Map::new(),
        template: None,
        timeout: None,
        times: (kind == TriggerKind::Schedule).then(|| Times {
            cron: "0 0 1 1 *".to_owned(),
            time_zone: "UTC".to_owned(),
            missed: MissedPolicy::default(),
            overlap: Overlap::default(),
        }),
        enabled: true,
        callback: Some(url.to_owned()),
    };
    for kind in [TriggerKind::Schedule, TriggerKind::Webhook, TriggerKind::Prompts] {
        let wrong = new(kind, "ftp://127.0.0.1:1/services/hidden");
        let refused = engine.create_trigger(&maker, kind, wrong).await.unwrap_err();
        assert!(matches!(refused, EngineError::BadRequest { .. }), "{refused:?}");
        assert!(
            !format!("{refused} {refused:?}").contains("hidden"),
            "{refused:?}"
        );
        let wanted = new(kind, "http://127.0.0.1:1/services/T0/hidden?key=hidden");
        let (made, _) = engine.create_trigger(&maker, kind, wanted).await.unwrap();
        let mut seen = vec![made];
        for principal in [ada(), maker.clone(), op()] {
            seen.extend(engine.triggers(&principal, kind).await.unwrap());
            let id = seen[0].id.to_string();
            seen.push(engine.trigger(&principal, kind, &id).await.unwrap());
        }
        let switched = TriggerChange {
            enabled: Some(false),
            ..TriggerChange::default()
        };
        seen.push(engine.change_trigger(&maker, kind, "w", switched).await.unwrap());
        for info in seen {
            assert_eq!(info.callback.as_deref(), Some(SHOWN));
            assert!(!format!("{info:?}").contains("hidden"), "{info:?}");
        }
    }
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_does_not_begin_without_the_callback_that_is_asked_for() {
    let place = TestEngine::with(tenants);
    let engine = open(&place).await;
    engine.publish_workflow(&ada(), signs()).await.unwrap();
    for wrong in ["ftp://example.org/", "x", "http://"] {
        let refused = begin(&engine, start(None, Some(wrong))).await;
        match refused {
            Err(EngineError::BadRequest { field, .. }) => assert_eq!(field, "callback"),
            other => panic!("{other:?}"),
        }
    }
    // This gateway has no key for secrets.
    let refused = begin(&engine, start(None, Some(URL))).await;
    assert!(
        matches!(refused, Err(EngineError::Unsupported { .. })),
        "{refused:?}"
    );
    assert_eq!(count_runs(&engine).await, 0);
    stop(engine).await;
}

/// Takes connections, and holds them without an answer.
async fn tarpit() -> (String, Arc<Mutex<Vec<TcpStream>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/results", listener.local_addr().unwrap());
    let held = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&held);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            all.lock().unwrap().push(stream);
        }
    });
    (url, held)
}

/// Answers each request with 204.
async fn receiver() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/results", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut seen = Vec::new();
            while !seen.ends_with(b"}") {
                let mut part = [0; 4096];
                let got = stream.read(&mut part).await.unwrap();
                seen.extend_from_slice(&part[..got]);
            }
            let _ = stream
                .write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n")
                .await;
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_is_being_tried_is_not_tried_again_beside() {
    let place = TestEngine::with(|config| {
        with_key(config);
        config.callback_addresses = vec!["127.0.0.1".parse().unwrap()];
    });
    let engine = open(&place).await;
    let (url, held) = tarpit().await;
    engine.publish_workflow(&ada(), signs()).await.unwrap();
    let run = begin(&engine, start(None, Some(&url))).await.unwrap().id;
    assert_eventually!(
        engine
            .answer_workflow_step(&op(), &run, "sign", "yes".into())
            .await
            .is_ok()
    );
    assert_eventually!(held.lock().unwrap().len() == 1);
    let [told] = deliveries(&engine, &run).await.try_into().unwrap();
    assert_eq!((told.state, told.attempts.len()), (DeliveryState::Pending, 0));
    let id = told.id.to_string();
    let again = engine.redeliver(&ada(), &id).await;
    assert!(matches!(again, Err(EngineError::Conflict { .. })), "{again:?}");
    // The attempt ends, and is the only one.
    held.lock().unwrap().clear();
    assert_eventually!(deliveries(&engine, &run).await[0].attempts.len() == 1);
    assert!(held.lock().unwrap().is_empty());
    let again = engine.redeliver(&ada(), &id).await;
    assert!(
        matches!(
            again,
            Err(EngineError::OverBudget {
                what: "deliveries",
                ..
            })
        ),
        "{again:?}"
    );
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_that_are_not_answered_leave_places_to_those_of_others() {
    let place = TestEngine::with(|config| {
        with_key(config);
        config.callback_addresses = vec!["127.0.0.1".parse().unwrap()];
    });
    let engine = open(&place).await;
    let (slow, held) = tarpit().await;
    let (acme, evil) = (ada(), eve());
    let ended = async |principal: &Principal, url: &str| {
        let started = engine
            .run_workflow(principal, "signs", start(None, Some(url)))
            .await
            .unwrap();
        assert_eventually!(
            engine
                .answer_workflow_step(&op(), &started.id, "sign", "yes".into())
                .await
                .is_ok()
        );
        started.id
    };
    engine.publish_workflow(&evil, signs()).await.unwrap();
    engine.publish_workflow(&acme, signs()).await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..24 {
        waiting.push(ended(&evil, &slow).await);
    }
    assert_eventually!(held.lock().unwrap().len() > 1);
    let url = receiver().await;
    let good = ended(&acme, &url).await;
    assert_eventually!(
        deliveries(&engine, &good)
            .await
            .first()
            .is_some_and(|told| told.state == DeliveryState::Delivered)
    );
    let mut untried = 0;
    for run in &waiting {
        let all = engine.deliveries(&evil, DeliveriesOf::Run, run).await.unwrap();
        untried += usize::from(all.iter().all(|told| told.attempts.is_empty()));
    }
    assert!(untried > 12, "most of the others wait still: {untried}");

    // It was just tried.
    let [told] = deliveries(&engine, &good).await.try_into().unwrap();
    let again = engine.redeliver(&acme, &told.id.to_string()).await;
    assert!(
        matches!(
            again,
            Err(EngineError::OverBudget {
                what: "deliveries",
                ..
            })
        ),
        "{again:?}"
    );
    stop(engine).await;
}
