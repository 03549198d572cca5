//! Tenants beside each other: what one has is not there for another, and callers of one share it.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use crate::common;

use std::time::Duration;

use common::{TestEngine, op, question, settled, stop, until_state};
use himalia_engine::{
    Attach, Drain, Engine, EngineError, Execute, ExecutionId, ExecutionResult, ForkFiles, ForkKernel,
    ForkPolicy, KernelId, KernelRef, NewSession, Origin, Principal, PromptId, PromptName, SessionChange,
    SessionId, SessionPatch, StartSession, TenantLimits, VariableQuery,
};

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

fn named(name: &str) -> StartSession {
    StartSession {
        name: Some("late".into()),
        session_name: Some(name.into()),
        origin: Origin::V1,
        ..StartSession::default()
    }
}

async fn session(engine: &Engine, principal: &Principal, name: &str) -> KernelId {
    let started = engine.start_session(principal, named(name)).await.unwrap();
    until_state(engine, started.kernel.id, "idle").await;
    started.kernel.id
}

async fn run(engine: &Engine, principal: &Principal, kernel: KernelId, code: &str) -> ExecutionResult {
    let wanted = Execute {
        code: code.into(),
        ..Execute::default()
    };
    let id = engine.execute(principal, kernel, wanted).await.unwrap().id;
    settled(engine, principal, id).await
}

fn keyed(code: &str) -> Execute {
    Execute {
        code: code.into(),
        key: Some("one".into()),
        ..Execute::default()
    }
}

fn artifact_of(result: &ExecutionResult) -> String {
    let name = result.outputs[0].data["image/png"]["artifact"].as_str().unwrap();
    name.strip_prefix("sha256:").unwrap().to_owned()
}

