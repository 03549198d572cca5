//! Runs have one shape whatever has started them, lists of them have pages and filters, and another tenant has none of them.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use himalia_engine::{
    AskedRun, CredentialKeys, DeliveriesOf, Engine, EngineConfig, EngineError, Execute, KernelId,
    MissedPolicy, NewTrigger, Overlap, Principal, RunFilter, RunInfo, RunKind, RunOriginKind, RunPlace,
    RunSkill, RunState, RunTarget, RunUntil, RunView, SessionId, Skill, StartRun, StartSession, Starter,
    TenantLimits, Times, TriggerKind, WebhookMessage, WorkflowDefinition, id_of_run,
};
use himalia_schedules::{Secret, SignedMessage};
use himalia_testkit::assert_eventually;
use serde_json::{Map, json};

use crate::common::{TestEngine, settled, stop};

fn ada() -> Principal {
    Principal::of_tenant("acme", "ada").unwrap()
}

fn eve() -> Principal {
    Principal::of_tenant("evil", "ada").unwrap()
}

fn settings(config: &mut EngineConfig) {
    for name in ["acme", "evil"] {
        config.tenants.insert(name.to_owned(), TenantLimits::default());
    }
    config.retention.time = Duration::from_hours(1);
    config.credentials.keys = Some(CredentialKeys("ab".repeat(32)));
}

/// Runs of triggers start as the tenant's caller; kernels are said to be of Python.
async fn open(place: &TestEngine) -> Engine {
    let fake = himalia_testkit::binaries::fake_kernel().unwrap();
    place.kernelspec(
        "fake",
        &json!({"argv": [fake, "-f", "{connection_file}"], "display_name": "Fake", "language": "python"}),
    );
    let engine = place.open().await;
    engine.start_triggers(|mark| (mark == "m").then(|| ada().came(via())));
    engine
}

fn via() -> himalia_engine::CallOrigin {
    himalia_engine::CallOrigin {
        mark: Some("m".into()),
        ..Default::default()
    }
}

/// The caller, with a token that triggers find again.
fn holder() -> Principal {
    ada().came(via())
}

async fn publish(engine: &Engine) {
    let manifest = json!({
        "name": "plain", "version": "1.0.0", "kind": "code", "description": "d",
        "inputs": {"type": "object"}, "outputs": {"type": "object"},
    });
    let files = [("main.py".to_owned(), b"def main(): return {}\n".to_vec())].into();
    let skill = Skill::new(serde_json::from_value(manifest).unwrap(), files).unwrap();
    engine.publish_skill(&ada(), &skill).await.unwrap();
    let steps = json!([{"id": "a", "approval": {"text": "?"}}]);
    for (name, steps) in [
        ("asks", steps),
        (
            "one-step",
            json!([{"id": "one", "skill": {"name": "plain"}, "inputs": {}}]),
        ),
    ] {
        let definition = json!({
            "name": name, "version": "1.0.0", "description": "d", "inputs": {"type": "object"}, "steps": steps,
        });
        let definition: WorkflowDefinition = serde_json::from_value(definition).unwrap();
        engine.publish_workflow(&ada(), definition).await.unwrap();
    }
}

fn trigger(name: &str, kind: TriggerKind, target: RunTarget) -> NewTrigger {
    let times = Times {
        cron: "0 0 1 1 *".into(),
        time_zone: "UTC".into(),
        missed: MissedPolicy::Skip,
        overlap: Overlap::Allow,
    };
    NewTrigger {
        name: name.into(),
        target: Some(target),
        inputs: Map::new(),
        template: None,
        timeout: None,
        times: (kind == TriggerKind::Schedule).then_some(times),
        enabled: true,
        callback: None,
    }
}

