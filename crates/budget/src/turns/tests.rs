use super::*;

fn turns(numbers: [usize; 3]) -> Arc<Turns> {
    Turns::new("turns", "pieces of work", numbers)
}

fn of(tenant: &str, caller: &str) -> Principal {
    Principal::of_tenant(tenant, caller).unwrap()
}

fn now(turns: &Arc<Turns>, who: &Principal) -> Turn {
    match turns.enter(who).unwrap() {
        TurnEntry::Now(turn) => turn,
        TurnEntry::Later(_) => panic!("{} waits", who.name()),
    }
}

fn later(turns: &Arc<Turns>, who: &Principal) -> oneshot::Receiver<Turn> {
    match turns.enter(who).unwrap() {
        TurnEntry::Now(_) => panic!("{} does not wait", who.name()),
        TurnEntry::Later(told) => told,
    }
}

#[test]
fn a_tenant_leaves_turns_to_others_and_all_leave_one_to_the_operator() {
    let turns = turns([3, 2, 1]);
    let (ada, eve, other) = (of("acme", "ada"), of("evil", "eve"), of("other", "x"));
    let held = (now(&turns, &eve), later(&turns, &eve), now(&turns, &ada));
    let mut waits = later(&turns, &other);
    let operator = now(&turns, &Principal::operator());
    drop(operator);
    assert!(waits.try_recv().is_err(), "the operator's is no tenant's");
    drop(held.2);
    assert!(waits.try_recv().is_ok());
}

#[test]
fn the_principal_that_had_none_for_the_longest_time_is_next() {
    let turns = turns([3, 2, 1]);
    let (ada, bob, eve) = (of("acme", "ada"), of("acme", "bob"), of("evil", "eve"));
    let running = (now(&turns, &ada), now(&turns, &eve));
    let mut ada_waits: Vec<_> = (0..5).map(|_| later(&turns, &ada)).collect();
    let mut bob_waits = later(&turns, &bob);
    drop(running.0);
    let first = bob_waits.try_recv().unwrap();
    assert!(ada_waits[0].try_recv().is_err());
    drop(first);
    let second = ada_waits[0].try_recv().unwrap();
    // One that has gone away is passed over.
    drop(ada_waits.remove(1));
    drop(second);
    assert!(ada_waits[1].try_recv().is_ok());
    drop((ada_waits, running.1));
    let state = turns.state.lock();
    assert_eq!((state.now, state.tenants), (0, 0));
    assert!(state.owners.values().all(|owner| owner.now == 0));
}

#[test]
fn a_turn_that_is_not_taken_goes_to_the_next() {
    let turns = turns([3, 2, 1]);
    let ada = of("acme", "ada");
    let running = now(&turns, &ada);
    let (gone, mut waits) = (later(&turns, &ada), later(&turns, &ada));
    drop(gone);
    drop(running);
    assert!(waits.try_recv().is_ok());
}

#[test]
fn only_so_many_wait() {
    let turns = turns([3, 2, 1]);
    let eve = of("evil", "eve");
    let running = now(&turns, &eve);
    let waits: Vec<_> = (0..WAITING).map(|_| later(&turns, &eve)).collect();
    let Err(error) = turns.enter(&eve) else {
        panic!("one too many")
    };
    assert_eq!(error.code(), "over_budget");
    assert_eq!(turns.uses(), [("evil".to_owned(), 1, 1, 1)]);
    drop((running, waits));
}

#[tokio::test]
async fn clients_of_events_wait_beside_requests_and_all_get_their_turn() {
    let turns = turns([3, 2, 1]);
    let eve = of("evil", "eve");
    let running = now(&turns, &eve);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..4 * WAITING {
        let (turns, eve) = (Arc::clone(&turns), eve.clone());
        clients.spawn(async move { drop(turns.next_of_many(&eve).await) });
    }
    // They do not keep requests of the same tenant from waiting, nor the work of another.
    let request = later(&turns, &eve);
    drop(now(&turns, &of("acme", "ada")));
    drop(running);
    drop(request.await);
    clients.join_all().await;
    assert_eq!(turns.uses()[1], ("evil".to_owned(), 0, 4 * WAITING as u64 + 2, 0));
}

#[tokio::test]
async fn work_in_parts_lets_others_go_between() {
    let turns = turns([1, 1, 1]);
    let (ada, eve) = (of("acme", "ada"), of("evil", "eve"));
    let long_turn = |who: &Principal| {
        let mut turn = now(&turns, who);
        turn.since = turn.since.checked_sub(SLICE).unwrap();
        turn
    };
    // No caller waits: the operator keeps it.
    let operators = long_turn(&Principal::operator());
    drop(operators.go_on(Duration::ZERO).await.unwrap());
    let long = long_turn(&eve);
    let waits = later(&turns, &ada);
    let going = tokio::spawn(long.go_on(Duration::from_mins(1)));
    let adas = waits.await.unwrap();
    assert_eq!(turns.state.lock().owners["evil"].now, 0);
    drop(adas);
    drop(going.await.unwrap().unwrap());
    assert_eq!(turns.state.lock().now, 0);
}

#[tokio::test]
async fn no_caller_waits_for_ever() {
    let turns = turns([3, 2, 1]);
    let eve = of("evil", "eve");
    let running = now(&turns, &eve);
    let error = turns.next(&eve, Duration::ZERO).await.unwrap_err();
    assert_eq!((error.code(), error.retryable()), ("busy", true));
    drop(running);
    assert!(turns.next(&eve, Duration::from_secs(10)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_tenant_rests_as_long_as_its_turns_took() {
    let turns = turns([3, 2, 1]);
    let (ada, eve, operator) = (of("acme", "ada"), of("evil", "eve"), Principal::operator());
    let took = |ms| tokio::time::advance(Duration::from_millis(ms));
    let running = now(&turns, &eve);
    let (first, second) = (later(&turns, &eve), later(&turns, &eve));
    took(20).await;
    drop(running);
    // The others do not rest.
    drop((now(&turns, &ada), now(&turns, &operator)));
    let ended = Instant::now();
    let turn = first.await.unwrap();
    assert!(ended.elapsed() >= Duration::from_millis(19));
    took(1_000).await;
    let ended = Instant::now();
    drop(turn);
    drop(second.await.unwrap());
    assert!(ended.elapsed() <= REST + SHORT_REST, "{:?}", ended.elapsed());
    drop(turns.next(&operator, Duration::ZERO).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn short_turns_add_up_to_a_rest() {
    let turns = turns([3, 2, 1]);
    let eve = of("evil", "eve");
    let mut given = 0;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(100) {
        let turn = turns.next(&eve, Duration::from_secs(1)).await.unwrap();
        tokio::time::advance(Duration::from_micros(500)).await;
        drop(turn);
        given += 1;
    }
    assert!((85..=104).contains(&given), "{given} turns of 0.5 ms in 100 ms");
}
