//! How native executions end: by their time, an interrupt, a question, the death of their process.

use himalia_shim_protocol::{Kind, Lane, ToGateway};
use himalia_wire::Channel;
use serde_json::{Value, json};

use super::records::{End, ExecutionRecord, OnTimeout, Submission, execution_of};
use crate::event::{Answer, Command, CommandError, Event};
use crate::life::Phase;
use crate::meta::{RecordKind, RecordMeta};
use crate::play::{Play, TIMEOUT, submission};

#[test]
fn a_timeout_interrupts_and_never_ends_the_process() {
    let mut play = Play::new();
    let a = play.execute("a");
    play.wait(10 * TIMEOUT);
    play.status("busy");
    assert_eq!(play.interrupts(), 0, "its time begins with its work");
    play.wait(TIMEOUT - 1);
    assert_eq!(play.interrupts(), 0);
    play.wait(1);
    assert_eq!(play.interrupts(), 1);
    for expected in [1, 1, 0, 0] {
        play.wait(5_000_000);
        assert_eq!(play.interrupts(), expected);
    }
    play.reply("error");
    play.status("idle");
    assert_eq!(play.ends(), [(a, End::Timeout, true, 0)]);
    assert_eq!(play.bench.core.snapshot().phase, Phase::Running);
}

#[test]
fn code_that_outlives_its_time_and_all_interrupts_ends_as_a_timeout() {
    let mut play = Play::new();
    let a = play.execute("a");
    play.status("busy");
    play.wait(TIMEOUT);
    for _ in 0..4 {
        play.wait(5_000_000);
    }
    assert!(play.ends().is_empty(), "nothing but the code ends it");
    play.reply("ok");
    play.status("idle");
    assert_eq!(play.ends(), [(a, End::Timeout, true, 0)]);
    // One that was interrupted by its caller and came to its end is no timeout.
    let b = play.execute("b");
    play.status("busy");
    play.bench.order(1, Command::StopExecution(b));
    play.reply("ok");
    play.status("idle");
    assert_eq!(play.ends()[1], (b, End::Ok, true, 0));
}

#[test]
fn a_question_stops_the_clock_also_over_a_change_of_the_gateway() {
    let mut play = Play::new();
    let a = play.execute("a");
    play.status("busy");
    play.wait(TIMEOUT / 2);
    play.message(Channel::Stdin, "input_request", &json!({ "prompt": "?" }));
    play.wait(TIMEOUT);
    play.recover();
    play.wait(TIMEOUT);
    assert_eq!(play.interrupts(), 0);
    play.bench.order(
        1,
        Command::Input {
            seq: a,
            value: "42".into(),
            by: "operator".into(),
        },
    );
    assert_eq!(play.codes(), ["a", "42"]);
    play.bench.order(
        2,
        Command::Input {
            seq: a,
            value: "43".into(),
            by: "operator".into(),
        },
    );
    assert_eq!(play.bench.done.last().unwrap().1, Err(CommandError::NotAsked));
    play.wait(TIMEOUT / 2 - 1);
    assert_eq!(play.interrupts(), 0);
    play.wait(1);
    assert_eq!(play.interrupts(), 1);
}

#[test]
fn a_password_goes_to_the_kernel_and_into_no_record() {
    let mut play = Play::new();
    let a = play.execute("a");
    play.status("busy");
    let answer = |value: &str| Command::Input {
        seq: a,
        value: value.into(),
        by: "operator".into(),
    };
    let sent = |play: &Play| {
        let answers = play.bench.answers.iter();
        let values =
            answers.map(|content| serde_json::from_slice::<Value>(content).unwrap()["value"].clone());
        values.collect::<Vec<_>>()
    };
    // A question of another kind is answered as ever.
    play.message(Channel::Stdin, "input_request", &json!({ "prompt": "?" }));
    play.bench.order(1, answer("plain"));
    assert_eq!(sent(&play), ["plain"]);
    let secret = json!({ "prompt": "?", "password": true });
    play.message(Channel::Stdin, "input_request", &secret);
    play.recover();
    play.bench.order(2, answer("hunter2"));
    assert_eq!(sent(&play).last().unwrap(), "hunter2");
    assert_eq!(play.codes().last().unwrap(), "");
    // What was not accepted is not sent again without its secret.
    play.recover();
    assert_eq!(sent(&play).iter().filter(|value| *value == "hunter2").count(), 1);
    let written = |text: &[u8]| {
        let bodies = play.bench.disk.iter().map(|record| &record.body);
        bodies
            .filter(|body| body.windows(text.len()).any(|part| part == text))
            .count()
    };
    assert_eq!(written(b"hunter2"), 0);
    assert!(written(b"plain") > 0);
}

