//! The state machine by hand, one thing after the other.

use std::sync::Arc;

use himalia_journal::Record;
use himalia_shim_protocol::{KernelState, Kind, Lane, PerLane, RefusalKind, RequestId};

use super::bench::Bench;
use super::event::{Answer, Command, CommandError, Event};
use super::life::Phase;
use super::life::records::ENDED_FROM_OUTSIDE;

#[test]
fn requests_that_found_no_process_go_to_the_next_one_in_their_order() {
    for refused_first in [true, false] {
        let mut bench = Bench::running();
        let numbers = bench.ask_three();
        // That a request was accepted may be known before the death is.
        bench.accepted();
        if refused_first {
            bench.refused_all(&numbers);
        }
        bench.exited(1);
        if !refused_first {
            bench.refused_all(&numbers);
        }
        bench.ask("d");
        bench.now.mono += 3_600_000_000;
        bench.step(Event::Tick);
        assert!(bench.sent.is_empty(), "nothing is sent before there is a process");
        bench.started(2);
        let sent = bench.take_sent();
        let names: Vec<&str> = sent.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d"], "refused first: {refused_first}");
        assert!(sent[0].1 > numbers[2], "a number is used once");
        let records = bench.records();
        let firsts: Vec<u64> = records[..3].iter().map(|(seq, _)| *seq).collect();
        let linked: Vec<u64> = records[3..].iter().map(|(_, before)| *before).collect();
        assert_eq!(linked, [firsts[0], firsts[1], firsts[2], 0]);
        assert_eq!(
            bench.refusals(),
            [(firsts[0], true), (firsts[1], true), (firsts[2], true)]
        );
    }
}

#[test]
fn a_refusal_before_its_death_is_known_is_not_repeated_at_once() {
    let mut bench = Bench::running();
    let [first, ..] = bench.ask_three();
    bench.refused(first, RefusalKind::NotRunning);
    bench.ask("d");
    bench.step(Event::Tick);
    assert!(bench.sent.is_empty());
    // Those that were accepted were lost with the process.
    bench.accepted();
    bench.exited(1);
    bench.started(2);
    assert_eq!(bench.sent_names(), ["a", "d"]);
}

#[test]
fn a_refusal_for_want_of_room_waits_and_one_for_good_is_the_end() {
    let mut bench = Bench::running();
    let [a, b, c] = bench.ask_three();
    bench.accepted();
    bench.refused(a, RefusalKind::Full);
    bench.refused(b, RefusalKind::Full);
    bench.refused(c, RefusalKind::Never);
    bench.step(Event::Tick);
    assert!(bench.sent.is_empty());
    bench.now.mono = bench.core.deadline().unwrap();
    bench.step(Event::Tick);
    assert!(bench.sent.is_empty(), "an acknowledgement was due");
    bench.now.mono = bench.core.deadline().unwrap();
    bench.step(Event::Tick);
    assert_eq!(bench.sent_names(), ["a", "b"]);
    assert_eq!(
        bench
            .refusals()
            .iter()
            .map(|(_, again)| *again)
            .collect::<Vec<_>>(),
        [true, true, false]
    );
    // A shim that repeats itself changes nothing.
    bench.refused(a, RefusalKind::Full);
    bench.refused(c, RefusalKind::Full);
    bench.now.mono += 3_600_000_000;
    bench.step(Event::Tick);
    assert!(bench.sent.is_empty());
}

#[test]
fn a_refused_request_survives_the_gateway_and_is_sent_once() {
    // With how much of it in the checkpoint.
    for place in 0..4 {
        let mut bench = Bench::running();
        let roll = |bench: &mut Bench, at| {
            if place == at {
                bench.checkpoint = Some((bench.core.checkpoint(), bench.disk.len()));
            }
        };
        let [a, ..] = bench.ask_three();
        bench.accepted();
        roll(&mut bench, 1);
        bench.exited(1);
        roll(&mut bench, 2);
        bench.refused(a, RefusalKind::NotRunning);
        roll(&mut bench, 3);
        bench.recover();
        bench.hello(Lane::Now, KernelState::Exited);
        bench.hello(Lane::Data, KernelState::Exited);
        assert!(bench.sent.is_empty());
        bench.started(2);
        assert_eq!(bench.sent_names(), ["a"], "{place}");
        bench.recover();
        bench.high = PerLane::default();
        bench.hello(Lane::Now, KernelState::Running);
        bench.hello(Lane::Data, KernelState::Running);
        // This shim has not seen the second gateway's request.
        assert_eq!(bench.sent_names(), ["a"], "{place}");
        assert_eq!(bench.records().len(), 5);
    }
}

#[test]
fn a_refusal_from_before_the_gateway_counts_when_it_is_told_between_the_lanes() {
    let mut bench = Bench::running();
    let [a, b, _] = bench.ask_three();
    bench.recover();
    bench.link += 2;
    bench.hello(Lane::Now, KernelState::Exited);
    bench.link -= 2;
    bench.refused(b, RefusalKind::NotRunning);
    bench.refused(a, RefusalKind::NotRunning);
    bench.hello(Lane::Data, KernelState::Exited);
    assert!(bench.sent.is_empty());
    bench.exited(1);
    bench.started(2);
    assert_eq!(bench.sent_names(), ["a", "b"], "c was lost with the process");
}

