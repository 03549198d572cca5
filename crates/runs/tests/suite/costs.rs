//! Each command of the engine and of the runs takes the shares of its owner that the lists of commands name.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::time::Duration;

use himalia_engine::{
    CallTool, CommandRow, Cost, CredentialKeys, Drain, EngineConfig, EngineError, Execute, ForkKernel,
    GivenSecrets, KernelId, NewCredential, NewSession, NewToken, Scope, SecretText, StartSession,
    ToolErrorCode, ToolServerConfig, ToolServerFields,
};
use himalia_runs::TriggerKind::Schedule;
use himalia_runs::{
    AskedRun, Draft, MissedPolicy, NewTrigger, Overlap, RunFilter, RunSkill, RunState, RunTarget, RunUntil,
    Runs, Skill, StartRun, Times, TriggerChange, WorkflowDefinition, id_of_run,
};
use himalia_testkit::assert_eventually;
use serde_json::{Map, Value, json};

use crate::common::{TestEngine, op, settled, start};
use crate::{open_runs, stop};

/// Commands that take no turn, disk, stream, start or queue of a kernel, by the reason why one call is cheap.
const BOUNDED: &[(&str, &[&str])] = &[
    (
        "the operator's alone",
        &["budgets", "collect", "drain", "metrics", "pools"],
    ),
    (
        "a state of a bounded number of kernels in memory",
        &[
            "ended_sessions",
            "find_session",
            "kernel",
            "kernels",
            "latest_prompts",
            "logged_kernel",
            "session_info",
            "session_infos",
            "session_kernel",
            "session_kernels",
            "session_memory",
            "session_named",
            "session_started_once",
            "status",
        ],
    ),
    (
        "the configuration, the kernelspecs of the host, or an index of tools in memory",
        &[
            "kernelspec",
            "kernelspec_file",
            "kernelspecs",
            "provisioners",
            "search_tools",
            "templates",
            "tool_info",
            "tool_servers",
        ],
    ),
    (
        "a row",
        &[
            "change_session",
            "redeliver",
            "revoke_tool_approval",
            "revoke_token",
            "session",
            "session_owner",
            "trigger",
        ],
    ),
    (
        "as many rows as an owner may have, or a page",
        &[
            "approve_always",
            "credentials",
            "deliveries",
            "other_replicas",
            "sessions",
            "skills",
            "tokens",
            "tool_approvals",
            "triggers",
            "usage",
            "workflows",
        ],
    ),
    (
        "the caller manages credentials, of which an owner has a bounded number of bounded size",
        &["begin_grant", "delete_credential", "end_grant", "finish_grant"],
    ),
    (
        "it deletes rows of its owner",
        &["delete_skill", "delete_trigger", "delete_workflow"],
    ),
];

/// The commands of both lists.
pub(crate) fn commands() -> impl Iterator<Item = &'static CommandRow> {
    himalia_engine::COMMANDS.iter().chain(himalia_runs::COMMANDS)
}

#[test]
fn each_command_without_a_share_has_a_reason() {
    let cheap = |cost: &Cost| matches!(cost, Cost::Rows | Cost::Memory);
    let without: BTreeSet<&str> = commands()
        .filter(|command| command.costs.iter().all(cheap))
        .map(|command| command.name)
        .collect();
    let listed: Vec<&str> = BOUNDED.iter().flat_map(|(_, names)| *names).copied().collect();
    assert_eq!(without, listed.iter().copied().collect());
    assert_eq!(listed.len(), without.len(), "each has one reason");
}

fn skill(name: &str) -> Skill {
    let manifest = json!({
        "name": name, "version": "1.0.0", "kind": "code", "description": "d",
        "inputs": {"type": "object"}, "outputs": {"type": "object"},
    });
    let files = [("main.py".to_owned(), b"def main(): return {}\n".to_vec())].into();
    Skill::new(serde_json::from_value(manifest).unwrap(), files).unwrap()
}