#[test]
fn detached_it_goes_on() {
    let mut play = Play::new();
    let mut wanted = submission("a");
    wanted.on_timeout = OnTimeout::Detach;
    play.submit(wanted).unwrap();
    play.status("busy");
    play.wait(TIMEOUT);
    play.wait(TIMEOUT);
    assert_eq!(play.interrupts(), 0);
    let detached = |record: &&std::sync::Arc<himalia_journal::Record>| {
        record.kind == RecordKind::Execution as u8
            && serde_json::from_slice::<ExecutionRecord>(&record.body).unwrap() == ExecutionRecord::Detached
    };
    assert_eq!(play.bench.disk.iter().filter(detached).count(), 1);
}

#[test]
fn an_interrupt_waits_until_it_is_this_one_that_runs() {
    let mut play = Play::new();
    let (a, b) = (play.execute("a"), play.execute("b"));
    play.bench.order(1, Command::StopExecution(b));
    assert_eq!(play.ends(), [(b, End::Interrupted, false, 0)], "it never ran");
    play.bench.order(2, Command::StopExecution(a));
    assert_eq!(play.interrupts(), 0, "another client's cell may be running");
    play.status("busy");
    play.bench.step(Event::Tick);
    assert_eq!(play.interrupts(), 1);
    play.reply("error");
    play.status("idle");
    assert_eq!(play.ends()[1], (a, End::Interrupted, true, 0));
    play.bench.order(3, Command::StopExecution(a));
    assert_eq!(play.bench.done.last().unwrap().1, Ok(Answer::Stopping(false)));
    assert_eq!(play.codes(), ["a"]);
}

#[test]
fn a_death_ends_what_runs_and_what_waits_and_the_next_one_says_so() {
    for (oom, end) in [(true, End::OomKilled), (false, End::KernelDied)] {
        let mut play = Play::new();
        let (a, b) = (play.execute("a"), play.execute("b"));
        play.status("busy");
        play.bench.oom = oom;
        play.bench.exited(1);
        assert_eq!(play.ends(), [(a, end, true, 0), (b, end, false, 0)]);
        let mut wanted = submission("c");
        wanted.expect_incarnation = Some(1);
        assert_eq!(
            play.submit(wanted.clone()),
            Err(CommandError::Incarnation { expected: 1, now: 2 })
        );
        wanted.expect_incarnation = Some(2);
        play.submit(wanted).unwrap();
        assert_eq!(play.bench.core.snapshot().phase, Phase::Restarting);
        play.bench.started(2);
        play.incarnation = 2;
        assert_eq!(play.codes(), ["a"], "the new process is not ready yet");
        play.wait(60_000_000);
        assert_eq!(play.codes(), ["a", "c"]);
        let sent =
            play.bench
                .disk
                .iter()
                .rev()
                .find_map(|record| match serde_json::from_slice(&record.body) {
                    Ok(ExecutionRecord::Sent { replaced, .. }) => replaced,
                    _ => None,
                });
        let cause = if oom { "oom" } else { "signal(9)" };
        let sent = sent.unwrap();
        assert_eq!((sent.incarnation, sent.cause.as_deref()), (1, Some(cause)));
    }
}

#[test]
fn the_end_of_a_process_names_the_variables_that_went_with_it() {
    for (recovered, checkpoint) in [(false, false), (true, false), (true, true)] {
        let mut play = Play::new();
        play.execute("a");
        play.metadata = json!({"himalia": {"variables": {"added": ["df", "x"], "removed": []}}});
        play.run_to("ok");
        play.execute("b");
        play.metadata = json!({"himalia": {"variables": {"added": ["y"], "removed": ["x"]}}});
        play.run_to("error");
        play.metadata = json!({});
        let c = play.execute("c");
        play.status("busy");
        if checkpoint {
            let bench = &mut play.bench;
            bench.checkpoint = Some((bench.core.checkpoint(), bench.disk.len()));
        }
        if recovered {
            let number = play.sent().last().unwrap().2;
            play.bench
                .step(Event::Shim(Lane::Data, ToGateway::Accepted { kernel: 1, number }));
            play.recover();
        }
        play.bench.step(Event::SandboxGone("sandbox_lost".into()));
        let told = play.bench.disk.iter().rev().find_map(|record| {
            let ours = execution_of(RecordMeta::decode(&record.meta).owner) == Some(c);
            match serde_json::from_slice(&record.body) {
                Ok(ExecutionRecord::Ended { variables_lost, .. }) if ours => variables_lost,
                _ => None,
            }
        });
        assert_eq!(told.unwrap().names, ["df", "y"], "{recovered} {checkpoint}");
    }
}

