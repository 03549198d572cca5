//! What callers of native executions share: turns, keys, limits of failures.

use himalia_shim_protocol::{Lane, ToGateway};

use super::records::{End, ExecutionRecord};
use crate::event::{Answer, Command, CommandError, Event};
use crate::play::{Play, TIMEOUT, submission};
use crate::sim::rng::Rng;

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
    // A caller that sets no limit may try, and a success begins anew.
    play.execute("e");
    play.run_to("ok");
    attempt(&mut play, "error");
    attempt(&mut play, "error");
    play.recover();
    assert_eq!(play.submit(wanted.clone()), refused);
}

fn named(code: &str, client: &str) -> super::records::Submission {
    let mut named = submission(code);
    named.client = Some(client.into());
    named
}

#[test]
fn callers_take_turns_whatever_waits_of_one_of_them() {
    let mut play = Play::new();
    for code in ["a1", "a2", "a3", "a4"] {
        play.submit(named(code, "ada")).unwrap();
    }
    for code in ["b1", "b2"] {
        play.submit(named(code, "ben")).unwrap();
    }
    play.submit(named("c1", "cleo")).unwrap();
    let position = |play: &Play, code: &str| {
        let mut records = play.bench.disk.iter().rev().filter_map(|record| {
            let event = serde_json::from_slice(&record.body).ok()?;
            match event {
                ExecutionRecord::Submitted {
                    submission, ahead, ..
                } if submission.code == code => Some(ahead),
                _ => None,
            }
        });
        records.next().unwrap()
    };
    let positions = ["a1", "a4", "b1", "b2", "c1"].map(|code| position(&play, code));
    assert_eq!(positions, [0, 3, 2, 4, 3]);
    for _ in 0..7 {
        play.run_to("ok");
    }
    assert_eq!(play.codes(), ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]);
    // One that comes later is not behind by what it did not ask for before.
    play.submit(named("a5", "ada")).unwrap();
    play.submit(named("a6", "ada")).unwrap();
    play.submit(named("d1", "dan")).unwrap();
    for _ in 0..3 {
        play.run_to("ok");
    }
    assert_eq!(play.codes()[7..], ["a5", "a6", "d1"]);
}

/// Callers come at random, one of them with bursts. What is promised holds for every caller, whatever the others do.
fn random_callers(seed: u64) {
    const CALLERS: [&str; 4] = ["ada", "ben", "cleo", "dan"];
    let (mut rng, mut play) = (Rng::new(seed), Play::new());
    // Whose it is, its number, and how many executions had been sent when it became the first one of its caller that waits.
    let mut submitted: Vec<(usize, String, Option<usize>)> = Vec::new();
    let waiting = |play: &Play, submitted: &[(usize, String, Option<usize>)], who: usize| {
        let sent = play.codes();
        let mine = submitted.iter().filter(|(caller, ..)| *caller == who);
        mine.filter(|(_, code, _)| !sent.contains(code)).count()
    };
    for _ in 0..60 {
        let open = submitted.len() > play.ends().len();
        if open && rng.percent(45) {
            play.run_to("ok");
            continue;
        }
        let who = rng.index(CALLERS.len());
        let burst = if who == 0 { 1 + rng.index(8) } else { 1 };
        for _ in 0..burst {
            let first = waiting(&play, &submitted, who) == 0;
            let code = format!("{who}.{}", submitted.len());
            let since = first.then(|| play.codes().len());
            match play.submit(named(&code, CALLERS[who])) {
                Ok(_) => submitted.push((who, code, since)),
                // Only one with so many of its own.
                Err(error) => assert!(
                    who == 0 && matches!(error, CommandError::QueueFull(65..)),
                    "seed {seed}: {error:?}"
                ),
            }
        }
    }
    while submitted.len() > play.ends().len() {
        play.run_to("ok");
    }
    let sent = play.codes();
    let caller_of = |code: &str| code.split('.').next().unwrap().parse::<usize>().unwrap();
    let place = |code: &str| sent.iter().position(|one| one == code).unwrap();
    for who in 0..CALLERS.len() {
        let mine = submitted.iter().filter(|(caller, ..)| *caller == who);
        let asked: Vec<&str> = mine.clone().map(|(_, code, _)| code.as_str()).collect();
        let ran: Vec<&str> = sent
            .iter()
            .map(String::as_str)
            .filter(|code| caller_of(code) == who)
            .collect();
        assert_eq!(asked, ran, "seed {seed}: those of one caller run in their order");
        let mut before = 0;
        for (_, code, first) in mine {
            // It waits for its caller's earlier one, or from when it came.
            let (from, to) = (first.unwrap_or(before), place(code));
            for other in (0..CALLERS.len()).filter(|other| *other != who) {
                let overtook = sent[from..to]
                    .iter()
                    .filter(|code| caller_of(code) == other)
                    .count();
                assert!(
                    overtook <= 2,
                    "seed {seed}: {overtook} of {other} before {code}: {sent:?}"
                );
            }
            before = to + 1;
        }
    }
}

