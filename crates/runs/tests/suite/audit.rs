//! Every command of the engine and of the runs is in the audit log, denied and failed ones too.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::common;
use crate::costs::commands;

use common::{TestEngine, op, question, settled, start, stop};
use himalia_engine::{
    Attach, Audit, AuditTarget, CallOrigin, CallTool, CredentialFields, Drain, Effect, Engine, EngineError,
    Execute, ExecutionTarget, FeedStart, ForkKernel, GivenSecrets, GrantAnswer, JupyterSessionId, KernelId,
    NewCredential, NewKernel, NewSession, NewToken, Principal, PromptId, PromptName, ResourceRef, RunProcess,
    Scope, SecretText, SessionChange, SessionId, SessionPatch, StartSession, VariableQuery,
};
use himalia_runs::TriggerKind::Schedule;
use himalia_runs::{
    AskedRun, DeliveriesOf, Draft, MissedPolicy, NewTrigger, Overlap, RunFilter, RunSkill, RunTarget,
    RunUntil, Runs, Skill, StartRun, Times, TriggerChange, WorkflowDefinition, id_of_run,
};
use himalia_testkit::patience::within;
use serde_json::{Value, json};
use uuid::Uuid;

/// Who may only read, and came from somewhere.
fn reader() -> Principal {
    let via = CallOrigin {
        peer: Some("192.0.2.7:4321".parse().unwrap()),
        credential: Some("token:abc".into()),
        request: Some("r-1".into()),
        trace: None,
        mark: None,
        held: None,
    };
    Principal::of_tenant("acme", "ada").unwrap().read_only().came(via)
}

fn workflow() -> WorkflowDefinition {
    let definition = json!({
        "name": "monthly", "version": "1.0.0", "description": "d", "inputs": {"type": "object"},
        "steps": [{"id": "a", "approval": {"text": "?"}}],
    });
    serde_json::from_value(definition).unwrap()
}

fn skill() -> Skill {
    let text = b"---\nname: report\ndescription: x\n---\n".to_vec();
    Skill::from_folder([("SKILL.md".to_owned(), text)].into()).unwrap()
}

fn schedule() -> NewTrigger {
    NewTrigger {
        name: "report".into(),
        target: Some(RunTarget::skill("canary")),
        inputs: serde_json::Map::new(),
        template: None,
        timeout: None,
        times: Some(Times {
            cron: "0 9 * * *".into(),
            time_zone: "UTC".into(),
            missed: MissedPolicy::Skip,
            overlap: Overlap::Skip,
        }),
        enabled: true,
        callback: None,
    }
}

fn with_audit(engine: Engine, path: &Path, reads: bool) -> Engine {
    let counts = engine.counted().audit().clone();
    let audit = Audit::open(&AuditTarget::File(path.to_owned()), reads, counts).unwrap();
    engine.with_audit(audit)
}

