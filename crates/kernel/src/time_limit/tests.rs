//! What follows a death, how long an execution may take, claims and branches: one thing after the other.

use himalia_shim_protocol::{
    Bind, Bound, Event as ShimEvent, Fork, ForkFailed, ForkFailure, KernelForked, KernelState, KernelStopped,
    Kind, Lane, LinkAdded, PROTOCOL_MAX, PROTOCOL_MIN, RefusalKind, RequestId, RequestRefused, ToGateway,
};
use himalia_wire::Channel;
use serde_json::json;

use crate::bench::Bench;
use crate::event::{Answer, Claim, Command, CommandError, Event};
use crate::life::Phase;
use crate::life::records::LifecycleRecord;
use crate::rules::Rules;
use crate::sim::rng::Rng;

const LIMIT: u64 = 60_000_000;
const RUNG: u64 = 5_000_000;

fn of_v1() -> Rules {
    Rules {
        restart_limit: 0,
        revive: true,
        execution: Some(LIMIT),
        watch_disk: false,
    }
}

pub(crate) fn kinds(bench: &mut Bench) -> Vec<Kind> {
    std::mem::take(&mut bench.orders)
        .into_iter()
        .map(|(kind, _)| kind)
        .collect()
}

/// The kernel is busy with, or done with, a request of the client.
pub(crate) fn status(bench: &mut Bench, link: u64, msg_id: &str, state: &str) {
    let content = json!({ "execution_state": state });
    bench.says(link, (Channel::Iopub, "status"), msg_id, None, &content);
}

#[test]
fn a_death_is_put_down_to_memory_when_that_is_known() {
    for (oom, cause) in [
        (true, "restarted after oom"),
        (false, "restarted after signal(9)"),
    ] {
        let mut bench = Bench::running();
        bench.oom = oom;
        bench.exited(1);
        bench.started(2);
        assert_eq!(bench.core.snapshot().reason.as_deref(), Some(cause));
    }
}

#[test]
fn a_kernel_of_v1_stays_dead_until_it_is_used() {
    let mut bench = Bench::running();
    bench.core.set_rules(of_v1());
    bench.oom = true;
    bench.exited(1);
    let dead = bench.core.snapshot();
    assert_eq!((dead.phase, dead.reason.as_deref()), (Phase::Dead, Some("oom")));
    bench.orders.clear();
    bench.take_sent();
    bench.ask("a");
    assert_eq!(kinds(&mut bench), [Kind::Restart]);
    assert_eq!(bench.core.snapshot().phase, Phase::Restarting);
    bench.started(2);
    assert_eq!(bench.sent_names(), ["a"], "the execution that woke it runs");
    let revived = bench.core.snapshot();
    assert_eq!(
        (revived.incarnation, revived.reason.as_deref()),
        (2, Some("restarted after oom"))
    );
}

#[test]
fn an_execution_that_takes_too_long_is_interrupted_twice_and_then_ended() {
    for (rules, last, phase) in [
        (of_v1(), Kind::Stop, Phase::Dead),
        (
            Rules {
                restart_limit: 5,
                revive: false,
                ..of_v1()
            },
            Kind::Restart,
            Phase::Restarting,
        ),
    ] {
        let mut bench = Bench::running();
        bench.core.set_rules(rules);
        bench.ask("a");
        status(&mut bench, 1, "a", "busy");
        bench.orders.clear();
        let begun = bench.now.mono;
        let at = |bench: &mut Bench, mono: u64| {
            bench.now.mono = mono;
            bench.step(Event::Tick);
            kinds(bench)
        };
        assert!(at(&mut bench, begun + LIMIT - 1).is_empty());
        assert_eq!(at(&mut bench, begun + LIMIT), [Kind::Interrupt]);
        assert_eq!(at(&mut bench, begun + LIMIT + RUNG), [Kind::Interrupt]);
        assert_eq!(at(&mut bench, begun + LIMIT + 2 * RUNG), [last]);
        let snapshot = bench.core.snapshot();
        assert_eq!(snapshot.phase, phase);
        assert!(snapshot.reason.unwrap().ends_with("execution_timeout"));
        assert!(at(&mut bench, begun + 10 * LIMIT).is_empty(), "and that is all");
    }
}