/// A run that a schedule or a webhook starts: its id, and the id of the trigger.
async fn triggered(engine: &Engine, kind: TriggerKind, target: RunTarget) -> (String, String) {
    let name = format!("t-{}", uuid::Uuid::new_v4().simple());
    let (made, secrets) = engine
        .create_trigger(&holder(), kind, trigger(&name, kind, target))
        .await
        .unwrap();
    if kind == TriggerKind::Schedule {
        let asked = engine.run_trigger(&ada(), kind, &name, AskedRun::default()).await;
        return (asked.unwrap().id, made.id.to_string());
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let at = now.as_secs().to_string();
    let secret = Secret::parse(&secrets.incoming.unwrap()).unwrap();
    let signature = secret.sign(SignedMessage {
        id: "1",
        timestamp: &at,
        body: b"{}",
    });
    let message = WebhookMessage {
        id: "1",
        timestamp: &at,
        signature: &signature,
        body: b"{}",
    };
    let run = engine.receive_webhook(made.id, message).await.unwrap().unwrap();
    (run.id, made.id.to_string())
}

async fn shown(engine: &Engine, id: &str) -> RunView {
    let run = engine.run(&ada(), id, Duration::ZERO, RunUntil::Ended).await;
    run.unwrap()
}

async fn list(engine: &Engine, filter: RunFilter) -> Vec<RunInfo> {
    let (mut all, mut after) = (Vec::new(), filter.after.clone());
    loop {
        let filter = RunFilter {
            after,
            limit: if filter.limit == 0 { 100 } else { filter.limit },
            ..filter.clone()
        };
        let page = engine.runs(&ada(), filter.clone()).await.unwrap();
        assert!(page.runs.len() <= filter.limit);
        all.extend(page.runs);
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

/// A session whose code the kernel of this test pretends to be a skill's: it displays what a skill returns.
async fn returned(engine: &Engine, start: StartSession) -> KernelId {
    let labels = BTreeMap::from([("himalia.skill".to_owned(), "plain 1.0.0".to_owned())]);
    let session = engine
        .start_session(&ada(), StartSession { labels, ..start })
        .await
        .unwrap();
    let kernel = session.kernel.id;
    let (info, _) = engine.skill(&ada(), "plain", None).await.unwrap();
    let named = json!({"name": "plain", "version": "1.0.0", "digest": info.digest});
    let code = Execute {
        code: "display application/vnd.himalia.skill+json {\"outputs\": {}}".into(),
        metadata: Map::from_iter([("skill".to_owned(), named)]),
        ..Execute::default()
    };
    let id = engine.execute(&ada(), kernel, code).await.unwrap().id;
    settled(engine, &ada(), id).await;
    kernel
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_each_kind_and_origin_have_one_shape() {
    use RunKind::{Skill, Workflow};
    use RunOriginKind::{Client, Code, Schedule, Step, Webhook};
    let place = TestEngine::with(settings);
    let engine = open(&place).await;
    publish(&engine).await;
    let mut table: Vec<(RunKind, RunOriginKind, Option<String>, String)> = Vec::new();

    let begun = engine
        .run_skill(&ada(), "plain", RunSkill::default())
        .await
        .unwrap();
    table.push((Skill, Client, None, id_of_run(begun.id.kernel.0)));
    let begun = engine
        .run_workflow(&ada(), "asks", StartRun::default())
        .await
        .unwrap();
    table.push((Workflow, Client, None, begun.id));
    let begun = engine
        .run_workflow(&ada(), "one-step", StartRun::default())
        .await
        .unwrap();
    assert_eventually!(shown(&engine, &begun.id).await.info.status == RunState::Failed);
    let flow = shown(&engine, &begun.id).await;
    let session: uuid::Uuid = flow.steps[0].attempts[0]
        .session
        .as_ref()
        .unwrap()
        .parse()
        .unwrap();
    table.push((Skill, Step, Some(begun.id.clone()), id_of_run(session)));
    table.push((Workflow, Client, None, begun.id));
    for (kind, origin) in [(TriggerKind::Schedule, Schedule), (TriggerKind::Webhook, Webhook)] {
        for (target, runs) in [
            (RunTarget::skill("plain"), Skill),
            (RunTarget::workflow("asks"), Workflow),
        ] {
            let (run, id) = triggered(&engine, kind, target).await;
            table.push((runs, origin, Some(id), run));
        }
    }
    let caller = engine
        .start_session(&ada(), StartSession::default())
        .await
        .unwrap();
    let of_code = StartSession {
        starter: Some(Box::new(Starter::new(caller.id(), &caller.session, None))),
        ..StartSession::default()
    };
    let kernel = returned(&engine, of_code).await;
    table.push((Skill, Code, Some(caller.id().to_string()), id_of_run(kernel.0)));

    for (kind, origin, of, id) in &table {
        let known = |run: &RunView| run.info.version.is_some() && run.info.status != RunState::Queued;
        assert_eventually!(known(&shown(&engine, id).await));
        if *kind == Skill {
            assert_eventually!(shown(&engine, id).await.info.status.is_over());
        }
        let run = shown(&engine, id).await;
        let name = if *kind == Skill { "plain" } else { &run.info.name };
        let seen = (
            run.info.kind,
            run.info.origin.kind,
            &run.info.origin.id,
            &run.info.id,
        );
        assert_eq!(seen, (*kind, *origin, of, id));
        assert_eq!(
            (run.info.name.as_str(), run.info.version.as_deref()),
            (name, Some("1.0.0"))
        );
        assert_eq!(run.info.started_by, "acme/ada", "{id}");
        assert!(
            run.info.created_micros > 0 && run.info.started_micros.is_some(),
            "{run:?}"
        );
        assert_eq!(
            run.info.ended_micros.is_some(),
            run.info.status.is_over(),
            "{run:?}"
        );
        assert_eq!(run.info.asked_by.is_some(), *origin == Schedule, "{run:?}");
        // A skill has its execution, a workflow its steps.
        let of_skill = (
            run.info.session.is_some(),
            run.info.execution.is_some(),
            run.result.is_some(),
        );
        let is_skill = *kind == Skill;
        assert_eq!(of_skill, (is_skill, is_skill, is_skill), "{run:?}");
        assert_eq!(
            (run.steps.len(), run.inputs.is_some()),
            (usize::from(!is_skill), !is_skill)
        );
        match (run.info.status, &run.info.error) {
            (RunState::Failed, Some(error)) => assert!(!error.code.is_empty() && !error.message.is_empty()),
            (RunState::Running | RunState::Succeeded, None) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(run.info.status == RunState::Succeeded, *origin == Code, "{run:?}");
        assert_eq!(run.outputs.is_some(), *origin == Code);
        // Once, and as it is alone.
        assert_eventually!({
            let all = list(&engine, RunFilter::default()).await;
            let found: Vec<_> = all.into_iter().filter(|one| one.id == *id).collect();
            found.len() == 1 && found[0].status == run.info.status && found[0].origin == run.info.origin
        });
    }
    assert_eq!(list(&engine, RunFilter::default()).await.len(), table.len());
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_have_pages_and_filters() {
    let place = TestEngine::with(settings);
    let engine = open(&place).await;
    publish(&engine).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let started = engine
            .run_workflow(&ada(), "asks", StartRun::default())
            .await
            .unwrap();
        ids.push(started.id);
        let kernel = returned(&engine, StartSession::default()).await;
        ids.push(id_of_run(kernel.0));
        let target = RunTarget::workflow("asks");
        ids.push(triggered(&engine, TriggerKind::Schedule, target).await.0);
    }
    engine.cancel_run(&ada(), &ids[0]).await.unwrap();
    assert_eventually!(shown(&engine, &ids[0]).await.info.status == RunState::Cancelled);
    for id in &ids {
        assert_eventually!(shown(&engine, id).await.info.status != RunState::Queued);
    }
    // Other sessions are no runs.
    engine
        .start_session(&ada(), StartSession::default())
        .await
        .unwrap();
    ids.reverse();
    for limit in 1..=10 {
        let filter = RunFilter {
            limit,
            ..RunFilter::default()
        };
        let found = list(&engine, filter).await;
        let found: Vec<String> = found.into_iter().map(|run| run.id).collect();
        assert_eq!(found, ids, "{limit}");
    }
    let of = |at: [usize; 3]| at.map(|at| ids[at].clone());
    let schedules = of([0, 3, 6]);
    let skills = of([1, 4, 7]);
    let clients = of([2, 5, 8]);
    let session: SessionId =
        SessionId::of_first_kernel(KernelId(himalia_engine::uuid_of_run(&skills[0]).unwrap()));
    let of_kind = |kind| RunFilter {
        kind: Some(kind),
        ..RunFilter::default()
    };
    let of_status = |status| RunFilter {
        status: Some(status),
        ..RunFilter::default()
    };
    let of_origin = |origin| RunFilter {
        origin: Some(origin),
        ..RunFilter::default()
    };
    let named = |kind, name: &str| RunFilter {
        name: Some(name.into()),
        ..of_kind(kind)
    };
    let of_session = RunFilter {
        session: Some(session),
        ..RunFilter::default()
    };
    let trigger = shown(&engine, &schedules[1]).await.info.origin.id.unwrap();
    let of_trigger = RunFilter {
        trigger: Some((TriggerKind::Schedule, trigger)),
        ..RunFilter::default()
    };
    let (mut flows, mut running, mut by_clients) = (ids.clone(), ids.clone(), ids.clone());
    flows.retain(|id| !skills.contains(id));
    running.retain(|id| flows.contains(id) && *id != clients[2]);
    by_clients.retain(|id| !schedules.contains(id));
    let skills = skills.to_vec();
    for (filter, wanted) in [
        (of_kind(RunKind::Skill), skills.clone()),
        (of_kind(RunKind::Workflow), flows.clone()),
        (named(RunKind::Skill, "plain"), skills.clone()),
        (named(RunKind::Skill, "asks"), vec![]),
        (named(RunKind::Workflow, "asks"), flows),
        (of_status(RunState::Succeeded), skills.clone()),
        (of_status(RunState::Cancelled), vec![clients[2].clone()]),
        (of_status(RunState::Running), running),
        (of_status(RunState::Missed), vec![]),
        (of_origin(RunOriginKind::Schedule), schedules.to_vec()),
        (of_origin(RunOriginKind::Client), by_clients),
        (of_origin(RunOriginKind::Step), vec![]),
        (of_session, vec![skills[0].clone()]),
        (of_trigger, vec![schedules[1].clone()]),
    ] {
        for limit in [1, 4, 100] {
            let filter = RunFilter {
                limit,
                ..filter.clone()
            };
            let found = list(&engine, filter.clone()).await;
            let found: Vec<String> = found.into_iter().map(|run| run.id).collect();
            assert_eq!(found, wanted, "{filter:?}");
        }
    }
    // A place that no run has any more is one all the same.
    let after = RunFilter {
        after: Some(RunPlace {
            created_micros: 1,
            id: "x".into(),
        }),
        ..RunFilter::default()
    };
    assert_eq!(list(&engine, after).await, []);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenant_has_no_such_run() {
    let place = TestEngine::with(settings);
    let engine = open(&place).await;
    publish(&engine).await;
    let flow = engine
        .run_workflow(&ada(), "asks", StartRun::default())
        .await
        .unwrap()
        .id;
    let skill = id_of_run(returned(&engine, StartSession::default()).await.0);
    let (asked, schedule) = triggered(&engine, TriggerKind::Schedule, RunTarget::workflow("asks")).await;
    assert_eq!(engine.runs(&eve(), RunFilter::default()).await.unwrap().runs, []);
    let of_schedule = RunFilter {
        trigger: Some((TriggerKind::Schedule, schedule)),
        ..RunFilter::default()
    };
    let refused = engine.runs(&eve(), of_schedule).await.unwrap_err();
    assert_eq!(refused.code(), "schedule_not_found");
    let unknown = id_of_run(uuid::Uuid::from_u128(1));
    for id in [
        &flow,
        &skill,
        &asked,
        &unknown,
        &"exe_1".to_owned(),
        &String::new(),
    ] {
        let (eve, none) = (eve(), Duration::ZERO);
        let gone = |error: Option<EngineError>| {
            let error = error.unwrap();
            assert_eq!(error.code(), "run_not_found", "{id}: {error}");
        };
        gone(engine.run(&eve, id, none, RunUntil::Ended).await.err());
        gone(engine.cancel_run(&eve, id).await.err());
        gone(engine.follow_run(&eve, id).await.err());
        gone(engine.deliveries(&eve, DeliveriesOf::Run, id).await.err());
        gone(engine.workflow_step(&eve, id, "a", 0).await.err());
    }
    // The operator sees one by its id.
    let op = Principal::operator();
    for id in [&flow, &skill, &asked] {
        let run = engine
            .run(&op, id, Duration::ZERO, RunUntil::Ended)
            .await
            .unwrap();
        assert_eq!(run.info.id, *id);
    }
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_states_of_a_run_are_followed_to_its_end() {
    let place = TestEngine::with(settings);
    let engine = open(&place).await;
    publish(&engine).await;
    let id = engine
        .run_workflow(&ada(), "asks", StartRun::default())
        .await
        .unwrap()
        .id;
    let mut feed = engine.follow_run(&ada(), &id).await.unwrap();
    let first = feed.next().await.unwrap().unwrap();
    assert_eq!(
        (first.info.id.as_str(), first.info.status),
        (id.as_str(), RunState::Running)
    );
    engine.cancel_run(&ada(), &id).await.unwrap();
    let mut last = None;
    while let Some(run) = feed.next().await.unwrap() {
        last = Some(run.info.status);
    }
    assert_eq!(last, Some(RunState::Cancelled));
    stop(engine).await;
}
