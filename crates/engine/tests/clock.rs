//! Sessions end by the time that has passed, whatever the wall clock says.
//!
//! A program of its own: its clock is that of the whole process.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "suite/common/mod.rs"]
mod common;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::{TestEngine, op, settled, start, state, stop, until_state};
use himalia_engine::{
    Clock, Engine, Execute, ExecutionId, KernelId, Origin, Overdue, SessionChange, SessionId, StartSession,
    TimeChange, TimeSource,
};
use himalia_testkit::assert_eventually;

const HOUR: Duration = Duration::from_hours(1);
const DAY: i64 = 24 * 3600 * 1_000_000;
/// Looks of the engine's two tasks that end sessions: some rounds of each, the one that is skipped included.
const ROUNDS: u64 = 10;

#[derive(Debug)]
struct Hands {
    begun: Instant,
    /// What the wall clock is wrong by.
    wrong: AtomicI64,
    /// What passed in no time.
    passed: AtomicU64,
    looks: AtomicU64,
}

static HANDS: LazyLock<Arc<Hands>> = LazyLock::new(|| {
    Arc::new(Hands {
        begun: Instant::now(),
        wrong: AtomicI64::new(0),
        passed: AtomicU64::new(0),
        looks: AtomicU64::new(0),
    })
});

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

impl Hands {
    fn pass(&self, time: Duration) {
        self.passed.fetch_add(micros(time), Ordering::SeqCst);
    }

    /// Sets the wall clock, and waits until the engine has looked at it some times.
    async fn jump(&self, micros: i64) {
        self.wrong.fetch_add(micros, Ordering::SeqCst);
        let before = self.looks.load(Ordering::SeqCst);
        assert_eventually!(self.looks.load(Ordering::SeqCst) >= before + ROUNDS);
    }
}

impl TimeSource for Hands {
    fn wall_micros(&self) -> u64 {
        self.looks.fetch_add(1, Ordering::SeqCst);
        let now = micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
        let passed = self.passed.load(Ordering::SeqCst);
        (now + passed).saturating_add_signed(self.wrong.load(Ordering::SeqCst))
    }

    fn boot_micros(&self) -> u64 {
        1_000_000 + micros(self.begun.elapsed()) + self.passed.load(Ordering::SeqCst)
    }
}

async fn session(engine: &Engine) -> KernelId {
    let start = StartSession {
        origin: Origin::V1,
        ..StartSession::default()
    };
    engine.start_session(&op(), start).await.unwrap().kernel.id
}

/// A session that has ended, by its only execution.
async fn ended(engine: &Engine) -> ExecutionId {
    let kernel = session(engine).await;
    let wanted = Execute {
        code: "print kept".into(),
        ..Execute::default()
    };
    let id = engine.execute(&op(), kernel, wanted).await.unwrap().id;
    settled(engine, &op(), id).await;
    engine.shutdown_kernel(&op(), kernel).await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_clock_that_jumps_ends_and_deletes_nothing() {
    let place = TestEngine::with(|config| {
        config.clock = Clock::of(Arc::clone(&*HANDS) as Arc<dyn TimeSource>);
        config.cull.idle_timeout = 2 * HOUR;
        config.cull.interval = Duration::from_secs(1);
        config.retention.time = 12 * HOUR;
    });
    let engine = place.open().await;
    let kept = ended(&engine).await;
    let idle = start(&engine).await;
    let [timed, watched] = [session(&engine).await, session(&engine).await];
    let lifetime = SessionChange {
        lifetime: TimeChange::Set(HOUR),
        ..SessionChange::default()
    };
    engine
        .change_session(&op(), SessionId::of_first_kernel(timed), lifetime)
        .await
        .unwrap();
    let idle_timeout = SessionChange {
        idle_timeout: TimeChange::Set(HOUR),
        ..SessionChange::default()
    };
    engine
        .change_session(&op(), SessionId::of_first_kernel(watched), idle_timeout)
        .await
        .unwrap();
    for jump in [DAY, -2 * DAY, DAY] {
        HANDS.jump(jump).await;
        for kernel in [idle, timed, watched] {
            assert_eq!(state(&engine, kernel), "idle", "after {jump}");
        }
        let collected = engine.collect(&op(), false).await.unwrap();
        assert!(collected.sessions.is_empty(), "{collected:?}");
        assert!(engine.execution(&op(), kept).await.is_ok());
    }
    // A day earlier than it is: what is due is due all the same.
    HANDS.jump(-DAY).await;
    HANDS.pass(HOUR + Duration::from_mins(1));
    until_state(&engine, timed, "gone").await;
    until_state(&engine, watched, "gone").await;
    assert_eq!(state(&engine, idle), "idle");
    HANDS.pass(HOUR);
    until_state(&engine, idle, "gone").await;
    assert!(engine.execution(&op(), kept).await.is_ok());
    HANDS.pass(12 * HOUR);
    let collected = engine.collect(&op(), false).await.unwrap();
    assert!(!collected.sessions.is_empty());
    assert!(
        collected
            .sessions
            .iter()
            .all(|session| session.reason == Overdue::Age)
    );
    assert!(engine.execution(&op(), kept).await.is_err());
    stop(engine).await;
}
