//! Native executions in the state machine, one thing after the other.

use himalia_sandbox::DiskUse;
use himalia_shim_protocol::{Event as ShimEvent, Lane, RefusalKind, Refused, RequestId, ToGateway};
use himalia_wire::Channel;
use serde_json::{Value, json};

use super::event::{Answer, Command, CommandError, Event};
use super::execution_records::{End, ExecutionRecord, OnTimeout, execution_of};
use super::life::Phase;
use super::meta::{RecordKind, RecordMeta};
use super::play::{Play, TIMEOUT, submission};
use super::rules::Rules;

#[test]
fn they_run_one_at_a_time_in_their_order() {
    let mut play = Play::new();
    let (a, b) = (play.execute("a"), play.execute("b"));
    assert_eq!(play.codes(), ["a"]);
    play.status("busy");
    play.reply("error");
    assert_eq!(play.codes(), ["a"], "its idle is still to come");
    play.status("idle");
    assert_eq!(play.codes(), ["a", "b"]);
    play.run_to("ok");
    let again = play.execute("a");
    play.run_to("error");
    assert_eq!(
        play.ends(),
        [
            (a, End::Error, true, 0),
            (b, End::Ok, true, 0),
            (again, End::Error, true, 1)
        ]
    );
}

#[test]
fn one_that_was_aborted_for_another_clients_failure_is_sent_again() {
    let mut play = Play::new();
    let a = play.execute("a");
    play.run_to("aborted");
    assert_eq!(play.codes(), ["a", "a"]);
    assert!(play.ends().is_empty());
    play.run_to("ok");
    assert_eq!(play.ends(), [(a, End::Ok, true, 0)]);
}

