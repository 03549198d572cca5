//! The events of all executions of a session, with a scripted kernel.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use common::{TestEngine, op, settled, start, stop};
use himalia_engine::{
    Drain, Engine, Execute, ExecutionEventKind as Kind, ExecutionId, FeedClosed, KernelId, SessionEvent,
    SessionFeed, SessionLimits, StartSession,
};
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;

/// Two segments and a half: the first one goes.
const FLOOD: &str = "print begin\nbinary 10 1000000\nbinary 10 1000000\nbinary 10 1000000\n\
    binary 10 1000000\nbinary 10 1000000\nprint end";

async fn submit(engine: &Engine, kernel: KernelId, code: &str) -> ExecutionId {
    let wanted = Execute {
        code: code.into(),
        ..Execute::default()
    };
    engine.execute(&op(), kernel, wanted).await.unwrap().id
}

fn follow(engine: &Engine, kernel: KernelId, after: u64) -> SessionFeed {
    engine.follow_executions(&op(), kernel, Some(after)).unwrap()
}

async fn next(feed: &mut SessionFeed) -> Result<Vec<SessionEvent>, FeedClosed> {
    within("the next events", feed.next_as(|events| events))
        .await
        .unwrap()
}

/// The events until so many executions have ended.
async fn until_done(feed: &mut SessionFeed, executions: usize) -> Vec<SessionEvent> {
    let mut all = Vec::new();
    let is_done = |one: &SessionEvent| matches!(one.event.kind, Kind::Done { .. });
    while all.iter().filter(|one| is_done(one)).count() < executions {
        all.extend(next(feed).await.unwrap());
    }
    all
}

/// Each event as its execution, by the order of submission, and its word.
fn shown(events: &[SessionEvent], ids: &[ExecutionId]) -> Vec<(usize, &'static str)> {
    let place = |one: &SessionEvent| ids.iter().position(|id| Some(*id) == one.execution).unwrap();
    events
        .iter()
        .map(|one| (place(one), one.event.kind.as_str()))
        .collect()
}

/// The result of the last event.
fn text(events: &[SessionEvent]) -> &str {
    match &events.last().unwrap().event.kind {
        Kind::Done { result } => &result.text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_feed_has_all_executions_from_any_position() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let kernel = start(&engine).await;
    let gate = place.data.path().join("gate");
    let mut live = engine.follow_executions(&op(), kernel, None).unwrap();
    let first = submit(
        &engine,
        kernel,
        &format!("print a\nwait-file {}\nprint b", gate.display()),
    )
    .await;
    let second = submit(&engine, kernel, "eprint c\nresult 1").await;
    std::fs::write(&gate, "").unwrap();
    let ids = [first, second];
    let all = until_done(&mut live, 2).await;
    let mut words = shown(&all, &ids);
    // Text that comes in two pieces may be read together.
    words.dedup();
    assert!(words.starts_with(&[(0, "queued")]), "{words:?}");
    for (id, expected) in [
        (0, vec!["queued", "started", "stdout", "done"]),
        (1, vec!["queued", "started", "stderr", "result", "done"]),
    ] {
        let mut own: Vec<_> = words
            .iter()
            .filter(|(at, _)| *at == id)
            .map(|(_, word)| *word)
            .collect();
        own.dedup();
        assert_eq!(own, expected);
    }
    assert!(
        all.is_sorted_by(|a, b| a.event.seq < b.event.seq),
        "one event of a record: {all:?}"
    );

    // From each position the rest, with results that are whole.
    for (at, one) in all.iter().enumerate().take(all.len() - 1) {
        let left = 2 - usize::from(shown(&all[..=at], &ids).contains(&(0, "done")));
        let rest = until_done(&mut follow(&engine, kernel, one.event.seq), left).await;
        assert_eq!(shown(&rest, &ids).last(), Some(&(1, "done")));
        let mut expected = shown(&all[at + 1..], &ids);
        let mut found = shown(&rest, &ids);
        expected.dedup();
        found.dedup();
        assert_eq!(found, expected, "after {}", one.event.seq);
        assert_eq!(text(&rest), "c\n");
        let first_done = rest
            .iter()
            .find(|one| one.execution == Some(first) && one.event.kind.as_str() == "done");
        if let Some(done) = first_done {
            assert_eq!(
                text(std::slice::from_ref(done)),
                "a\nb\n",
                "its beginning was before the position"
            );
        }
    }
    let mut ended = follow(&engine, kernel, 0);
    until_done(&mut ended, 2).await;
    engine.shutdown_kernel(&op(), kernel).await.unwrap();
    let end = loop {
        if let Err(closed) = next(&mut ended).await {
            break closed;
        }
    };
    assert!(matches!(end, FeedClosed::KernelGone), "{end:?}");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_continues_with_the_next_gateway() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let kernel = start(&engine).await;
    let gate = place.data.path().join("gate");
    let code = format!("print before\nwait-file {}\nprint after", gate.display());
    let id = submit(&engine, kernel, &code).await;
    let mut feed = follow(&engine, kernel, 0);
    let mut seq = 0;
    while engine.execution(&op(), id).await.unwrap().text.is_empty() || seq == 0 {
        seq = next(&mut feed).await.unwrap().last().unwrap().event.seq;
    }
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop((feed, engine));
    let engine = place.open().await;
    let mut feed = follow(&engine, kernel, seq);
    std::fs::write(&gate, "").unwrap();
    let rest = until_done(&mut feed, 1).await;
    assert!(
        rest.iter()
            .all(|one| one.event.seq > seq && one.execution == Some(id))
    );
    assert_eq!(text(&rest), "before\nafter\n");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_quota_took_is_a_gap() {
    let place = TestEngine::new();
    let engine = place.open().await;
    let limits = SessionLimits {
        output_bytes: Some(20 << 20),
        ..SessionLimits::default()
    };
    let wanted = StartSession {
        limits,
        ..StartSession::default()
    };
    let started = within("start", engine.start_kernel(&op(), wanted)).await.unwrap();
    let kernel = started.unwrap().id;
    let early = submit(&engine, kernel, "print early").await;
    settled(&engine, &op(), early).await;
    let flood = submit(&engine, kernel, FLOOD).await;
    settled(&engine, &op(), flood).await;
    let last = submit(&engine, kernel, "print last").await;
    let mut feed = follow(&engine, kernel, 0);
    let first = next(&mut feed).await.unwrap();
    assert_eq!((first[0].execution, first[0].event.kind.as_str()), (None, "gap"));
    let mut all = first;
    while all
        .last()
        .is_none_or(|one| one.execution != Some(last) || one.event.kind.as_str() != "done")
    {
        all.extend(next(&mut feed).await.unwrap());
    }
    assert!(all.iter().all(|one| one.execution != Some(early)));
    let of_flood: Vec<_> = all.iter().filter(|one| one.execution == Some(flood)).collect();
    assert_eq!(
        (of_flood.len(), of_flood[0].event.kind.as_str()),
        (1, "gap"),
        "its beginning is gone"
    );
    assert_eq!(text(&all), "last\n");
    assert_eventually!(
        engine.execution(&op(), flood).await.is_ok(),
        "its result can be read"
    );
    stop(engine).await;
}
