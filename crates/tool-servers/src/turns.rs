//! Turns at a server: a few calls at a time, given to owners one after the other, and to the sessions of each.
//!
//! Who has the fewest turns now is next, and of those who have as many, the one who has waited the longest since the last turn. So a
//! session that asks for all of them slows its own calls down, and no others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use himalia_model::OPERATOR;
use tokio::sync::oneshot;

/// Limits for calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnLimits {
    /// In progress: of all; of one owner, unless that is the operator; of one session.
    pub(crate) calls: usize,
    pub(crate) calls_of_owner: usize,
    pub(crate) calls_of_session: usize,
    /// Limits for waiting calls: of all; of one owner; of one session.
    pub(crate) waiting: usize,
    pub(crate) waiting_of_owner: usize,
    pub(crate) waiting_of_session: usize,
}

/// The turns at one server, and who waits for one.
#[derive(Debug)]
pub(crate) struct Turns {
    most: TurnLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: usize,
    waiting: usize,
    /// Counts turns that were given, and calls that came to wait.
    clock: u64,
    /// Owners with a running or a waiting call.
    owners: BTreeMap<String, Owner>,
}

#[derive(Debug, Default)]
struct Owner {
    calls: usize,
    waiting: usize,
    last: u64,
    sessions: BTreeMap<String, Line>,
}

/// The calls of one session.
#[derive(Debug, Default)]
struct Line {
    calls: usize,
    last: u64,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    give: oneshot::Sender<Turn>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CallOwner {
    owner: String,
    session: String,
}

/// The turn of a call, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Option<Arc<Turns>>,
    whose: CallOwner,
}

/// A place in the line, until it is dropped.
struct InLine {
    turns: Arc<Turns>,
    whose: CallOwner,
    number: u64,
}

impl Turns {
    pub(crate) fn new(most: TurnLimits) -> Arc<Self> {
        Arc::new(Self {
            most,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls in progress, and those that wait.
    pub(crate) fn count(&self) -> usize {
        let state = self.state();
        state.calls + state.waiting
    }

    /// Waits for a turn, for a session of an owner. Who stops waiting has no place any more.
    ///
    /// # Errors
    /// Whose calls are too many already.
    pub(crate) async fn next(self: &Arc<Self>, owner: &str, session: &str) -> Result<Turn, &'static str> {
        let whose = CallOwner {
            owner: owner.to_owned(),
            session: session.to_owned(),
        };
        let (given, _place) = self.enter(whose)?;
        // It is dropped with all turns alone.
        given.await.map_err(|_| "the server")
    }

    fn enter(self: &Arc<Self>, whose: CallOwner) -> Result<(oneshot::Receiver<Turn>, InLine), &'static str> {
        let most = &self.most;
        let mut state = self.state();
        state.clock += 1;
        let number = state.clock;
        let has_room = state.waiting < most.waiting;
        let owner = state.owners.get(&whose.owner);
        let line = owner.and_then(|owner| owner.sessions.get(&whose.session));
        // Where there is a turn at once, none waits.
        let refused = if line.is_some_and(|line| line.waiting.len() >= most.waiting_of_session) {
            Some("this session")
        } else if owner.is_some_and(|owner| owner.waiting >= most.waiting_of_owner) {
            Some("this tenant")
        } else {
            (!has_room).then_some("all sessions")
        };
        if let Some(refused) = refused {
            return Err(refused);
        }
        let (give, given) = oneshot::channel();
        let owner = state.owners.entry(whose.owner.clone()).or_default();
        let line = owner.sessions.entry(whose.session.clone()).or_default();
        line.waiting.push_back(Waiter { number, give });
        owner.waiting += 1;
        state.waiting += 1;
        self.give(&mut state);
        let place = InLine {
            turns: Arc::clone(self),
            whose,
            number,
        };
        Ok((given, place))
    }

    fn give(self: &Arc<Self>, state: &mut State) {
        while state.calls < self.most.calls {
            let Some(whose) = state.next(&self.most) else {
                return;
            };
            let State {
                calls,
                waiting,
                clock,
                owners,
            } = &mut *state;
            let Some(owner) = owners.get_mut(&whose.owner) else {
                return;
            };
            let Some(line) = owner.sessions.get_mut(&whose.session) else {
                return;
            };
            let Some(waiter) = line.waiting.pop_front() else {
                return;
            };
            owner.waiting -= 1;
            *waiting -= 1;
            let turn = Turn {
                turns: Some(Arc::clone(self)),
                whose: whose.clone(),
            };
            match waiter.give.send(turn) {
                Ok(()) => {
                    *clock += 1;
                    (owner.last, line.last) = (*clock, *clock);
                    owner.calls += 1;
                    line.calls += 1;
                    *calls += 1;
                }
                // It waits no longer. The turn was not counted.
                Err(mut turn) => turn.turns = None,
            }
            state.forget(&whose);
        }
    }

    fn end(self: &Arc<Self>, whose: &CallOwner) {
        let mut state = self.state();
        state.calls = state.calls.saturating_sub(1);
        if let Some(owner) = state.owners.get_mut(&whose.owner) {
            owner.calls = owner.calls.saturating_sub(1);
            if let Some(line) = owner.sessions.get_mut(&whose.session) {
                line.calls = line.calls.saturating_sub(1);
            }
        }
        state.forget(whose);
        self.give(&mut state);
    }
}

impl State {
    /// Next caller, if a call may start now.
    fn next(&self, most: &TurnLimits) -> Option<CallOwner> {
        let may = |line: &Line| line.calls < most.calls_of_session && !line.waiting.is_empty();
        let owners = self.owners.iter();
        let owners = owners.filter(|(name, owner)| {
            let has_room = owner.calls < most.calls_of_owner || *name == OPERATOR;
            has_room && owner.sessions.values().any(may)
        });
        let (name, owner) = owners.min_by_key(|(_, owner)| (owner.calls, owner.last))?;
        let lines = owner.sessions.iter().filter(|(_, line)| may(line));
        let (session, _) = lines.min_by_key(|(_, line)| (line.calls, line.last))?;
        Some(CallOwner {
            owner: name.clone(),
            session: session.clone(),
        })
    }