#[test]
fn over_the_quota_of_files_only_one_that_makes_room_runs() {
    let mut play = Play::new();
    play.bench.core.set_rules(Rules {
        watch_disk: true,
        ..Rules::default()
    });
    play.bench.step(Event::Tick);
    play.bench.step(Event::DiskMeasured(Some(DiskUse {
        used_bytes: 2,
        limit_bytes: 1,
        uncounted: false,
    })));
    let refused = play.execute("a");
    assert_eq!(play.ends(), [(refused, End::Error, false, 0)]);
    assert!(play.codes().is_empty());
    let says = play.bench.disk.iter().any(|record| {
        execution_of(RecordMeta::decode(&record.meta).owner) == Some(refused)
            && String::from_utf8_lossy(&record.body).contains("disk_quota_exceeded")
    });
    assert!(says, "its result says why");
    let makes_room = play.execute("# himalia: free space\nrm()");
    play.run_to("ok");
    assert_eq!(play.ends()[1], (makes_room, End::Ok, true, 0));
}

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
        },
    );
    assert_eq!(play.codes(), ["a", "42"]);
    play.bench.order(
        2,
        Command::Input {
            seq: a,
            value: "43".into(),
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

#[test]
fn a_key_runs_once_also_after_a_change_of_the_gateway() {
    let mut play = Play::new();
    let mut wanted = submission("a");
    wanted.key = Some("key".into());
    let Ok(Answer::Submitted { seq, .. }) = play.submit(wanted.clone()) else {
        panic!()
    };
    let repeated = Ok(Answer::Submitted { seq, repeated: true });
    assert_eq!(play.submit(wanted.clone()), repeated);
    play.run_to("ok");
    assert_eq!(play.submit(wanted.clone()), repeated);
    play.recover();
    assert_eq!(play.submit(wanted.clone()), repeated);
    wanted.code = "b".into();
    assert_eq!(play.submit(wanted), Err(CommandError::KeyReused));
    assert_eq!(play.codes(), ["a"]);
}

#[test]
fn a_limit_of_failures_in_a_row_ends_a_loop() {
    let mut play = Play::new();
    let mut wanted = submission("a");
    wanted.max_failures = Some(2);
    let refused = Err(CommandError::FailureLimit(2));
    let attempt = |play: &mut Play, ends: &str| {
        assert!(play.submit(wanted.clone()).is_ok());
        play.run_to(ends);
    };
    attempt(&mut play, "error");
    attempt(&mut play, "ok");
    attempt(&mut play, "error");
    // Whatever its code is.
    play.execute("b");
    play.run_to("error");
    assert_eq!(play.submit(wanted.clone()), refused);
    // One that was interrupted says nothing, nor one that never ran.
    let (stopped, waits) = (play.execute("c"), play.execute("d"));
    play.bench.order(1, Command::StopExecution(waits));
    play.bench.order(2, Command::StopExecution(stopped));
    play.status("busy");
    play.bench.step(Event::Tick);
    play.reply("error");
    play.status("idle");
    let ends = play.ends();
    assert!(
        ends[4..].iter().all(|(_, end, ..)| *end == End::Interrupted),
        "{ends:?}"
    );
    assert_eq!(play.submit(wanted.clone()), refused);
    // Whoever sets no limit may try, and a success begins anew.
    play.execute("e");
    play.run_to("ok");
    attempt(&mut play, "error");
    attempt(&mut play, "error");
    play.recover();
    assert_eq!(play.submit(wanted.clone()), refused);
}

#[test]
fn the_queue_is_bounded() {
    let mut play = Play::new();
    for _ in 0..=super::executions::MAX_QUEUED {
        play.execute("x");
    }
    assert_eq!(play.submit(submission("x")), Err(CommandError::QueueFull(65)));
}

#[test]
fn what_waits_and_what_runs_survive_the_gateway() {
    let mut play = Play::new();
    let a = play.execute("a");
    play.execute("b");
    play.status("busy");
    let number = play.sent()[0].2;
    play.bench
        .step(Event::Shim(Lane::Data, ToGateway::Accepted { kernel: 1, number }));
    play.recover();
    assert_eq!(play.codes(), ["a"]);
    play.reply("ok");
    play.status("idle");
    assert_eq!(play.codes(), ["a", "b"]);
    assert_eq!(play.ends(), [(a, End::Ok, true, 0)]);
}

#[test]
fn a_refused_request_goes_back_to_its_queue() {
    let mut play = Play::new();
    let a = play.execute("a");
    let refuse = |play: &mut Play, kind| {
        let number = play.sent().last().unwrap().2;
        play.bench.event(ShimEvent::Refused(Refused {
            request: RequestId { epoch: 1, number },
            lane: Lane::Data,
            kind,
            reason: "no".into(),
        }));
    };
    refuse(&mut play, RefusalKind::Full);
    assert_eq!(play.codes(), ["a"], "it waits for room");
    play.wait(250_000);
    assert_eq!(play.codes(), ["a", "a"]);
    refuse(&mut play, RefusalKind::Never);
    assert_eq!(play.ends(), [(a, End::Error, false, 0)]);
}

#[test]
fn what_was_on_its_way_when_the_process_ended_is_decided_by_the_shim() {
    for refused in [true, false] {
        let mut play = Play::new();
        let (a, b) = (play.execute("a"), play.execute("b"));
        let number = play.sent()[0].2;
        play.bench.exited(1);
        play.wait(10_000_000);
        assert_eq!(
            play.ends(),
            [(b, End::KernelDied, false, 0)],
            "the shim has not said what it did"
        );
        if refused {
            play.bench.event(ShimEvent::Refused(Refused {
                request: RequestId { epoch: 1, number },
                lane: Lane::Data,
                kind: RefusalKind::NotRunning,
                reason: "no".into(),
            }));
        } else {
            // It was for the process that is gone.
            let kernel = 1;
            play.bench
                .step(Event::Shim(Lane::Data, ToGateway::Accepted { kernel, number }));
            play.wait(2_000_000);
        }
        assert_eq!(
            play.ends()[1..],
            [(a, End::KernelDied, false, 0)],
            "refused: {refused}"
        );
        assert_eq!(play.codes(), ["a"], "and it is not sent again");
    }
}

/// What an execution writes, and what the kernel core keeps, do not grow with the number of those before it.
#[test]
fn thousands_of_past_executions_do_not_weigh_on_the_next() {
    let mut play = Play::new();
    let mut weigh = |executions: usize| {
        for _ in 0..executions {
            play.execute("same code");
            play.bench.accepted();
            play.run_to("error");
        }
        let before = play.bench.disk.len();
        play.execute("same code");
        play.bench.accepted();
        play.run_to("ok");
        let records = &play.bench.disk[before..];
        let bytes: usize = records.iter().map(|record| record.body.len()).sum();
        (records.len(), bytes, play.bench.core.checkpoint().len())
    };
    // The latest thousand are remembered.
    let (records, bytes, kept) = weigh(1100);
    let (records_later, bytes_later, kept_later) = weigh(4000);
    assert_eq!(records, records_later);
    // Numbers have more digits now.
    assert!(bytes_later <= bytes + 50, "{bytes} and {bytes_later} bytes");
    assert!(
        kept_later <= kept + kept / 20,
        "{kept} and {kept_later} bytes of checkpoint"
    );
}