#[test]
fn a_kernel_that_was_stopped_for_its_execution_can_be_used_at_once() {
    let mut bench = Bench::running();
    bench.core.set_rules(of_v1());
    bench.ask("a");
    status(&mut bench, 1, "a", "busy");
    for due in [LIMIT, RUNG, RUNG] {
        bench.now.mono += due;
        bench.step(Event::Tick);
    }
    assert_eq!(bench.core.snapshot().phase, Phase::Dead);
    // Used again before the stop is complete.
    bench.ask("b");
    assert_eq!(bench.core.snapshot().phase, Phase::Restarting);
    bench.exited(1);
    bench.event(ShimEvent::Stopped(KernelStopped {
        incarnation: 1,
        killed: 0,
        left: 0,
        request: Some(RequestId { epoch: 1, number: 2 }),
    }));
    assert_eq!(bench.core.snapshot().phase, Phase::Restarting);
    bench.started(2);
    assert_eq!(bench.core.snapshot().phase, Phase::Running);
}

#[test]
fn an_execution_that_ends_in_time_is_left_alone() {
    let mut bench = Bench::running();
    bench.core.set_rules(of_v1());
    bench.ask("a");
    status(&mut bench, 1, "a", "busy");
    status(&mut bench, 2, "a", "idle");
    bench.orders.clear();
    bench.now.mono += 10 * LIMIT;
    bench.step(Event::Tick);
    assert!(kinds(&mut bench).is_empty());
}

#[test]
fn the_time_of_an_execution_goes_on_under_another_gateway() {
    for with_checkpoint in [false, true] {
        let mut bench = Bench::running();
        bench.core.set_rules(of_v1());
        bench.ask("a");
        status(&mut bench, 1, "a", "busy");
        let begun = bench.now.wall;
        bench.now.wall += LIMIT / 2;
        if with_checkpoint {
            bench.checkpoint = Some((bench.core.checkpoint(), bench.disk.len()));
        }
        // Its monotonic clock begins anew.
        bench.now.mono = 1;
        bench.now.wall += LIMIT / 4;
        bench.recover();
        bench.core.set_rules(of_v1());
        bench.orders.clear();
        bench.now.mono += LIMIT;
        bench.step(Event::Tick);
        assert!(kinds(&mut bench).is_empty(), "there is no process to interrupt");
        assert_ne!(bench.core.deadline(), Some(bench.now.mono));
        bench.now.mono = 1;
        bench.hello(Lane::Now, KernelState::Running);
        bench.hello(Lane::Data, KernelState::Running);
        bench.orders.clear();
        assert_eq!(bench.now.wall, begun + LIMIT * 3 / 4);
        bench.now.mono += LIMIT / 4 - 1;
        bench.step(Event::Tick);
        assert!(kinds(&mut bench).is_empty());
        bench.now.mono += 1;
        bench.step(Event::Tick);
        assert_eq!(
            kinds(&mut bench),
            [Kind::Interrupt],
            "checkpoint: {with_checkpoint}"
        );
    }
}

/// The kernel is busy with, or done with, a request of the client in this subshell, or in its main shell.
fn status_in(bench: &mut Bench, link: u64, (msg_id, subshell): (&str, Option<&str>), state: &str) {
    let parent = json!({
        "msg_id": msg_id, "msg_type": "execute_request", "session": "client", "subshell_id": subshell,
    });
    let content = json!({ "execution_state": state });
    bench.says_below(link, (Channel::Iopub, "status"), &parent, None, &content);
}

#[test]
fn a_subshell_does_not_change_the_limit_of_the_cell_in_the_main_shell() {
    let mut bench = Bench::running();
    bench.core.set_rules(of_v1());
    let begun = bench.now.mono;
    bench.ask("cell");
    status_in(&mut bench, 1, ("cell", None), "busy");
    bench.now.mono += LIMIT / 2;
    bench.now.wall += LIMIT / 2;
    bench.ask("quick");
    status_in(&mut bench, 2, ("quick", Some("s")), "busy");
    status_in(&mut bench, 3, ("quick", Some("s")), "idle");
    bench.orders.clear();
    bench.now.mono = begun + LIMIT;
    bench.step(Event::Tick);
    assert_eq!(kinds(&mut bench), [Kind::Interrupt]);
    bench.ask("late");
    status_in(&mut bench, 4, ("late", Some("s")), "busy");
    bench.now.mono = begun + LIMIT + RUNG - 1;
    bench.step(Event::Tick);
    assert!(kinds(&mut bench).is_empty());
    bench.now.mono += 1;
    bench.step(Event::Tick);
    assert_eq!(kinds(&mut bench), [Kind::Interrupt]);
}

