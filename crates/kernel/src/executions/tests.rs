//! Native executions in the state machine, one thing after the other: their queue, and what it survives.

use himalia_model::DiskUse;
use himalia_shim_protocol::{Event as ShimEvent, Lane, RefusalKind, RequestId, RequestRefused, ToGateway};

use super::records::{End, execution_of};
use crate::event::{CommandError, Event};
use crate::meta::RecordMeta;
use crate::play::{Play, submission};
use crate::rules::Rules;

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
fn the_queue_is_bounded() {
    let mut play = Play::new();
    for _ in 0..=super::queue::MAX_QUEUED {
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
        play.bench.event(ShimEvent::Refused(RequestRefused {
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
            play.bench.event(ShimEvent::Refused(RequestRefused {
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