#[test]
fn a_record_that_is_gone_ends_its_request() {
    let mut bench = Bench::running();
    let [a, ..] = bench.ask_three();
    bench.accepted();
    let seq = bench.records()[0].0;
    let at = usize::try_from(seq).unwrap() - 1;
    let record = Arc::clone(&bench.disk[at]);
    bench.disk[at] = Arc::new(Record {
        body: "gone".into(),
        ..(*record).clone()
    });
    bench.refused(a, RefusalKind::NotRunning);
    assert_eq!(bench.refusals(), [(seq, true), (seq, false)]);
    bench.disk[at] = record;
    bench.recover();
    bench.hello(Lane::Now, KernelState::Exited);
    bench.hello(Lane::Data, KernelState::Exited);
    bench.exited(1);
    bench.started(2);
    assert!(bench.sent.is_empty());
}

#[test]
fn orders_wait_until_both_lanes_are_back() {
    let mut bench = Bench::running();
    bench.recover();
    bench.order(5, Command::Restart);
    bench.hello(Lane::Now, KernelState::Running);
    bench.order(6, Command::Restart);
    assert_eq!(bench.core.snapshot().phase, Phase::Running);
    assert!(bench.done.iter().all(|(waiter, _)| *waiter == 1));
    bench.orders.clear();
    bench.hello(Lane::Data, KernelState::Running);
    // One process is the answer to both.
    assert_eq!(bench.orders.len(), 1);
    assert_eq!(bench.orders[0].0, Kind::Restart);
    bench.done.clear();
    bench.started(2);
    assert_eq!(bench.done, [(5, Ok(Answer::Done)), (6, Ok(Answer::Done))]);
}

#[test]
fn a_death_that_is_told_between_the_lanes_is_followed_by_one_start() {
    let mut bench = Bench::running();
    bench.recover();
    bench.orders.clear();
    bench.link += 1;
    bench.hello(Lane::Now, KernelState::Exited);
    bench.link -= 1;
    bench.exited(1);
    bench.hello(Lane::Data, KernelState::Exited);
    assert_eq!(bench.orders.len(), 1, "{:?}", bench.orders);
}

#[test]
fn orders_wait_for_a_lane_that_broke_but_not_for_ever() {
    let mut bench = Bench::running();
    bench.done.clear();
    bench.step(Event::LaneClosed(Lane::Now));
    bench.order(5, Command::Restart);
    assert!(bench.done.is_empty());
    while bench.done.is_empty() {
        bench.now.mono = bench.core.deadline().unwrap();
        bench.step(Event::Tick);
    }
    assert_eq!(bench.done, [(5, Err(CommandError::Disconnected))]);
    bench.order(6, Command::Restart);
    bench.step(Event::SandboxGone("gone".into()));
    assert_eq!(bench.done[1..], [(6, Err(CommandError::NotRunning))]);
}

#[test]
fn a_sandbox_that_is_told_to_end_from_outside_is_lost_and_no_end_of_the_kernel() {
    let mut bench = Bench::running();
    bench.ended_by_shim(1);
    bench.stopped(1, None);
    let snapshot = bench.core.snapshot();
    assert_eq!((snapshot.phase, snapshot.lost), (Phase::Dead, true));
    assert_eq!(snapshot.reason.as_deref(), Some(ENDED_FROM_OUTSIDE));
    // What the provisioner finds later changes nothing.
    bench.step(Event::SandboxGone("sandbox_lost: exit(0)".to_owned()));
    assert_eq!(bench.core.snapshot().reason.as_deref(), Some(ENDED_FROM_OUTSIDE));
    bench.recover();
    assert_eq!(bench.core.snapshot().phase, Phase::Dead);

    // The same when it dies before it has said all, and for the gateway that was killed in between.
    for records in 2..=3 {
        let mut bench = Bench::running();
        bench.ended_by_shim(1);
        let before = bench.disk.len();
        bench.stopped(1, None);
        bench.disk.truncate(before + records - 2);
        bench.recover();
        bench.step(Event::SandboxGone("sandbox_lost: exit(0)".to_owned()));
        let snapshot = bench.core.snapshot();
        assert_eq!(snapshot.phase, Phase::Dead, "{records}");
        assert!(snapshot.reason.unwrap().starts_with("sandbox_lost"));
    }
}

#[test]
fn an_order_of_an_earlier_gateway_ends_the_kernel_for_good() {
    let mut bench = Bench::running();
    bench.recover();
    bench.hello(Lane::Now, KernelState::Running);
    bench.hello(Lane::Data, KernelState::Running);
    bench.ended_by_shim(1);
    bench.stopped(1, Some(RequestId { epoch: 1, number: 2 }));
    assert_eq!(bench.core.snapshot().phase, Phase::Ended);
}