/// What every command by an id answers, as text.
async fn answers(engine: &Engine, who: &Principal, id: KernelId, execution: ExecutionId) -> Vec<String> {
    fn said<T>(answer: Result<T, EngineError>) -> String {
        answer.map_or_else(
            |error| format!("{}: {error}", error.code()),
            |_| "found".to_owned(),
        )
    }
    let prompt = &PromptName::Kernel(PromptId { kernel: id, seq: 1 });
    let fork = ForkKernel {
        count: 1,
        policy: ForkPolicy::Report,
        files: ForkFiles::Share,
        ..ForkKernel::default()
    };
    let attach = Attach {
        wire_session: "w".into(),
        after: None,
    };
    vec![
        said(engine.kernel(who, id)),
        said(engine.session_info(who, id)),
        said(engine.session_usage(who, SessionId::of_first_kernel(id)).await),
        said(
            engine
                .change_session(who, SessionId::of_first_kernel(id), SessionChange::default())
                .await,
        ),
        said(engine.fork_kernel(who, id, fork).await),
        said(engine.interrupt_kernel(who, id).await),
        said(engine.restart_kernel(who, id).await),
        said(engine.attach(who, id, attach).await),
        said(engine.events(who, id, None)),
        said(engine.execute(who, id, Execute::default()).await),
        said(engine.executions(who, id).await),
        said(engine.history(who, id, None, 10).await),
        said(engine.artifacts(who, id).await),
        said(engine.execution_artifact(who, execution, &"0".repeat(64)).await),
        said(engine.notebook(who, id).await),
        said(engine.script(who, id).await),
        said(engine.variables(who, id, 0, 100).await),
        said(engine.variable(who, id, "x", &VariableQuery::default()).await),
        said(engine.complete(who, id, "x", None).await),
        said(engine.inspect(who, id, "x", None, 0).await),
        said(engine.read_file(who, id, "x", None).await),
        said(engine.write_file(who, id, "x", BTreeMap::new()).await),
        said(engine.list_files(who, id, "", 1, 1, None).await),
        said(engine.delete_file(who, id, "x", false).await),
        said(engine.read_archive(who, id, "").await),
        said(engine.write_archive(who, id, "").await),
        said(engine.execution(who, execution).await),
        said(engine.execution_output(who, execution, 0, 1).await),
        said(engine.follow_execution(who, execution, None).await),
        said(engine.interrupt_execution(who, execution).await),
        said(engine.answer_execution(who, execution, "x".into()).await),
        said(engine.ask_person(who, id, question("?")).await),
        said(engine.prompts(who, id).await),
        said(engine.prompt(who, prompt, Duration::ZERO).await),
        said(engine.answer_prompt(who, prompt, "x".into()).await),
        said(engine.approve_always(who, prompt).await),
        said(engine.release_kernel(who, id).await),
        said(engine.shutdown_kernel(who, id).await),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_tenant_has_is_as_if_it_never_was() {
    let place = TestEngine::with(|config| config.retention.time = Duration::from_hours(24));
    let engine = place.open().await;
    let kernel = session(&engine, &ada(), "analysis").await;
    let done = run(&engine, &ada(), kernel, "display image/png 4000").await;
    let artifact = artifact_of(&done);

    let strange = ExecutionId {
        kernel: KernelId::random(),
        seq: done.id.seq,
    };
    let text = |answers: Vec<String>, id: ExecutionId| -> Vec<String> {
        let plain = id.to_string();
        let hide = |said: String| said.replace(&plain, "E").replace(&id.kernel.to_string(), "K");
        answers.into_iter().map(hide).collect()
    };
    let foreign = text(answers(&engine, &eve(), kernel, done.id).await, done.id);
    let unknown = text(answers(&engine, &eve(), strange.kernel, strange).await, strange);
    assert_eq!(foreign, unknown);
    assert!(
        foreign
            .iter()
            .all(|said| said.starts_with("kernel_not_found: ") || said.starts_with("execution_not_found: ")),
        "{foreign:?}"
    );

    assert!(engine.kernels(&eve()).unwrap().is_empty());
    assert!(engine.session_infos(&eve()).unwrap().is_empty());
    assert_eq!(engine.status(&eve()).unwrap().kernels, 0);
    assert_eq!(
        engine.artifact(&eve(), &artifact).await.unwrap_err().code(),
        "artifact_not_found"
    );
    assert_eq!(
        engine.find_session(&eve(), "analysis").unwrap_err().code(),
        "session_not_found"
    );
    for refused in [
        engine.pools(&eve()).unwrap_err(),
        engine.collect(&eve(), true).await.unwrap_err(),
        engine.drain(&eve(), Drain::StopKernels).await.unwrap_err(),
    ] {
        assert_eq!(refused.code(), "forbidden");
    }

    // Its name is free there, and leads to another session.
    let own = session(&engine, &eve(), "analysis").await;
    assert_ne!(own, kernel);
    assert_eq!(
        engine.find_session(&eve(), "analysis").unwrap(),
        SessionId::of_first_kernel(own)
    );
    assert_eq!(
        engine.find_session(&bob(), "analysis").unwrap(),
        SessionId::of_first_kernel(kernel)
    );
    assert_eq!(
        engine.find_session(&op(), "analysis").unwrap_err().code(),
        "session_not_found"
    );
    // The same content of one's own is found.
    let same = run(&engine, &eve(), own, "display image/png 4000").await;
    assert_eq!(artifact_of(&same), artifact);
    assert!(engine.artifact(&eve(), &artifact).await.is_ok());

    // The operator sees both, by their ids. Another caller of the tenant, too; and nothing had happened to it.
    assert_eq!(engine.kernels(&op()).unwrap().len(), 2);
    assert_eq!(engine.execution(&op(), done.id).await.unwrap().caller, "acme/ada");
    let again = run(&engine, &bob(), kernel, "result 1").await;
    assert_eq!((again.execution_count, again.kernel.incarnation), (Some(2), 1));
    let owners: Vec<String> = engine
        .session_infos(&op())
        .unwrap()
        .into_iter()
        .map(|info| info.session.owner)
        .collect();
    assert_eq!(owners, ["acme", "evil"]);

    // Its end changes nothing.
    engine.shutdown_kernel(&bob(), kernel).await.unwrap();
    assert!(engine.execution(&bob(), done.id).await.is_ok());
    assert!(engine.artifact(&bob(), &artifact).await.is_ok());
    let foreign = text(answers(&engine, &eve(), kernel, done.id).await, done.id);
    assert_eq!(foreign, unknown);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn choosing_an_id_tells_a_tenant_nothing() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let hers = session(&engine, &ada(), "analysis").await;
    let chosen = |id| StartSession {
        id: Some(id),
        ..named("mine")
    };
    let jupyter = |id: KernelId| NewSession {
        kernel: KernelRef {
            id: Some(id),
            name: Some("late".into()),
        },
        ..at("chosen.ipynb")
    };
    // An id that another tenant's kernel has answers as a new one does, on every call that takes one.
    let mut said = Vec::new();
    for id in [hers, KernelId::random()] {
        let answers = [
            engine.start_kernel(&eve(), chosen(id)).await.unwrap_err(),
            engine.start_session(&eve(), chosen(id)).await.unwrap_err(),
        ];
        said.push(answers.map(|error| format!("{}: {error}", error.code())));
        // A document's kernel is a new one where the id leads to none, as in Jupyter.
        let model = engine.create_session(&eve(), jupyter(id)).await.unwrap();
        assert_ne!(model.kernel.id, id);
        engine.delete_session(&eve(), model.id).await.unwrap();
    }
    assert_eq!(said[0], said[1]);
    assert!(
        said[0].iter().all(|said| said.starts_with("forbidden: ")),
        "{said:?}"
    );
    // The operator, who sees all of them, may choose.
    let taken = engine.start_kernel(&op(), chosen(hers)).await.unwrap_err();
    assert_eq!(taken.code(), "conflict");
    let id = KernelId::random();
    assert_eq!(engine.start_kernel(&op(), chosen(id)).await.unwrap().id, id);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_of_one_session_take_turns_and_are_told_apart() {
    let place = TestEngine::new();
    let mut engine = place.open().await;
    let kernel = session(&engine, &ada(), "shared").await;
    let gate = place.data.path().join("gate");
    let hold = Execute {
        code: format!("wait-file {}\nprint first", gate.display()),
        ..Execute::default()
    };
    let first = engine.execute(&ada(), kernel, hold).await.unwrap().id;
    let second = engine
        .execute(&bob(), kernel, keyed("print second"))
        .await
        .unwrap();
    let third = engine
        .execute(&ada(), kernel, keyed("print third"))
        .await
        .unwrap();
    // A key is its caller's own.
    assert!(!second.repeated && !third.repeated && second.id != third.id);
    let repeated = engine
        .execute(&bob(), kernel, keyed("print second"))
        .await
        .unwrap();
    assert_eq!((repeated.repeated, repeated.id), (true, second.id));
    assert_eq!(
        engine.execution(&bob(), third.id).await.unwrap().position,
        Some(2)
    );
    std::fs::write(&gate, "").unwrap();
    settled(&engine, &bob(), third.id).await;

    // The next gateway knows it, too.
    for _ in 0..2 {
        let listed = engine.executions(&bob(), kernel).await.unwrap();
        let listed: Vec<_> = listed.iter().map(|one| (one.id, one.caller.as_str())).collect();
        let wanted = [
            (first, "acme/ada"),
            (second.id, "acme/bob"),
            (third.id, "acme/ada"),
        ];
        assert_eq!(listed, wanted);
        let ran = engine.history(&ada(), kernel, None, 10).await.unwrap().history;
        let callers: Vec<_> = ran.iter().map(|one| one.caller.as_deref().unwrap()).collect();
        assert_eq!(callers, ["acme/ada", "acme/bob", "acme/ada"]);
        assert_eq!(
            engine.execution(&ada(), second.id).await.unwrap().caller,
            "acme/bob"
        );
        let again = engine
            .execute(&bob(), kernel, keyed("print second"))
            .await
            .unwrap();
        assert_eq!((again.repeated, again.id), (true, second.id));
        engine.drain(&op(), Drain::KeepKernels).await.unwrap();
        drop(engine);
        engine = place.open().await;
        until_state(&engine, kernel, "idle").await;
    }
    assert_eq!(
        engine.find_session(&bob(), "shared").unwrap(),
        SessionId::of_first_kernel(kernel)
    );
    assert_eq!(
        engine.kernel(&eve(), kernel).unwrap_err().code(),
        "kernel_not_found"
    );
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_executions_of_one_caller_do_not_delay_anothers_first() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let kernel = session(&engine, &ada(), "shared").await;
    let gate = place.data.path().join("gate");
    let hold = format!("wait-file {}", gate.display());
    let codes = std::iter::once(hold).chain((0..50).map(|number| format!("print {number}")));
    let mut hers = Vec::new();
    for code in codes {
        let wanted = Execute {
            code,
            // What her client calls itself makes no other caller of it.
            client: Some(format!("client {}", hers.len())),
            ..Execute::default()
        };
        hers.push(engine.execute(&ada(), kernel, wanted).await.unwrap().id);
    }
    let his = engine.execute(&bob(), kernel, keyed("print his")).await.unwrap();
    let position = engine.execution(&bob(), his.id).await.unwrap().position;
    assert_eq!(position, Some(2), "behind the one that runs and one of the fifty");
    std::fs::write(&gate, "").unwrap();
    settled(&engine, &ada(), hers[50]).await;
    let ran = engine.history(&ada(), kernel, None, 100).await.unwrap().history;
    let ran: Vec<_> = ran.iter().map(|one| one.id.unwrap()).collect();
    let wanted = [&hers[..2], &[his.id], &hers[2..]].concat();
    assert_eq!(ran, wanted);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_limit_binds_it_alone_and_outlives_the_gateway() {
    let place = TestEngine::with(|config| {
        config.tenants.insert(
            "acme".into(),
            TenantLimits {
                max_kernels: Some(2),
                ..TenantLimits::default()
            },
        );
    });
    let engine = place.open().await;
    let kernel = session(&engine, &ada(), "one").await;
    // The operator's fork of it is the tenant's.
    let fork = ForkKernel {
        count: 1,
        policy: ForkPolicy::Report,
        files: ForkFiles::Share,
        ..ForkKernel::default()
    };
    let made = engine.fork_kernel(&op(), kernel, fork.clone()).await.unwrap();
    let branch = made.into_iter().next().unwrap().unwrap().session;
    assert_eq!(branch.session.owner, "acme");
    assert!(engine.kernel(&bob(), branch.kernel.id).is_ok());
    let refused = "the limit of 2 kernels of the tenant acme is reached";
    for _ in 0..2 {
        let error = engine.start_session(&bob(), named("two")).await.unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("kernel_limit", refused)
        );
    }
    let error = engine.fork_kernel(&ada(), kernel, fork).await.unwrap();
    assert_eq!(error[0].as_ref().unwrap_err().to_string(), refused);
    session(&engine, &eve(), "two").await;

    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);
    let engine = place.open().await;
    let error = engine.start_session(&ada(), named("two")).await.unwrap_err();
    assert_eq!(error.to_string(), refused);
    engine.shutdown_kernel(&ada(), branch.kernel.id).await.unwrap();
    session(&engine, &ada(), "two").await;
    stop(engine).await;
}

fn at(path: &str) -> NewSession {
    NewSession {
        path: path.into(),
        kind: "notebook".into(),
        ..NewSession::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jupyter_sessions_are_their_tenants() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let mine = engine.create_session(&ada(), at("a.ipynb")).await.unwrap();
    let theirs = engine.create_session(&eve(), at("a.ipynb")).await.unwrap();
    assert!(mine.id != theirs.id && mine.kernel.id != theirs.kernel.id);
    assert_eq!(
        engine.create_session(&bob(), at("a.ipynb")).await.unwrap().id,
        mine.id
    );
    assert_eq!(engine.sessions(&eve()).await.unwrap().len(), 1);
    assert!(engine.sessions(&op()).await.unwrap().is_empty());
    for error in [
        engine.session(&eve(), mine.id).await.unwrap_err(),
        engine
            .patch_session(&eve(), mine.id, SessionPatch::default())
            .await
            .unwrap_err(),
        engine.delete_session(&eve(), mine.id).await.unwrap_err(),
    ] {
        assert_eq!(error.to_string(), format!("Session does not exist: {}", mine.id));
    }
    // No tenant gets another's kernel by naming it.
    let wanted = KernelRef {
        id: Some(mine.kernel.id),
        name: None,
    };
    let patch = SessionPatch {
        kernel: Some(wanted.clone()),
        ..SessionPatch::default()
    };
    let error = engine.patch_session(&eve(), theirs.id, patch).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("kernel.id: No such kernel: {}", mine.kernel.id)
    );
    let new = NewSession {
        kernel: wanted,
        ..at("b.ipynb")
    };
    // As with an id that no kernel has, it is a kernel of the session's own.
    let own = engine.create_session(&eve(), new).await.unwrap();
    assert_ne!(own.kernel.id, mine.kernel.id);
    engine.delete_session(&eve(), own.id).await.unwrap();
    assert_eq!(engine.sessions(&eve()).await.unwrap().len(), 1);

    // A kernel that the operator gives a tenant's session is the tenant's.
    let patch = SessionPatch {
        kernel: Some(KernelRef {
            id: None,
            name: Some("late".into()),
        }),
        ..SessionPatch::default()
    };
    let changed = engine.patch_session(&op(), mine.id, patch).await.unwrap();
    assert!(engine.kernel(&bob(), changed.kernel.id).is_ok());
    engine.delete_session(&bob(), mine.id).await.unwrap();
    assert_eq!(engine.sessions(&eve()).await.unwrap().len(), 1);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_of_one_tenant_wait_for_their_turn_and_those_of_others_do_not() {
    let place = TestEngine::with(|config| {
        config.max_kernels = 1000;
        let mut limits = TenantLimits::default();
        limits.share.starts_per_second = 1000;
        config.tenants.insert("evil".into(), limits);
    });
    // It is never ready, so each start takes its turn for as long as a start may.
    let fake = himalia_testkit::binaries::fake_kernel().unwrap();
    place.kernelspec(
        "mute",
        &serde_json::json!({
            "argv": [fake, "-f", "{connection_file}", "--mute"], "display_name": "Mute", "language": "script",
        }),
    );
    let engine = place.open().await;
    let processors = std::thread::available_parallelism().unwrap().get().max(2);
    let mut starts = tokio::task::JoinSet::new();
    // Half of the processors and 64 that wait, and one more.
    for _ in 0..=processors / 2 + 64 {
        let engine = engine.clone();
        let wanted = StartSession {
            name: Some("mute".into()),
            ..StartSession::default()
        };
        starts.spawn(async move { engine.start_kernel(&eve(), wanted).await });
    }
    let mut started = 0;
    let refused = loop {
        match starts.join_next().await.unwrap().unwrap() {
            Ok(_) => started += 1,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(refused, EngineError::OverBudget { what: "starts", .. }),
        "{refused}"
    );
    assert_eq!(
        refused.to_string(),
        "64 starts of kernels of evil wait for a turn"
    );
    for who in [ada(), op()] {
        let first = engine.start_kernel(&who, StartSession::default()).await.unwrap();
        until_state(&engine, first.id, "idle").await;
    }
    while let Some(done) = starts.try_join_next() {
        assert!(done.unwrap().is_ok());
        started += 1;
    }
    assert!(started < 64, "{started} of Eve's were first");
    // Those that no caller waits for any more are not made.
    starts.abort_all();
    while starts.join_next().await.is_some() {}
    stop(engine).await;
    himalia_testkit::assert_eventually!(place.is_clean(), "something is left");
}