#[test]
fn an_execution_of_a_subshell_ends_its_process_and_interrupts_no_other_one() {
    let mut bench = Bench::running();
    bench.core.set_rules(of_v1());
    let begun = bench.now.mono;
    bench.ask("long");
    status_in(&mut bench, 1, ("long", Some("s")), "busy");
    bench.now.mono += LIMIT - 1;
    bench.now.wall += LIMIT - 1;
    bench.ask("cell");
    status_in(&mut bench, 2, ("cell", None), "busy");
    bench.orders.clear();
    for due in [LIMIT, LIMIT + RUNG] {
        bench.now.mono = begun + due;
        bench.step(Event::Tick);
        assert!(kinds(&mut bench).is_empty(), "an interrupt would reach the cell");
    }
    bench.now.mono = begun + LIMIT + 2 * RUNG;
    bench.step(Event::Tick);
    assert_eq!(kinds(&mut bench), [Kind::Stop]);
    let reason = bench.core.snapshot().reason.unwrap();
    assert!(reason.ends_with("execution_timeout"), "{reason}");
}

/// Random executions in the main shell and in two subshells, under one gateway after the other: the next step is always due at the
/// limit of the execution that began first.
#[test]
fn each_shell_has_the_time_of_its_own_execution() {
    const SHELLS: [Option<&str>; 3] = [None, Some("a"), Some("b")];
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut bench = Bench::running();
        bench.core.set_rules(of_v1());
        // Name, number and start of the execution of each shell.
        let mut runs: [Option<(String, u64, u64)>; 3] = Default::default();
        let (mut link, mut not_before) = (0, 0);
        for step in 0..40 {
            let shell = rng.index(3);
            match (rng.below(10), runs[shell].take()) {
                (0, run) => {
                    runs[shell] = run;
                    if rng.percent(50) {
                        bench.checkpoint = Some((bench.core.checkpoint(), bench.disk.len()));
                    }
                    bench.recover();
                    bench.core.set_rules(of_v1());
                    for lane in Lane::ALL {
                        bench.hello(lane, KernelState::Running);
                    }
                    // The shim has time to report what ended meanwhile.
                    not_before = bench.now.mono + 2_000_000;
                }
                (_, None) => {
                    let name = format!("{step}");
                    bench.ask(&name);
                    let number = bench.take_sent().pop().unwrap().1;
                    // What is not known to be accepted is sent again by the next gateway.
                    let accepted = ToGateway::Accepted { kernel: 1, number };
                    bench.step(Event::Shim(Lane::Data, accepted));
                    link += 1;
                    status_in(&mut bench, link, (&name, SHELLS[shell]), "busy");
                    runs[shell] = Some((name, number, bench.now.wall));
                }
                (1..5, Some((name, number, _))) => {
                    let (reply, idle) = (rng.percent(80), rng.percent(80));
                    // The reply or the idle may be lost.
                    if reply || !idle {
                        let epoch = bench.epoch;
                        link += 1;
                        let ok = json!({ "status": "ok" });
                        let answers = (epoch == 1).then_some(number);
                        bench.says(link, (Channel::Shell, "execute_reply"), &name, answers, &ok);
                    }
                    if idle {
                        link += 1;
                        status_in(&mut bench, link, (&name, SHELLS[shell]), "idle");
                    }
                }
                (_, run) => runs[shell] = run,
            }
            let began = runs.iter().flatten().map(|(_, _, began)| *began).min();
            let room = began.map_or(LIMIT, |began| began + LIMIT - bench.now.wall);
            let due = began.map(|_| not_before.max(bench.now.mono + room));
            let found = bench.core.stopwatch.deadline();
            assert_eq!(found, due, "seed {seed}, step {step}: {runs:?}");
            let passed = rng.below(room.min(LIMIT / 8));
            bench.now.mono += passed;
            bench.now.wall += passed;
        }
    }
}

#[test]
fn an_execution_that_ended_under_no_gateway_is_not_taken_for_one_without_end() {
    let mut bench = Bench::running();
    bench.core.set_rules(of_v1());
    bench.ask("a");
    status(&mut bench, 1, "a", "busy");
    bench.now.wall += 10 * LIMIT;
    bench.recover();
    bench.core.set_rules(of_v1());
    bench.hello(Lane::Now, KernelState::Running);
    bench.hello(Lane::Data, KernelState::Running);
    bench.orders.clear();
    bench.step(Event::Tick);
    // What the shim had kept comes first.
    status(&mut bench, 2, "a", "idle");
    bench.now.mono += LIMIT;
    bench.step(Event::Tick);
    assert!(kinds(&mut bench).is_empty());
}

fn claim() -> Command {
    Command::Claim(Box::new(Claim {
        bind: Some(Bind::default()),
        rules: of_v1(),
    }))
}