fn entries(engine: &Engine, path: &Path) -> Vec<Value> {
    assert!(engine.audit().flush(Duration::from_mins(1)));
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Calls every command but `drain` on things that are not there. The results do not matter here.
async fn call_all(runs: &Runs, who: &Principal) {
    let engine = runs.engine();
    let (kernel, jupyter) = (KernelId::random(), JupyterSessionId::random());
    let session = SessionId::of_first_kernel(kernel);
    let execution = format!("exe_{}_1", kernel.to_string().replace('-', ""))
        .parse()
        .unwrap();
    let run = id_of_run(kernel.0);
    let start = StartSession {
        name: Some("no-such-kernelspec".into()),
        ..StartSession::default()
    };
    let new_token = NewToken {
        tenant: None,
        caller: "x".into(),
        scope: Scope::Read,
        description: "canary".into(),
        lifetime: None,
    };
    let new_credential = NewCredential {
        tenant: None,
        definition: CredentialFields::default(),
        secrets: GivenSecrets {
            value: Some(SecretText::new("canary".into())),
            ..GivenSecrets::default()
        },
    };
    let named = StartSession {
        session_name: Some("x".into()),
        ..start.clone()
    };
    let lists = [
        engine.kernels(who).err(),
        engine.kernel(who, kernel).err(),
        engine.ended_sessions(who).err(),
        engine.budgets(who).err(),
        engine.metrics(who).err(),
        engine.status(who).err(),
        engine.events(who, kernel, None).err(),
        engine.follow_executions(who, kernel, None).err(),
        engine.find_session(who, "no-such-session").err(),
        engine.session_infos(who).err(),
        engine.session_info(who, kernel).err(),
        engine.pools(who).err(),
        engine.provisioners(who).err(),
        engine.session_kernels(who, session).err(),
        engine.session_kernel(who, session, None).err(),
        engine.tokens(who).err(),
        engine.session_started_once(who, "x", &start).err(),
        engine.session_named(who, "x").err(),
        engine.logged_kernel(who, kernel).err(),
        engine.latest_prompts(who).err(),
    ];
    let call = CallTool {
        tool: "canary.x".to_owned(),
        arguments: serde_json::Map::new(),
        timeout_s: None,
        approval: None,
        approval_key: None,
        line: None,
    };
    let text = kernel.to_string();
    let named_kernel = ExecutionTarget::Session {
        session: &text,
        kernel: None,
    };
    let work = async {
        let prompt = &PromptName::Kernel(PromptId { kernel, seq: 1 });
        [
            engine.collect(who, true).await.err(),
            engine.execute(who, kernel, Execute::default()).await.err(),
            engine
                .submit(who, named_kernel, Execute::default(), FeedStart::Now)
                .await
                .err(),
            engine.execution(who, execution).await.err(),
            engine.execution_with_provenance(who, execution).await.err(),
            engine.follow_execution(who, execution, None).await.err(),
            engine.watch_execution(who, execution).await.err(),
            engine.execution_output(who, execution, 0, 1).await.err(),
            engine.execution_text(who, execution, 0).await.err(),
            engine.executions(who, kernel).await.err(),
            engine.interrupt_execution(who, execution).await.err(),
            engine.answer_execution(who, execution, String::new()).await.err(),
            engine.ask_person(who, kernel, question("?")).await.err(),
            engine.open_prompts(who, None, 1).await.err(),
            engine.prompts(who, kernel).await.err(),
            engine.prompt(who, prompt, Duration::ZERO).await.err(),
            engine.answer_prompt(who, prompt, String::new()).await.err(),
            engine.approve_always(who, prompt).await.err(),
            engine.tool_approvals(who).await.err(),
            engine.revoke_tool_approval(who, Uuid::nil()).await.err(),
            engine.tool_servers(who, kernel).await.err(),
            engine.search_tools(who, kernel, None, "canary", 1).await.err(),
            engine.tool_info(who, kernel, "canary.x").await.err(),
            engine.call_tool(who, kernel, call).await.err(),
            engine.artifact(who, &"0".repeat(64)).await.err(),
            engine
                .execution_artifact(who, execution, &"0".repeat(64))
                .await
                .err(),
            engine.artifacts(who, kernel).await.err(),
            engine.read_file(who, kernel, "canary.txt", None).await.err(),
            engine
                .write_file(who, kernel, "canary.txt", BTreeMap::new())
                .await
                .err(),
            engine.list_files(who, kernel, "canary", 1, 1, None).await.err(),
            engine.delete_file(who, kernel, "canary.txt", false).await.err(),
            engine.stat_file(who, kernel, "canary.txt").await.err(),
            engine.make_directory(who, kernel, "canary").await.err(),
            engine.move_file(who, kernel, "canary.txt", "canary").await.err(),
            engine
                .start_process(who, kernel, RunProcess::default())
                .await
                .err(),
            engine.read_archive(who, kernel, "canary").await.err(),
            engine.write_archive(who, kernel, "canary").await.err(),
            engine.history(who, kernel, None, 1).await.err(),
            engine.notebook(who, kernel).await.err(),
            engine.script(who, kernel).await.err(),
            engine.start_kernel(who, start.clone()).await.err(),
            engine.shutdown_kernel(who, kernel).await.err(),
            engine.release_kernel(who, kernel).await.err(),
            engine.interrupt_kernel(who, kernel).await.err(),
            engine.restart_kernel(who, kernel).await.err(),
            engine.attach(who, kernel, Attach::default()).await.err(),
            engine
                .session_owner(who, &ResourceRef::Kernel(kernel))
                .await
                .err(),
            engine.other_replicas(who).await.err(),
            engine.usage(who, None).await.err(),
            engine.variables(who, kernel, 0, 100).await.err(),
            engine
                .variable(who, kernel, "canary", &VariableQuery::default())
                .await
                .err(),
            engine.complete(who, kernel, "canary", None).await.err(),
            engine.inspect(who, kernel, "canary", None, 0).await.err(),
            engine.start_session(who, start.clone()).await.err(),
            engine.start_run_session(who, start.clone()).await.err(),
            engine.put_session(who, named).await.err(),
            engine
                .change_session(who, session, SessionChange::default())
                .await
                .err(),
            engine.session_usage(who, session).await.err(),
            engine.session_memory(who, &[]).await.err(),
            engine.fork_kernel(who, kernel, ForkKernel::default()).await.err(),
            engine.templates(who).await.err(),
            engine
                .start_session_kernel(who, session, NewKernel::default())
                .await
                .err(),
            engine.end_session_kernel(who, session, "canary").await.err(),
            engine.sessions(who).await.err(),
            engine.create_session(who, NewSession::default()).await.err(),
            engine.session(who, jupyter).await.err(),
            engine
                .patch_session(who, jupyter, SessionPatch::default())
                .await
                .err(),
            engine.delete_session(who, jupyter).await.err(),
            engine.kernelspecs(who).await.err(),
            engine.kernelspec(who, "none").await.err(),
            engine.kernelspec_file(who, "none", "x").await.err(),
            engine.create_token(who, new_token).await.err(),
            engine.revoke_token(who, Uuid::from_u128(1)).await.err(),
            engine.set_credential(who, "stripe", new_credential).await.err(),
            engine.delete_credential(who, "stripe", None).await.err(),
            engine
                .begin_grant(who, "stripe", None, "http://127.0.0.1:1/")
                .await
                .err(),
            engine.finish_grant(who, GrantAnswer::default()).await.err(),
            engine.end_grant(who, "stripe", None).await.err(),
            engine.credentials(who, None).await.err(),
            runs.publish_skill(who, &skill()).await.err(),
            runs.delete_skill(who, "report", None).await.err(),
            runs.run_skill(who, "report", RunSkill::default()).await.err(),
            runs.runs(who, RunFilter::default()).await.err(),
            runs.run(who, &run, Duration::ZERO, RunUntil::Ended).await.err(),
            runs.follow_run(who, &run).await.err(),
            runs.cancel_run(who, &run).await.err(),
            runs.draft_skill(who, kernel, &[1], Draft::default()).await.err(),
            runs.skill(who, "report", None).await.err(),
            runs.skills(who, None).await.err(),
            runs.publish_workflow(who, workflow()).await.err(),
            runs.workflow(who, "monthly", None).await.err(),
            runs.workflows(who).await.err(),
            runs.delete_workflow(who, "monthly", None).await.err(),
            runs.run_workflow(who, "monthly", StartRun::default()).await.err(),
            runs.workflow_step(who, &run, "a", 0).await.err(),
            runs.answer_workflow_step(who, &run, "a", String::new())
                .await
                .err(),
            runs.create_trigger(who, Schedule, schedule()).await.err(),
            runs.change_trigger(who, Schedule, "report", TriggerChange::default())
                .await
                .err(),
            runs.delete_trigger(who, Schedule, "report").await.err(),
            runs.run_trigger(who, Schedule, "report", AskedRun::default())
                .await
                .err(),
            runs.redeliver(who, "report").await.err(),
            runs.deliveries(who, DeliveriesOf::Trigger(Schedule), "report")
                .await
                .err(),
            runs.triggers(who, Schedule).await.err(),
            runs.trigger(who, Schedule, "report").await.err(),
        ]
    };
    let worked: [Option<EngineError>; 104] = within("all commands", Box::pin(work)).await.unwrap();
    assert_eq!(
        lists.len() + worked.len() + 1,
        commands().count(),
        "a new command is to be called here"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_is_without_an_entry() {
    let place = TestEngine::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    let engine = with_audit(place.open().await, file.path(), true);
    let runs = Runs::open(engine.clone());
    call_all(&runs, &reader()).await;
    drop(runs);
    engine.drain(&reader(), Drain::KeepKernels).await.unwrap_err();
    let entries = entries(&engine, file.path());
    let names: BTreeSet<&str> = entries
        .iter()
        .map(|entry| entry["command"].as_str().unwrap())
        .collect();
    let all: BTreeSet<&str> = commands().map(|command| command.name).collect();
    assert_eq!(names, all);
    let of_runs = himalia_runs::COMMANDS.iter().map(|command| command.name);
    for name in of_runs {
        let noted = entries.iter().filter(|entry| entry["command"] == name).count();
        assert_eq!(
            noted, 1,
            "{name} is noted once, beside what it asks of the engine"
        );
    }
    for entry in &entries {
        let effect = commands()
            .find(|command| entry["command"] == command.name)
            .unwrap()
            .effect;
        assert_eq!(entry["effect"], effect.as_str());
        assert_eq!(
            (
                &entry["principal"],
                &entry["tenant"],
                &entry["peer"],
                &entry["credential"],
                &entry["request_id"]
            ),
            (
                &"acme/ada".into(),
                &"acme".into(),
                &"192.0.2.7:4321".into(),
                &"token:abc".into(),
                &"r-1".into()
            )
        );
        let changes = effect == Effect::Change && entry["command"] != "release_kernel";
        if changes {
            assert_eq!(
                (&entry["outcome"], &entry["code"]),
                (&"denied".into(), &"forbidden".into()),
                "{entry}"
            );
        }
    }
    let text = std::fs::read_to_string(file.path()).unwrap();
    assert!(
        !text.contains("canary"),
        "no names of files or variables, and no code: {text}"
    );
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_tell_which_session_and_what_came_of_it() {
    let place = TestEngine::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    let engine = with_audit(place.open().await, file.path(), false);
    let kernel = start(&engine).await;
    let wanted = Execute {
        code: "print canary".into(),
        ..Execute::default()
    };
    let id = engine.execute(&op(), kernel, wanted).await.unwrap().id;
    settled(&engine, &op(), id).await;
    // One entry, with the session that a text names.
    let text = kernel.to_string();
    let target = ExecutionTarget::Session {
        session: &text,
        kernel: None,
    };
    let wrong = Execute {
        max_failures: Some(0),
        ..Execute::default()
    };
    let refused = engine.submit(&op(), target, wrong, FeedStart::Now).await;
    refused.unwrap_err();
    engine
        .submit(&op(), target, Execute::default(), FeedStart::Now)
        .await
        .unwrap();
    engine.history(&op(), kernel, None, 1).await.unwrap();
    engine.kernels(&op()).unwrap();
    engine.pools(&reader()).unwrap_err();
    engine
        .shutdown_kernel(&op(), KernelId::random())
        .await
        .unwrap_err();
    {
        // A caller that goes away in the middle of its call.
        let principal = op();
        let gone = engine.restart_kernel(&principal, kernel);
        tokio::select! {
            biased;
            _ = gone => panic!("a restart takes longer"),
            () = tokio::task::yield_now() => {}
        }
    }
    engine.shutdown_kernel(&op(), kernel).await.unwrap();
    let found: Vec<_> = entries(&engine, file.path())
        .iter()
        .map(|entry| {
            let of = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            (
                of("command"),
                of("outcome"),
                of("code"),
                of("session") == kernel.to_string(),
            )
        })
        .collect();
    let entry = |command: &str, outcome: &str, code: &str, about: bool| {
        (command.to_owned(), outcome.to_owned(), code.to_owned(), about)
    };
    assert_eq!(
        found,
        [
            entry("start_kernel", "ok", "", true),
            entry("execute", "ok", "", true),
            entry("submit", "failed", "bad_request", true),
            entry("submit", "ok", "", true),
            entry("history", "ok", "", true),
            entry("pools", "denied", "forbidden", false),
            entry("shutdown_kernel", "failed", "kernel_not_found", false),
            entry("restart_kernel", "cancelled", "", true),
            entry("shutdown_kernel", "ok", "", true),
        ]
    );
    let text = std::fs::read_to_string(file.path()).unwrap();
    assert!(!text.contains("canary"), "{text}");
    let entries = engine.counted().value("himalia_audit_entries_total");
    assert_eq!(entries, Some(9.0));
    stop(engine).await;
}

const BEGIN: &str = "<!-- commands: made by `make metrics` -->\n";
const END: &str = "<!-- commands end -->";

#[test]
fn the_table_of_commands_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/operations.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let mut table = String::from("| effect | commands |\n|---|---|\n");
    for effect in [Effect::Change, Effect::Content, Effect::Look] {
        let names: Vec<String> = commands()
            .filter(|command| command.effect == effect)
            .map(|command| format!("`{}`", command.name))
            .collect();
        writeln!(table, "| {} | {} |", effect.as_str(), names.join(", ")).unwrap();
    }
    table.push_str("\n| cost | commands |\n|---|---|\n");
    let mut costs: Vec<&str> = Vec::new();
    for cost in commands().flat_map(|command| command.costs) {
        if costs.contains(&cost.as_str()) {
            continue;
        }
        costs.push(cost.as_str());
        let taking = commands().filter(|command| command.costs.contains(cost));
        let names: Vec<String> = taking.map(|command| format!("`{}`", command.name)).collect();
        writeln!(table, "| {} | {} |", cost.as_str(), names.join(", ")).unwrap();
    }
    if std::env::var_os("HIMALIA_WRITE_METRICS").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}\n{table}\n{END}{after}")).unwrap();
        return;
    }
    assert_eq!(
        found.trim(),
        table.trim(),
        "docs/operate/operations.md has an old table: make metrics"
    );
}
