//! Kernels that stop answering, and those that are only busy.

use himalia_model::Unanswered;
use himalia_shim_protocol::{Heartbeat, Lane, ToGateway};
use serde_json::Value;

use super::state::{NUDGE, PATIENT, PATIENT_TIMES, Readiness};
use crate::event::Event;
use crate::life::records::LifecycleRecord;
use crate::meta::RecordKind;
use crate::play::Play;

fn beat(play: &mut Play, alive: bool) {
    let frame = ToGateway::Heartbeat {
        kernel: 1,
        heartbeat: Heartbeat { alive },
    };
    play.bench.step(Event::Shim(Lane::Now, frame));
}

fn is_due(readiness: &Readiness, mono: u64) -> bool {
    readiness.deadline().is_some_and(|at| at <= mono)
}

fn problem(play: &Play) -> Option<Unanswered> {
    play.bench.core.snapshot().unresponsive.map(|found| found.problem)
}

/// What the log says of the kernel's health.
fn told(play: &Play) -> Vec<String> {
    let lifecycle = play
        .bench
        .disk
        .iter()
        .filter(|record| record.kind == RecordKind::Lifecycle as u8);
    let events = lifecycle.map(|record| serde_json::from_slice::<Value>(&record.body).unwrap());
    let health = events.filter(|event| event["event"].as_str().unwrap().ends_with("responsive"));
    health
        .map(|event| match event["advice"].as_str() {
            Some(advice) => {
                assert!(advice.contains("restart") || advice.contains("Restart"));
                event["problem"].as_str().unwrap().to_owned()
            }
            None => "answers".to_owned(),
        })
        .collect()
}

#[test]
fn a_heart_that_stops_is_told_once_and_when_it_beats_again() {
    let mut play = Play::new();
    play.execute("for ever");
    play.status("busy");
    play.wait(3_600_000_000);
    assert_eq!(problem(&play), None, "busy is busy");
    beat(&mut play, false);
    let since = play.bench.core.snapshot().unresponsive.unwrap().since_micros;
    play.wait(1_000_000);
    beat(&mut play, false);
    assert_eq!(problem(&play), Some(Unanswered::Heartbeat));
    assert_eq!(
        play.bench.core.snapshot().unresponsive.unwrap().since_micros,
        since
    );
    // The next gateway knows it from the log.
    play.bench.recover();
    assert_eq!(problem(&play), Some(Unanswered::Heartbeat));
    beat(&mut play, true);
    assert_eq!(problem(&play), None);
    assert_eq!(told(&play), ["heartbeat", "answers"]);
}

#[test]
fn a_process_that_ends_is_not_silent_any_more() {
    let mut play = Play::new();
    beat(&mut play, false);
    play.bench.exited(1);
    assert_eq!(problem(&play), None);
    play.bench.started(2);
    assert_eq!(problem(&play), None, "the next one has a heart of its own");
    assert_eq!(told(&play), ["heartbeat"]);
}

#[test]
fn one_that_never_answered_is_told_after_all_questions() {
    let mut play = Play::new();
    play.bench.core.readiness = Readiness::default();
    for _ in 0..12 {
        assert_eq!(problem(&play), None);
        play.bench.core.readiness.probed(play.bench.now.mono);
        play.wait(1);
    }
    assert_eq!(problem(&play), Some(Unanswered::KernelInfo));
    assert_eq!(told(&play), ["kernel_info"]);
}

#[test]
fn ready_is_reply_and_iopub_in_either_order() {
    let mut readiness = Readiness::default();
    assert!(!readiness.heard());
    assert!(readiness.replied(0));
    assert!(!readiness.replied(0));
    let mut readiness = Readiness::default();
    assert!(!readiness.replied(0));
    assert!(readiness.heard());
}

#[test]
fn nudges_repeat_until_iopub_is_heard() {
    let mut readiness = Readiness::default();
    readiness.probed(0);
    assert!(!is_due(&readiness, PATIENT - 1) && is_due(&readiness, PATIENT));
    readiness.replied(0);
    assert!(!is_due(&readiness, NUDGE - 1) && is_due(&readiness, NUDGE));
    readiness.probed(NUDGE);
    assert!(!is_due(&readiness, NUDGE) && is_due(&readiness, 2 * NUDGE));
    readiness.heard();
    assert!(!is_due(&readiness, u64::MAX));
}

#[test]
fn a_kernel_that_never_answers_is_left_alone_in_the_end() {
    let mut readiness = Readiness::default();
    for _ in 0..PATIENT_TIMES {
        readiness.probed(0);
    }
    assert!(!is_due(&readiness, u64::MAX) && readiness.judge(true, 0).is_some());
    readiness.replied(0);
    assert_eq!(readiness.judge(true, 0), Some(LifecycleRecord::Responsive));
}