fn workflow(version: &str) -> WorkflowDefinition {
    let definition = json!({
        "name": "asks", "version": version, "description": "d", "inputs": {"type": "object"},
        "steps": [{"id": "a", "approval": {"text": "?"}}],
    });
    serde_json::from_value(definition).unwrap()
}

fn schedule(name: &str) -> NewTrigger {
    NewTrigger {
        name: name.into(),
        target: Some(RunTarget::workflow("asks")),
        inputs: Map::new(),
        template: None,
        timeout: None,
        times: Some(Times {
            cron: "0 0 1 1 *".into(),
            time_zone: "UTC".into(),
            missed: MissedPolicy::Skip,
            overlap: Overlap::Skip,
        }),
        enabled: true,
        callback: None,
    }
}

fn longer() -> TriggerChange {
    TriggerChange {
        inputs: Some(
            [("more".to_owned(), Value::from("x".repeat(1000)))]
                .into_iter()
                .collect(),
        ),
        ..TriggerChange::default()
    }
}

fn run_with_key() -> RunSkill {
    RunSkill {
        key: Some("k".into()),
        callback: Some("http://127.0.0.1:1/results".into()),
        ..RunSkill::default()
    }
}

fn start_with_key() -> StartRun {
    StartRun {
        key: Some("k".into()),
        callback: Some("http://127.0.0.1:1/results".into()),
        ..StartRun::default()
    }
}

fn asked_with_key() -> AskedRun {
    AskedRun {
        key: Some("k".into()),
        // An earlier run may be in progress.
        overlap: Some(Overlap::Allow),
    }
}

fn token(description: &str) -> NewToken {
    NewToken {
        tenant: None,
        caller: "ci".into(),
        scope: Scope::Read,
        description: description.into(),
        lifetime: None,
    }
}

fn credential() -> NewCredential {
    let definition = json!({"kind": "bearer", "hosts": ["https://api.example.org"]});
    NewCredential {
        tenant: None,
        definition: serde_json::from_value(definition).unwrap(),
        secrets: GivenSecrets {
            value: Some(SecretText::new("not-a-secret".into())),
            ..GivenSecrets::default()
        },
    }
}

/// Adds a server of tools whose one tool takes a list, keeps ended sessions, and stores secrets.
fn settings(config: &mut EngineConfig) {
    let description = config.data_dir.join("tools.json");
    let schema = json!({
        "type": "object", "required": ["all"],
        "properties": {"all": {"type": "array", "items": {"type": "string", "maxLength": 1}}},
    });
    let body = json!({"required": true, "content": {"application/json": {"schema": schema}}});
    let operation =
        json!({"operationId": "take", "requestBody": body, "responses": {"200": {"description": "d"}}});
    let described = json!({
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": "http://127.0.0.1:1/"}],
        "paths": {"/take": {"post": operation}},
    });
    std::fs::write(&description, described.to_string()).unwrap();
    let fields = ToolServerFields {
        openapi: Some(description.to_str().unwrap().to_owned()),
        description: Some("d".into()),
        ..ToolServerFields::default()
    };
    config.tool_servers = vec![ToolServerConfig::new("lists", fields).unwrap()];
    config.defaults.tools.tools = vec!["lists.*".parse().unwrap()];
    config.defaults.tools.write = vec!["lists.*".parse().unwrap()];
    config.retention.time = Duration::from_hours(1);
    config.credentials.keys = Some(CredentialKeys("ab".repeat(32)));
}

/// Turns that the operator was given so far.
fn turns(runs: &Runs) -> u64 {
    let all = runs.engine().budgets(&op()).unwrap();
    all.iter()
        .find(|one| one.owner == "operator")
        .map_or(0, |one| one.turns)
}

fn with_cost(cost: Cost) -> BTreeSet<&'static str> {
    let having = commands().filter(|command| command.costs.contains(&cost));
    having.map(|command| command.name).collect()
}