fn behind(play: &Play, seq: u64) -> (Option<u64>, bool) {
    let record = &play.bench.disk[usize::try_from(seq).unwrap() - 1];
    match serde_json::from_slice(&record.body).unwrap() {
        ExecutionRecord::Submitted { behind, stuck, .. } => (behind, stuck),
        other => panic!("{other:?}"),
    }
}

/// The execution whose record says that it ignores interrupts.
fn stuck(play: &Play) -> Vec<u64> {
    let records = play.bench.disk.iter();
    let records = records.filter(|record| record.kind == RecordKind::Execution as u8);
    let stuck = records.filter(|record| {
        serde_json::from_slice::<ExecutionRecord>(&record.body).unwrap() == ExecutionRecord::Stuck
    });
    stuck
        .map(|record| execution_of(RecordMeta::decode(&record.meta).owner).unwrap())
        .collect()
}

#[test]
fn code_that_ignores_interrupts_is_known_and_those_behind_it_are_told() {
    let mut play = Play::new();
    let a = play.execute("a");
    let b = play.execute("b");
    assert_eq!(
        (behind(&play, a), behind(&play, b)),
        ((None, false), (Some(a), false))
    );
    play.status("busy");
    play.wait(TIMEOUT);
    play.wait(5_000_000);
    assert!(stuck(&play).is_empty());
    play.wait(5_000_000);
    assert_eq!((stuck(&play), play.interrupts()), (vec![a], 3));
    play.recover();
    play.wait(60_000_000);
    assert_eq!((stuck(&play), play.interrupts()), (vec![a], 0));
    let c = play.execute("c");
    assert_eq!(behind(&play, c), (Some(a), true));
    play.reply("ok");
    play.status("idle");
    let d = play.execute("d");
    assert_eq!(behind(&play, d), (Some(b), false));
}

#[test]
fn a_caller_may_have_the_process_replaced_or_ended_by_the_end_of_the_time() {
    for (on_timeout, waits, orders) in [
        (
            OnTimeout::Restart,
            [0, 5_000_000, 5_000_000],
            vec![Kind::Interrupt, Kind::Interrupt, Kind::Restart],
        ),
        (OnTimeout::Kill, [0, 0, 0], vec![Kind::Stop]),
    ] {
        let mut play = Play::new();
        let wanted = Submission {
            on_timeout,
            ..submission("a")
        };
        let Ok(Answer::Submitted { seq, .. }) = play.submit(wanted) else {
            panic!("not submitted");
        };
        play.bench.orders.clear();
        play.status("busy");
        play.wait(TIMEOUT);
        for wait in waits {
            play.wait(wait);
        }
        let given: Vec<Kind> = play.bench.orders.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(given, orders);
        assert_eq!(play.ends(), [(seq, End::KernelDied, true, 0)]);
        // What comes before the end of the process is seen is for the next one.
        play.execute("b");
        play.bench.ended_by_shim(1);
        play.bench.started(2);
        assert_eq!((play.ends().len(), play.codes()), (1, vec!["a".to_owned()]));
        play.bench.core.readiness.restore(true, true);
        play.wait(1);
        assert_eq!(play.codes(), ["a", "b"]);
        assert!(stuck(&play).is_empty());
    }
}

#[test]
fn a_restart_has_one_answer_whatever_the_code_does_with_the_interrupt() {
    for status in ["error", "ok"] {
        let mut play = Play::new();
        let a = play.execute("a");
        play.status("busy");
        play.bench.order(1, Command::Restart);
        play.reply(status);
        play.status("idle");
        assert_eq!(play.ends(), [(a, End::KernelDied, true, 0)]);
    }
}

#[test]
fn a_restart_while_the_engine_replaces_the_process_is_that_restart() {
    let mut play = Play::new();
    play.submit(Submission {
        on_timeout: OnTimeout::Restart,
        ..submission("a")
    })
    .unwrap();
    play.status("busy");
    for wait in [TIMEOUT, 5_000_000, 5_000_000] {
        play.wait(wait);
    }
    play.bench.order(1, Command::Restart);
    let restarts = |play: &Play| {
        let orders = play.bench.orders.iter();
        orders.filter(|(kind, _)| *kind == Kind::Restart).count()
    };
    assert_eq!((restarts(&play), play.bench.done.len()), (1, 0));
    // What is sent after the answer runs.
    play.bench.ended_by_shim(1);
    play.bench.started(2);
    assert_eq!(play.bench.done, [(1, Ok(Answer::Done))]);
    play.execute("b");
    play.bench.core.readiness.restore(true, true);
    play.wait(1);
    assert_eq!(play.codes(), ["a", "b"]);
    // The next one is a restart of its own.
    play.bench.order(2, Command::Restart);
    assert_eq!(restarts(&play), 2);
}