#[test]
fn a_claim_is_done_when_the_kernel_was_told() {
    let mut bench = Bench::running();
    bench.core.set_protocol(PROTOCOL_MAX);
    for (ok, waiter) in [(true, 8), (false, 9)] {
        bench.orders.clear();
        bench.done.clear();
        bench.order(waiter, claim());
        let (kind, number) = bench.orders[0];
        assert_eq!(kind, Kind::Bind);
        assert!(bench.done.is_empty());
        bench.event(ShimEvent::Bound(Bound {
            request: RequestId { epoch: 1, number },
            ok,
            reason: "no handler".into(),
        }));
        let expected = if ok {
            Ok(Answer::Done)
        } else {
            Err(CommandError::NotBound("no handler".into()))
        };
        assert_eq!(bench.done, [(waiter, expected)]);
    }
}

#[test]
fn a_sandbox_that_does_not_speak_of_an_order_is_not_told_of_it() {
    let mut bench = Bench::running();
    bench.core.set_protocol(PROTOCOL_MIN - 1);
    bench.done.clear();
    bench.order(8, claim());
    assert!(
        matches!(&bench.done[..], [(8, Err(CommandError::Unsupported(_)))]),
        "{:?}",
        bench.done
    );
}

fn fork() -> Command {
    Command::Fork(Box::new(Fork {
        socket: "k2.sock".into(),
        cwd: None,
        files: himalia_shim_protocol::BranchFiles::Share,
        max_copy_bytes: 0,
        env: std::collections::BTreeMap::new(),
        policy: himalia_shim_protocol::ForkPolicy::Strict,
        wait_ms: 0,
        probe_ms: 0,
    }))
}

#[test]
fn each_fork_gets_its_own_answer() {
    let mut bench = Bench::running();
    bench.core.set_protocol(PROTOCOL_MAX);
    bench.orders.clear();
    bench.done.clear();
    bench.order(8, fork());
    bench.order(9, fork());
    let id = |number| RequestId { epoch: 1, number };
    let (first, second) = (id(bench.orders[0].1), id(bench.orders[1].1));
    let forked = KernelForked {
        request: first,
        pid: 7,
        cwd: "/session".into(),
        copied_bytes: 0,
        skipped: 0,
        hazards: Vec::new(),
        ms: himalia_shim_protocol::ForkTimes::default(),
    };
    let failed = ForkFailed {
        request: second,
        reason: "busy".into(),
        code: ForkFailure::Busy,
        hazards: Vec::new(),
    };
    bench.event(ShimEvent::Forked(forked.clone()));
    bench.event(ShimEvent::ForkFailed(failed.clone()));
    assert_eq!(
        bench.done,
        [
            (8, Ok(Answer::Forked(Box::new(forked)))),
            (9, Err(CommandError::ForkFailed(Box::new(failed))))
        ]
    );
    assert_eq!(bench.core.snapshot().phase, Phase::Running);
}

#[test]
fn a_further_link_is_answered_for() {
    let add = || Command::AddLink("k2.sock".into());
    let mut bench = Bench::running();
    bench.core.set_protocol(PROTOCOL_MAX);
    bench.orders.clear();
    bench.done.clear();
    bench.order(8, add());
    bench.order(9, add());
    let id = |number| RequestId { epoch: 1, number };
    let (first, second) = (id(bench.orders[0].1), id(bench.orders[1].1));
    assert_eq!(bench.orders[0].0, Kind::AddLink);
    bench.event(ShimEvent::Refused(RequestRefused {
        request: second,
        lane: Lane::Now,
        kind: RefusalKind::Never,
        reason: "taken".into(),
    }));
    bench.event(ShimEvent::LinkAdded(LinkAdded { request: first }));
    assert_eq!(
        bench.done,
        [
            (9, Err(CommandError::Refused("taken".into()))),
            (8, Ok(Answer::Done))
        ]
    );
}

#[test]
fn a_branch_runs_from_the_beginning_and_again_after_a_change_of_the_gateway() {
    let mut bench = Bench::running();
    bench.core = crate::core::Core::branch(bench.core.settings, bench.now);
    bench.disk.clear();
    bench.step(Event::Tick);
    let told: LifecycleRecord = serde_json::from_slice(&bench.disk[0].body).unwrap();
    assert_eq!(told, LifecycleRecord::Started { incarnation: 1 });
    for lane in Lane::ALL {
        bench.hello(lane, KernelState::Running);
    }
    assert_eq!(
        (bench.core.snapshot().phase, bench.core.snapshot().incarnation),
        (Phase::Running, 1)
    );
    bench.recover();
    assert_eq!(bench.core.snapshot().phase, Phase::Running);
    // The gateway was killed before the log was begun.
    bench.disk.clear();
    bench.recover();
    assert_eq!(bench.core.snapshot().phase, Phase::New);
    for lane in Lane::ALL {
        bench.hello(lane, KernelState::Running);
    }
    assert_eq!(
        (bench.core.snapshot().phase, bench.core.snapshot().incarnation),
        (Phase::Running, 1)
    );
}
