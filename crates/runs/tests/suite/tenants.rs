//! Skills and schedules of one tenant are not there for another.

#![allow(clippy::unwrap_used, reason = "a test")]

use himalia_engine::{EngineError, Principal};
use himalia_runs::{
    AskedRun, MissedPolicy, NewTrigger, Overlap, RunFilter, RunSkill, RunTarget, Skill, Times, TriggerChange,
    TriggerKind,
};

use crate::common::{TestEngine, op};
use crate::{open_runs, stop};

fn ada() -> Principal {
    Principal::of_tenant("acme", "ada").unwrap()
}

fn bob() -> Principal {
    Principal::of_tenant("acme", "bob").unwrap()
}

/// Of another tenant, with a name that the first has too.
fn eve() -> Principal {
    Principal::of_tenant("evil", "ada").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_is_its_tenants_alone() {
    let place = TestEngine::new();
    let runs = open_runs(&place).await;
    let text = |text: &str| {
        let text = format!("---\nname: report\ndescription: {text}\n---\n").into_bytes();
        Skill::from_folder([("SKILL.md".to_owned(), text)].into()).unwrap()
    };
    assert!(runs.publish_skill(&ada(), &text("hers")).await.unwrap().1);
    assert!(
        !runs.publish_skill(&bob(), &text("hers")).await.unwrap().1,
        "the same"
    );
    assert!(runs.publish_skill(&bob(), &text("other")).await.is_err());
    assert_eq!(runs.skills(&bob(), None).await.unwrap().len(), 1);
    for stranger in [eve(), op()] {
        assert!(runs.skills(&stranger, None).await.unwrap().is_empty());
        let gone = |error: EngineError| assert!(matches!(error, EngineError::NotFound { .. }), "{error}");
        gone(runs.skill(&stranger, "report", None).await.unwrap_err());
        gone(runs.skill(&stranger, "report", Some("1.0.0")).await.unwrap_err());
        gone(runs.delete_skill(&stranger, "report", None).await.unwrap_err());
        let run = runs.run_skill(&stranger, "report", RunSkill::default());
        gone(run.await.unwrap_err());
    }
    // The name is free for another one.
    assert!(runs.publish_skill(&eve(), &text("hers too")).await.unwrap().1);
    assert_eq!(runs.delete_skill(&bob(), "report", None).await.unwrap(), 1);
    assert!(runs.skills(&ada(), None).await.unwrap().is_empty());
    assert_eq!(
        runs.skills(&eve(), None).await.unwrap()[0].description,
        "hers too"
    );
    stop(runs).await;
}

fn monthly() -> NewTrigger {
    NewTrigger {
        name: "monthly".into(),
        target: Some(RunTarget::skill("reconcile")),
        inputs: serde_json::Map::new(),
        template: None,
        timeout: None,
        times: Some(Times {
            cron: "0 6 1 * *".into(),
            time_zone: "Europe/Berlin".into(),
            missed: MissedPolicy::RunOnce,
            overlap: Overlap::Skip,
        }),
        enabled: true,
        callback: None,
    }
}

fn reconcile() -> Skill {
    let manifest = serde_json::json!({
        "name": "reconcile", "version": "1.0.0", "kind": "code", "description": "x",
        "inputs": {"type": "object", "additionalProperties": false}, "outputs": true,
    });
    let main = b"def main():\n    return 1\n".to_vec();
    Skill::new(
        serde_json::from_value(manifest).unwrap(),
        [("main.py".to_owned(), main)].into(),
    )
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_its_tenants_and_the_operator_can_stop_it() {
    let kind = TriggerKind::Schedule;
    let place = TestEngine::new();
    let runs = open_runs(&place).await;
    let wrong = |error: EngineError, wanted: &str| match error {
        EngineError::BadRequest { field, .. } => assert_eq!(field, wanted),
        other => panic!("{other}"),
    };
    let gone = |error: EngineError| assert!(matches!(error, EngineError::NotFound { .. }), "{error}");
    gone(runs.create_trigger(&ada(), kind, monthly()).await.unwrap_err());
    runs.publish_skill(&ada(), &reconcile()).await.unwrap();
    let (made, secrets) = runs.create_trigger(&ada(), kind, monthly()).await.unwrap();
    assert!(secrets.outgoing.is_none() && secrets.incoming.is_none());
    assert!(made.enabled && made.next_micros.is_some());
    assert_eq!(
        (made.owner.as_str(), made.caller.as_str()),
        ("acme", ada().name())
    );
    let again = runs.create_trigger(&bob(), kind, monthly()).await.unwrap_err();
    assert!(matches!(again, EngineError::Conflict { .. }), "{again}");
    // What a skill does not take is refused before it is stored.
    let inputs = TriggerChange {
        inputs: Some([("x".to_owned(), 1.into())].into_iter().collect()),
        ..TriggerChange::default()
    };
    wrong(
        runs.change_trigger(&bob(), kind, "monthly", inputs.clone())
            .await
            .unwrap_err(),
        "inputs",
    );
    // Another caller who changes it is whom it runs as.
    let zone = TriggerChange {
        time_zone: Some("UTC".into()),
        ..TriggerChange::default()
    };
    let changed = runs.change_trigger(&bob(), kind, "monthly", zone).await.unwrap();
    assert_eq!((changed.id, changed.caller.as_str()), (made.id, bob().name()));
    let id = made.id.to_string();
    let off = TriggerChange {
        enabled: Some(false),
        ..TriggerChange::default()
    };
    for text in ["monthly", &id] {
        gone(runs.trigger(&eve(), kind, text).await.unwrap_err());
        gone(
            runs.change_trigger(&eve(), kind, text, off.clone())
                .await
                .unwrap_err(),
        );
        gone(
            runs.run_trigger(&eve(), kind, text, AskedRun::default())
                .await
                .unwrap_err(),
        );
        let filter = RunFilter {
            trigger: Some((kind, text.to_owned())),
            ..RunFilter::default()
        };
        gone(runs.runs(&eve(), filter).await.unwrap_err());
        gone(runs.delete_trigger(&eve(), kind, text).await.unwrap_err());
    }
    assert_eq!(runs.triggers(&eve(), kind).await.unwrap(), []);
    assert_eq!(
        runs.triggers(&op(), kind).await.unwrap(),
        std::slice::from_ref(&changed)
    );
    let refused = runs.change_trigger(&op(), kind, &id, inputs).await.unwrap_err();
    assert!(matches!(refused, EngineError::Forbidden { .. }), "{refused}");
    let stopped = runs.change_trigger(&op(), kind, &id, off).await.unwrap();
    assert_eq!((stopped.enabled, stopped.next_micros), (false, None));
    assert_eq!(stopped.caller, bob().name());
    runs.delete_trigger(&op(), kind, &id).await.unwrap();
    assert_eq!(runs.triggers(&ada(), kind).await.unwrap(), []);
    stop(runs).await;
}
