//! Executions of the native API, with a scripted kernel.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use std::time::Duration;

use common::{Client, TestEngine, op, settled, state, stop, until_state};
use himalia_engine::{
    Drain, Engine, EngineError, Execute, ExecutionEvent, ExecutionEventKind as Kind, ExecutionFeed,
    ExecutionId, ExecutionResult, ExecutionStatus as Status, ExecutionTarget, FeedStart, KernelId, OnTimeout,
    Origin, StartSession, WaitUntil,
};
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;

async fn session(engine: &Engine) -> KernelId {
    let wanted = StartSession {
        origin: Origin::V1,
        ..StartSession::default()
    };
    let started = within("start", engine.start_kernel(&op(), wanted)).await.unwrap();
    started.unwrap().id
}

fn code(code: &str) -> Execute {
    Execute {
        code: code.into(),
        ..Execute::default()
    }
}

fn keyed(text: &str) -> Execute {
    Execute {
        key: Some("k".into()),
        ..code(text)
    }
}

async fn submit(engine: &Engine, kernel: KernelId, wanted: Execute) -> ExecutionId {
    let principal = op();
    let submitted = within("submit", engine.execute(&principal, kernel, wanted))
        .await
        .unwrap();
    submitted.unwrap().id
}

async fn run(engine: &Engine, kernel: KernelId, wanted: Execute) -> ExecutionResult {
    let id = submit(engine, kernel, wanted).await;
    settled(engine, &op(), id).await
}

async fn result(engine: &Engine, id: ExecutionId) -> ExecutionResult {
    engine.execution(&op(), id).await.unwrap()
}

/// All events after a record, to the last one.
async fn events(engine: &Engine, id: ExecutionId, after: Option<u64>) -> Vec<ExecutionEvent> {
    told(engine.follow_execution(&op(), id, after).await.unwrap()).await
}

async fn told(mut feed: ExecutionFeed) -> Vec<ExecutionEvent> {
    let mut all = Vec::new();
    while let Some(events) = within("the next events", feed.next()).await.unwrap().unwrap() {
        all.extend(events);
    }
    all
}