    /// Keeps nothing of who neither has a turn nor waits.
    fn forget(&mut self, whose: &CallOwner) {
        let Some(owner) = self.owners.get_mut(&whose.owner) else {
            return;
        };
        let is_idle = |line: &Line| line.calls == 0 && line.waiting.is_empty();
        if owner.sessions.get(&whose.session).is_some_and(is_idle) {
            owner.sessions.remove(&whose.session);
        }
        if owner.sessions.is_empty() {
            self.owners.remove(&whose.owner);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.turns.take() {
            turns.end(&self.whose);
        }
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        let owner = state.owners.get_mut(&self.whose.owner);
        let Some(owner) = owner else { return };
        let Some(line) = owner.sessions.get_mut(&self.whose.session) else {
            return;
        };
        let before = line.waiting.len();
        line.waiting.retain(|waiter| waiter.number != self.number);
        let left = before - line.waiting.len();
        owner.waiting -= left;
        state.waiting -= left;
        state.forget(&self.whose);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: TurnLimits = TurnLimits {
        calls: 5,
        calls_of_owner: 4,
        calls_of_session: 3,
        waiting: 20,
        waiting_of_owner: 12,
        waiting_of_session: 8,
    };

    /// A call that has its turn or waits for it.
    type Call = (oneshot::Receiver<Turn>, InLine);

    fn enter(turns: &Arc<Turns>, owner: &str, session: &str) -> Result<Call, &'static str> {
        turns.enter(CallOwner {
            owner: owner.to_owned(),
            session: session.to_owned(),
        })
    }

    fn is_empty(turns: &Arc<Turns>) -> bool {
        let state = turns.state();
        state.calls == 0 && state.waiting == 0 && state.owners.is_empty()
    }

    #[test]
    fn a_session_has_some_turns_and_others_have_the_rest() {
        let turns = Turns::new(MOST);
        let mut greedy: Vec<Call> = (0..8).map(|_| enter(&turns, "a", "1").unwrap()).collect();
        let has = |calls: &mut Vec<Call>| {
            calls
                .iter_mut()
                .filter_map(|one| one.0.try_recv().ok())
                .collect::<Vec<_>>()
        };
        let mut held = has(&mut greedy);
        assert_eq!(held.len(), 3);
        let mut other: Vec<Call> = (0..2).map(|_| enter(&turns, "b", "2").unwrap()).collect();
        let others = has(&mut other);
        assert_eq!(others.len(), 2);
        // All five are taken. Another owner is next, and then another session.
        let (mut first, mut second) = (enter(&turns, "a", "3").unwrap(), enter(&turns, "c", "4").unwrap());
        held.pop();
        assert!(first.0.try_recv().is_err());
        let second = second.0.try_recv().unwrap();
        held.pop();
        assert!(first.0.try_recv().is_ok() && has(&mut greedy).len() < 2);
        drop((held, others, other, greedy, first, second));
        assert!(is_empty(&turns), "{turns:?}");
    }

    #[test]
    fn an_owner_has_some_turns_and_the_operator_all() {
        let turns = Turns::new(MOST);
        let calls = |owner: &str| -> Vec<Turn> {
            let entered = (0..9).map(|number| enter(&turns, owner, &number.to_string()).unwrap());
            entered.filter_map(|mut call| call.0.try_recv().ok()).collect()
        };
        let (of_tenant, of_other) = (calls("a"), calls("b"));
        assert_eq!((of_tenant.len(), of_other.len()), (4, 1));
        drop((of_tenant, of_other));
        assert_eq!(calls(OPERATOR).len(), 5);
        assert!(is_empty(&turns), "{turns:?}");
    }

    #[test]
    fn those_who_wait_are_bounded_and_who_goes_leaves_the_line() {
        let turns = Turns::new(MOST);
        let mut all: Vec<Call> = (0..11).map(|_| enter(&turns, "a", "1").unwrap()).collect();
        assert_eq!(enter(&turns, "a", "1").err(), Some("this session"));
        // One turn of the owner is left, and then four may wait.
        all.extend((0..5).map(|_| enter(&turns, "a", "2").unwrap()));
        assert_eq!(enter(&turns, "a", "2").err(), Some("this tenant"));
        all.extend((0..9).map(|_| enter(&turns, "b", "3").unwrap()));
        assert_eq!(enter(&turns, "c", "4").err(), Some("all sessions"));
        assert_eq!(turns.count(), 25);
        all.truncate(10);
        assert!(enter(&turns, "c", "4").is_ok());
        drop(all);
        assert!(is_empty(&turns), "{turns:?}");
    }

    #[test]
    fn any_order_of_calls_leaves_nothing_and_exceeds_no_bound() {
        let turns = Turns::new(MOST);
        let mut seed = 7_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let (mut waiting, mut held): (Vec<Call>, Vec<Turn>) = (Vec::new(), Vec::new());
        for _ in 0..20_000 {
            match random(4) {
                0 | 1 => {
                    let (owner, session) = (random(3).to_string(), random(3).to_string());
                    waiting.extend(enter(&turns, &owner, &session));
                }
                2 if !waiting.is_empty() => {
                    let at = usize::try_from(random(waiting.len() as u64)).unwrap();
                    let mut call = waiting.swap_remove(at);
                    held.extend(call.0.try_recv());
                }
                _ if !held.is_empty() => {
                    let at = usize::try_from(random(held.len() as u64)).unwrap();
                    held.swap_remove(at);
                }
                _ => {}
            }
            let state = turns.state();
            assert!(
                state.calls <= MOST.calls && state.waiting <= MOST.waiting,
                "{state:?}"
            );
            assert!(
                state
                    .owners
                    .values()
                    .all(|owner| owner.calls <= MOST.calls_of_owner)
            );
            let lines = state.owners.values().flat_map(|owner| owner.sessions.values());
            assert!(
                lines
                    .map(|line| line.calls)
                    .all(|calls| calls <= MOST.calls_of_session)
            );
        }
        drop((waiting, held));
        assert!(is_empty(&turns), "{turns:?}");
    }
}