#[test]
fn a_callers_first_waits_for_two_executions_of_another_at_most() {
    for seed in 0..100 {
        random_callers(seed);
    }
}

#[test]
fn turns_survive_the_gateway() {
    let mut play = Play::new();
    for (code, client) in [
        ("a1", "ada"),
        ("a2", "ada"),
        ("a3", "ada"),
        ("b1", "ben"),
        ("c1", "cleo"),
    ] {
        play.submit(named(code, client)).unwrap();
    }
    play.run_to("ok");
    play.run_to("ok");
    play.status("busy");
    let number = play.sent().last().unwrap().2;
    play.bench
        .step(Event::Shim(Lane::Data, ToGateway::Accepted { kernel: 1, number }));
    play.recover();
    play.reply("ok");
    play.status("idle");
    assert_eq!(play.codes(), ["a1", "a2", "b1", "c1"], "the third of ada waits");
}

#[test]
fn one_callers_queue_leaves_room_for_others() {
    let mut play = Play::new();
    for _ in 0..=super::queue::MAX_QUEUED {
        play.submit(named("x", "ada")).unwrap();
    }
    assert_eq!(play.submit(named("x", "ada")), Err(CommandError::QueueFull(65)));
    play.submit(named("y", "ben")).unwrap();
    // What a tenant's client calls itself makes no other caller of it.
    let mut play = Play::new();
    let of_tenant = |client: &str| {
        let mut wanted = named("x", client);
        wanted.caller = "acme/ada".into();
        wanted
    };
    for number in 0..=super::queue::MAX_QUEUED {
        play.submit(of_tenant(&number.to_string())).unwrap();
    }
    assert_eq!(
        play.submit(of_tenant("another")),
        Err(CommandError::QueueFull(65))
    );
}

#[test]
fn deaths_and_timeouts_count_as_failures_of_their_code() {
    let mut play = Play::new();
    let failed_before = |play: &Play| play.ends().last().unwrap().3;
    play.execute("a");
    play.run_to("error");
    assert_eq!(failed_before(&play), 0);
    play.execute("a");
    play.status("busy");
    play.wait(TIMEOUT);
    play.reply("error");
    play.status("idle");
    assert_eq!(failed_before(&play), 1);
    play.execute("a");
    play.status("busy");
    play.bench.exited(1);
    assert_eq!(failed_before(&play), 2);
    // One that was interrupted, or never ran, is no failure of its code.
    let taken_back = play.execute("a");
    play.bench.order(1, Command::StopExecution(taken_back));
    play.execute("a");
    play.bench.started(2);
    play.incarnation = 2;
    play.wait(60_000_000);
    play.run_to("error");
    assert_eq!(failed_before(&play), 3);
}

#[test]
fn a_key_is_the_same_whatever_the_client_calls_itself() {
    let mut play = Play::new();
    let mut wanted = named("a", "ada");
    wanted.key = Some("k".into());
    let Ok(Answer::Submitted { seq, .. }) = play.submit(wanted.clone()) else {
        panic!()
    };
    wanted.client = None;
    assert_eq!(play.submit(wanted), Ok(Answer::Submitted { seq, repeated: true }));
}