fn words(events: &[ExecutionEvent]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_has_what_the_code_did_and_can_be_read_again() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let kernel = session(&engine).await;
    let done = run(
        &engine,
        kernel,
        code("print hello\neprint oh\ndisplay image/png 8\nresult 42"),
    )
    .await;
    assert_eq!(
        (done.status, done.ran, done.text.as_str()),
        (Status::Ok, true, "hello\noh\n")
    );
    assert_eq!((done.execution_count, done.kernel.incarnation), (Some(1), 1));
    assert_eq!(done.kernel.replaced, None);
    let shown = &done.outputs[0].data["image/png"];
    assert_eq!(shown["bytes"], 6);
    let sha256 = shown["artifact"]
        .as_str()
        .unwrap()
        .strip_prefix("sha256:")
        .unwrap();
    let artifact = engine.artifact(&op(), sha256).await.unwrap();
    assert_eq!((artifact.media_type(), artifact.size()), ("image/png", 6));
    assert_eq!(artifact.read(0, 100).await.unwrap().len(), 6);
    assert!(engine.artifact(&op(), &"0".repeat(64)).await.is_err());
    assert_eq!(done.outputs[1].data["text/plain"], "42");

    let failed = run(&engine, kernel, code("error ValueError no such thing")).await;
    let error = failed.error.unwrap();
    assert_eq!((failed.status, failed.failed_before), (Status::Error, 0));
    assert_eq!(
        (error.name.as_str(), error.value.as_str()),
        ("ValueError", "no such thing")
    );
    let failed = run(&engine, kernel, code("error ValueError no such thing")).await;
    assert_eq!((failed.failed_before, failed.failures_in_a_row), (1, 2));
    let limited = Execute {
        max_failures: Some(2),
        ..code("print again")
    };
    let refused = engine.execute(&op(), kernel, limited).await.unwrap_err();
    assert_eq!((refused.code(), refused.retryable()), ("failure_limit", false));
    let (_, provenance) = engine.execution_with_provenance(&op(), done.id).await.unwrap();
    assert_eq!(provenance.kernelspec, engine.kernel(&op(), kernel).unwrap().name);

    let list = engine.executions(&op(), kernel).await.unwrap();
    let list: Vec<_> = list
        .iter()
        .map(|brief| (brief.status, brief.title.as_str()))
        .collect();
    assert_eq!(list[0], (Status::Ok, "print hello"));
    assert_eq!((list.len(), list[2].0), (3, Status::Error));
    let again = result(&engine, done.id).await;
    assert_eq!(
        serde_json::to_value(again).unwrap(),
        serde_json::to_value(done).unwrap()
    );
    stop(engine).await;
    assert_eventually!(place.is_clean(), "something is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_text_is_cut_to_the_budget_and_can_be_paged() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let kernel = session(&engine).await;
    let done = run(
        &engine,
        kernel,
        Execute {
            text_chars: 100,
            ..code("count 5000")
        },
    )
    .await;
    let lines: Vec<String> = (0..5000).map(|line| line.to_string()).collect();
    let whole = lines.join("\n") + "\n";
    let cut = done.truncated.unwrap();
    assert_eq!(
        (cut.bytes_total, cut.bytes_shown, cut.from),
        (whole.len() as u64, 100, 50)
    );
    assert!(done.text.starts_with(&whole[..50]) && done.text.ends_with(&whole[whole.len() - 50..]));
    assert!(
        done.text
            .contains(&format!("/v1/executions/{}/output?cursor=50", done.id))
    );
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let page = engine
            .execution_output(&op(), done.id, offset, 7000)
            .await
            .unwrap();
        assert!(page.complete && page.bytes_total == whole.len() as u64);
        text.push_str(&page.text);
        offset = page.next;
        if offset == page.bytes_total {
            break;
        }
    }
    assert_eq!(text, whole);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_and_what_waits_goes_on_under_the_next_gateway() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let kernel = session(&engine).await;
    let (gate, log) = (place.data.path().join("gate"), place.data.path().join("log"));
    let text = format!(
        "append {0} x\nprint before\nwait-file {1}\nprint after",
        log.display(),
        gate.display()
    );
    let first = submit(&engine, kernel, code(&text)).await;
    let second = submit(&engine, kernel, keyed("print second")).await;
    assert_eventually!(
        result(&engine, first).await.text == "before\n",
        "nothing was printed"
    );
    let waits = result(&engine, second).await;
    assert_eq!(
        (waits.status, waits.position, waits.ran),
        (Status::Queued, Some(1), false)
    );
    let mut feed = engine.follow_execution(&op(), second, None).await.unwrap();
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    assert!(
        within("the end of a feed", feed.wait(WaitUntil::Settled))
            .await
            .unwrap()
            .is_err()
    );
    drop((feed, engine));

    let engine = place.open().await;
    assert_eq!(result(&engine, first).await.status, Status::Running);
    std::fs::write(&gate, "").unwrap();
    let done = settled(&engine, &op(), first).await;
    assert_eq!((done.status, done.text.as_str()), (Status::Ok, "before\nafter\n"));
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "x\n", "it ran once");
    let done = settled(&engine, &op(), second).await;
    assert_eq!(
        (done.status, done.text.as_str(), done.kernel.incarnation),
        (Status::Ok, "second\n", 1)
    );
    let again = engine
        .execute(&op(), kernel, keyed("print second"))
        .await
        .unwrap();
    assert_eq!((again.id, again.repeated), (second, true));
    let other = engine.execute(&op(), kernel, keyed("print other")).await;
    assert!(matches!(other, Err(EngineError::KeyReused)), "{other:?}");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_command_submits_and_follows() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let wanted = StartSession {
        origin: Origin::V1,
        session_name: Some("eda".into()),
        ..StartSession::default()
    };
    let (info, _) = engine.put_session(&op(), wanted).await.unwrap();
    let id = info.kernel.id.to_string();
    let submit = async |session: &str, kernel: Option<&str>, from: FeedStart| {
        let target = ExecutionTarget::Session { session, kernel };
        engine.submit(&op(), target, keyed("print a"), from).await
    };
    let (first, feed) = submit("eda", None, FeedStart::Beginning).await.unwrap();
    assert!(!first.repeated);
    let all = told(feed).await;
    let seqs = |events: &[ExecutionEvent]| events.iter().map(|event| event.seq).collect::<Vec<_>>();
    assert_eq!(seqs(&all), seqs(&events(&engine, first.id, None).await));
    assert_eq!(words(&all).last(), Some(&"done"));
    for kernel in [None, Some(&*id)] {
        let (again, feed) = submit(&id, kernel, FeedStart::Beginning).await.unwrap();
        assert_eq!((again.id, again.repeated), (first.id, true));
        assert_eq!(seqs(&told(feed).await), seqs(&all));
        let (_, feed) = submit(&id, kernel, FeedStart::Now).await.unwrap();
        assert_eq!(feed.result().text, "a\n");
        assert!(told(feed).await.is_empty());
    }
    let target = ExecutionTarget::Kernel(info.kernel.id);
    let (again, _) = engine
        .submit(&op(), target, keyed("print a"), FeedStart::Now)
        .await
        .unwrap();
    assert_eq!(again.id, first.id);
    let other = KernelId::random().to_string();
    for (session, kernel, what) in [
        ("no", None, "Session"),
        (&*other, None, "Session"),
        ("eda", Some(&*other), "Kernel"),
    ] {
        let refused = submit(session, kernel, FeedStart::Now).await.unwrap_err();
        assert!(
            matches!(refused, EngineError::NotFound { what: found, .. } if found == what),
            "{session} {kernel:?}: {refused:?}"
        );
    }
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_go_on_after_any_of_them() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let kernel = session(&engine).await;
    let id = submit(
        &engine,
        kernel,
        code("print a\neprint b\nclear\nresult 1\nerror E x"),
    )
    .await;
    let all = events(&engine, id, None).await;
    assert_eq!(
        words(&all),
        [
            "queued",
            "started",
            "stdout",
            "stderr",
            "clear_output",
            "result",
            "exception",
            "done"
        ]
    );
    assert!(all.is_sorted_by_key(|event| event.seq));
    for (at, event) in all.iter().enumerate() {
        let rest = events(&engine, id, Some(event.seq)).await;
        assert_eq!(words(&rest), words(&all[at + 1..]));
    }
    let Kind::Done { result } = &all[7].kind else {
        panic!()
    };
    assert_eq!((result.status, result.text.as_str()), (Status::Error, ""));
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_is_over_with_an_interrupt_or_without() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let kernel = session(&engine).await;
    let short = |text: &str, on_timeout| Execute {
        timeout: Some(Duration::from_millis(50)),
        on_timeout,
        ..code(text)
    };
    let done = run(&engine, kernel, short("set x 1\nhang", OnTimeout::Interrupt)).await;
    assert_eq!(
        (done.status, done.error.unwrap().name.as_str()),
        (Status::Timeout, "KeyboardInterrupt")
    );
    let gate = place.data.path().join("gate");
    let text = format!("wait-file {}\nget x", gate.display());
    let detached = run(&engine, kernel, short(&text, OnTimeout::Detach)).await;
    assert_eq!((detached.status, detached.detached), (Status::Running, true));
    std::fs::write(&gate, "").unwrap();
    assert_eventually!(
        result(&engine, detached.id).await.status == Status::Ok,
        "it did not continue"
    );
    assert_eq!(
        result(&engine, detached.id).await.text,
        "1\n",
        "the variables are still there"
    );

    let id = submit(&engine, kernel, code("hang")).await;
    let waiting = submit(&engine, kernel, code("print never")).await;
    assert!(engine.interrupt_execution(&op(), waiting).await.unwrap());
    let never = settled(&engine, &op(), waiting).await;
    assert_eq!((never.status, never.ran), (Status::Interrupted, false));
    assert!(engine.interrupt_execution(&op(), id).await.unwrap());
    assert_eq!(settled(&engine, &op(), id).await.status, Status::Interrupted);
    assert!(!engine.interrupt_execution(&op(), id).await.unwrap());
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_can_ask_and_be_answered() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let kernel = session(&engine).await;
    let id = submit(
        &engine,
        kernel,
        Execute {
            allow_stdin: true,
            ..code("input name?")
        },
    )
    .await;
    assert_eventually!(result(&engine, id).await.input.is_some(), "it asks nothing");
    assert_eq!(result(&engine, id).await.input.unwrap().prompt, "name?");
    engine.answer_execution(&op(), id, "Ada".into()).await.unwrap();
    let done = settled(&engine, &op(), id).await;
    assert_eq!((done.text.as_str(), done.input), ("input: Ada\n", None));
    let late = engine.answer_execution(&op(), id, "x".into()).await.unwrap_err();
    assert!(matches!(late, EngineError::Conflict { .. }), "{late}");
    let done = run(&engine, kernel, code("input name?")).await;
    assert_eq!(done.error.unwrap().name, "StdinNotImplementedError");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_is_told_and_the_next_execution_knows_of_it() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let kernel = session(&engine).await;
    let id = submit(&engine, kernel, code("print last words\nexit 3")).await;
    let queued = submit(&engine, kernel, code("print never")).await;
    let dead = settled(&engine, &op(), id).await;
    let death = dead.death.unwrap();
    assert_eq!(
        (dead.status, dead.text.as_str()),
        (Status::KernelDied, "last words\n")
    );
    assert!(death.cause.starts_with("exit(3)"), "{}", death.cause);
    assert_eq!((death.incarnation, death.next_incarnation), (1, 2));
    let never = settled(&engine, &op(), queued).await;
    assert_eq!((never.status, never.ran), (Status::KernelDied, false));
    // It stays so, since no client has used it.
    assert_eventually!(state(&engine, kernel) == "dead", "it came back");
    let stale = Execute {
        expect_incarnation: Some(1),
        ..code("print x")
    };
    let stale = engine.execute(&op(), kernel, stale).await.unwrap_err();
    assert!(
        matches!(
            stale,
            EngineError::IncarnationMismatch {
                expected: 1,
                incarnation: 2
            }
        ),
        "{stale}"
    );
    let next = run(
        &engine,
        kernel,
        Execute {
            expect_incarnation: Some(2),
            ..code("print on")
        },
    )
    .await;
    assert_eq!((next.status, next.kernel.incarnation), (Status::Ok, 2));
    let replaced = next.kernel.replaced.unwrap();
    assert_eq!(replaced.incarnation, 1);
    assert!(replaced.cause.unwrap().starts_with("exit(3)"));
    let id = submit(&engine, kernel, code("hang")).await;
    assert_eventually!(
        result(&engine, id).await.status == Status::Running,
        "it does not run"
    );
    engine.restart_kernel(&op(), kernel).await.unwrap();
    // By the interrupt that a polite stop begins with, or by the end of its process.
    let lost = settled(&engine, &op(), id).await;
    assert!(
        matches!(lost.status, Status::Interrupted | Status::KernelDied),
        "{:?}",
        lost.status
    );
    let next = run(&engine, kernel, code("print on")).await;
    assert_eq!((next.status, next.kernel.incarnation), (Status::Ok, 3));
    assert_eq!(next.kernel.replaced.unwrap().incarnation, 2);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn anothers_failure_aborts_nothing() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let kernel = session(&engine).await;
    let mut client = Client::attach(&engine, kernel, "notebook").await;
    let gate = place.data.path().join("gate");
    let cell = client
        .execute(&format!("wait-file {}\nerror ValueError x", gate.display()))
        .await;
    until_state(&engine, kernel, "busy").await;
    let id = submit(&engine, kernel, code("print mine")).await;
    let mut feed = engine.events(&op(), kernel, Some(id.seq)).unwrap();
    // Its request is with the kernel when the cell fails.
    let mut sent = false;
    while !sent {
        let events = within("the request", feed.next()).await.unwrap().unwrap();
        sent = events
            .iter()
            .any(|event| event.kind == himalia_engine::EventKind::Request);
    }
    std::fs::write(&gate, "").unwrap();
    client.finish(&cell).await;
    let done = settled(&engine, &op(), id).await;
    assert_eq!((done.status, done.text.as_str()), (Status::Ok, "mine\n"));
    drop((client, feed));
    stop(engine).await;
}