/// A kernel whose language is Python by its kernelspec, with one cell in its history; the number of the cell.
async fn with_history(runs: &Runs) -> (KernelId, u64) {
    let kernel = start(runs.engine()).await;
    let code = Execute {
        code: "x = 1".into(),
        ..Execute::default()
    };
    let id = runs.engine().execute(&op(), kernel, code).await.unwrap().id;
    settled(runs.engine(), &op(), id).await;
    let history = runs.engine().history(&op(), kernel, None, 1).await.unwrap();
    (kernel, history.history[0].seq)
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_with_a_turn_take_one_and_those_that_store_are_refused_without_room() {
    let mut place = TestEngine::with(settings);
    let fake = himalia_testkit::binaries::fake_kernel().unwrap();
    place.kernelspec(
        "fake",
        &json!({"argv": [fake, "-f", "{connection_file}"], "display_name": "Fake", "language": "python"}),
    );
    let runs = open_runs(&place).await;
    let who = op();
    let (kernel, seq) = with_history(&runs).await;
    let mut taking = BTreeSet::new();
    macro_rules! takes {
        ($name:ident($($argument:expr),*)) => {
            takes!(runs, $name($($argument),*))
        };
        ($of:expr, $name:ident($($argument:expr),*)) => {{
            let before = turns(&runs);
            let result = $of.$name(&who $(, $argument)*).await;
            assert!(turns(&runs) > before, "{} takes no turn: {result:?}", stringify!($name));
            taking.insert(stringify!($name));
            result
        }};
    }
    let (plain, _) = takes!(publish_skill(&skill("plain"))).unwrap();
    let named = json!({"name": "plain", "version": "1.0.0", "digest": plain.digest});
    takes!(skill("plain", None)).unwrap();
    takes!(publish_workflow(workflow("1.0.0"))).unwrap();
    takes!(workflow("asks", None)).unwrap();
    let run = takes!(run_workflow("asks", StartRun::default())).unwrap().id;
    takes!(run(&run, Duration::from_mins(1), RunUntil::Asks)).unwrap();
    takes!(workflow_step(&run, "a", 0)).unwrap();
    takes!(runs.engine(), open_prompts(None, 10)).unwrap();
    takes!(answer_workflow_step(&run, "a", "approve".into())).unwrap();
    takes!(cancel_run(&run)).unwrap();
    takes!(create_trigger(Schedule, schedule("yearly"))).unwrap();
    takes!(change_trigger(Schedule, "yearly", longer())).unwrap();
    takes!(draft_skill(kernel, &[seq], Draft::default())).ok();
    let begun = takes!(run_skill("plain", run_with_key())).unwrap();
    settled(runs.engine(), &who, begun.id).await;
    // The kernel of this test runs no Python: an execution that is marked as a run displays what a skill returns.
    let shown = Execute {
        code: "display application/vnd.himalia.skill+json {\"outputs\": {}}".into(),
        metadata: Map::from_iter([("skill".to_owned(), named)]),
        ..Execute::default()
    };
    let shown = runs.engine().execute(&who, kernel, shown).await.unwrap();
    settled(runs.engine(), &who, shown.id).await;
    let shown = id_of_run(shown.id.kernel.0);
    let run = takes!(run(&shown, Duration::ZERO, RunUntil::Ended)).unwrap();
    assert_eq!(run.info.status, RunState::Succeeded);
    let filter = RunFilter {
        trigger: Some((Schedule, "yearly".into())),
        ..RunFilter::default()
    };
    runs.run_trigger(&who, Schedule, "yearly", AskedRun::default())
        .await
        .unwrap();
    takes!(runs(filter)).unwrap();
    assert_eventually!(runs.engine().tool_servers(&who, kernel).await.unwrap().servers[0].ready);
    // A check ends at the eighth violation: a long one has its violation at the end.
    let mut all = vec!["t"; 20_000];
    all.push("two");
    let long = CallTool {
        tool: "lists.take".into(),
        arguments: Map::from_iter([("all".to_owned(), all.into())]),
        timeout_s: None,
        approval: None,
        approval_key: None,
        line: None,
    };
    let refused = takes!(runs.engine(), call_tool(kernel, long));
    assert!(
        matches!(&refused, Err(EngineError::Tool(error)) if error.code == ToolErrorCode::InvalidArguments),
        "{refused:?}"
    );
    assert_eq!(taking, with_cost(Cost::Turn));
    let flow = runs.run_workflow(&who, "asks", start_with_key()).await.unwrap();
    let asked = runs
        .run_trigger(&who, Schedule, "yearly", asked_with_key())
        .await
        .unwrap();

    runs.engine().drain(&who, Drain::KeepKernels).await.unwrap();
    drop(runs);
    place.change = |config| {
        settings(config);
        config.min_free_bytes = u64::MAX;
    };
    let runs = open_runs(&place).await;
    let mut storing = BTreeSet::new();
    macro_rules! refused {
        ($name:ident($($argument:expr),*)) => {
            refused!(runs, $name($($argument),*))
        };
        ($of:expr, $name:ident($($argument:expr),*)) => {{
            let error = $of.$name(&who $(, $argument)*).await.err();
            assert!(matches!(error, Some(EngineError::DiskFull { .. })), "{}: {error:?}", stringify!($name));
            storing.insert(stringify!($name));
        }};
    }
    let session = || StartSession {
        session_name: Some("x".into()),
        ..StartSession::default()
    };
    let jupyter = NewSession {
        path: "x.ipynb".into(),
        kind: "notebook".into(),
        ..NewSession::default()
    };
    refused!(publish_skill(&skill("another")));
    refused!(publish_workflow(workflow("2.0.0")));
    refused!(run_workflow("asks", StartRun::default()));
    refused!(run_skill("plain", RunSkill::default()));
    refused!(create_trigger(Schedule, schedule("monthly")));
    let inputs = TriggerChange {
        inputs: Some(
            [("more".to_owned(), Value::from("x".repeat(9000)))]
                .into_iter()
                .collect(),
        ),
        ..TriggerChange::default()
    };
    refused!(change_trigger(Schedule, "yearly", inputs));
    let another = AskedRun {
        overlap: Some(Overlap::Allow),
        ..AskedRun::default()
    };
    refused!(run_trigger(Schedule, "yearly", another));
    refused!(runs.engine(), start_kernel(StartSession::default()));
    refused!(runs.engine(), start_session(StartSession::default()));
    refused!(runs.engine(), start_run_session(StartSession::default()));
    refused!(runs.engine(), put_session(session()));
    refused!(runs.engine(), create_session(jupyter));
    refused!(runs.engine(), fork_kernel(kernel, ForkKernel::default()));
    refused!(runs.engine(), create_token(token("another")));
    refused!(runs.engine(), set_credential("another", credential()));
    assert_eq!(storing, with_cost(Cost::Disk));

    // A start that is repeated stores nothing: its run is found.
    let again = runs.run_skill(&who, "plain", run_with_key()).await.unwrap();
    assert_eq!((again.id, again.repeated), (begun.id, true));
    assert!(again.callback_secret.is_some());
    let again = runs.run_workflow(&who, "asks", start_with_key()).await.unwrap();
    assert_eq!((&again.id, again.is_new), (&flow.id, false));
    assert!(again.callback_secret.is_some() && again.callback_secret == flow.callback_secret);
    let other = StartRun {
        version: Some("1.0.0".into()),
        ..start_with_key()
    };
    let reused = runs.run_workflow(&who, "asks", other).await;
    assert!(matches!(reused, Err(EngineError::KeyReused)), "{reused:?}");
    let again = runs
        .run_trigger(&who, Schedule, "yearly", asked_with_key())
        .await
        .unwrap();
    assert_eq!((again.id, again.is_new), (asked.id, false));
    stop(runs).await;
}
