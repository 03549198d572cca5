//! Turns for work that takes a processor: a few at a time, given to the principals one after the other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use himalia_model::{EngineError, Principal};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

/// Requests of one tenant, and of the operator, that wait.
const WAITING: usize = 64;
const WAITING_OPERATOR: usize = 1024;
/// After so long a turn goes to who waits, if its work has parts.
const SLICE: Duration = Duration::from_millis(5);
/// The longest rest of a tenant after a turn, and one that is too short for a timer.
const REST: Duration = Duration::from_millis(250);
const SHORT_REST: Duration = Duration::from_millis(1);

/// The turns and who waits for one.
#[derive(Debug)]
pub(super) struct Turns {
    what: &'static str,
    /// Name of the work in reasons of refusals.
    words: &'static str,
    /// Limits: of all together; of all but the operator; of one tenant.
    all: usize,
    tenants: usize,
    tenant: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    now: usize,
    tenants: usize,
    /// As many as there are tenants, and the operator.
    owners: BTreeMap<String, Owner>,
    /// Counts turns, and those who came to wait.
    clock: u64,
}

#[derive(Debug, Default)]
struct Owner {
    now: usize,
    given: u64,
    refused: u64,
    /// When it was given the latest one.
    last: u64,
    /// Number of waiting requests, also of the ones that were dropped since.
    waiting: usize,
    requests: usize,
    /// It gets no turn before. Turns of a tenant are followed by rests of the same length, so that it works half of the time: kernels of
    /// others run beside it.
    rests_until: Option<Instant>,
    /// A task will give it a turn after its rest.
    is_timed: bool,
    /// Queues of its callers that have a turn or wait.
    lines: BTreeMap<String, Line>,
}

#[derive(Debug, Default)]
struct Line {
    /// When it was given the latest turn.
    last: u64,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    principal: Principal,
    came: u64,
    /// A request, of which only so many may wait.
    counts: bool,
    tell: oneshot::Sender<Turn>,
}

/// Permit for one piece of work, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
    principal: Principal,
    since: Instant,
}

impl Turns {
    /// At most `all` at a time, of these `tenants` of all but the operator and `tenant` of each.
    pub(super) fn new(
        what: &'static str,
        words: &'static str,
        [all, tenants, tenant]: [usize; 3],
    ) -> Arc<Self> {
        Arc::new(Self {
            what,
            words,
            all,
            tenants,
            tenant,
            state: Mutex::default(),
        })
    }

    /// Waits for a turn, at most this long. [`EngineError::OverBudget`] where the principal has too much waiting already,
    /// [`EngineError::Busy`] when the time has passed.
    pub(super) async fn next(
        self: &Arc<Self>,
        principal: &Principal,
        patience: Duration,
    ) -> Result<Turn, EngineError> {
        let entered = self.enter(principal)?;
        self.until(principal, entered, patience).await
    }

    /// Waits for a turn as long as that takes. For those whose number has another bound: clients of events.
    pub(super) async fn next_of_many(self: &Arc<Self>, principal: &Principal) -> Turn {
        loop {
            match self.enter_uncounted(principal) {
                TurnEntry::Now(turn) => return turn,
                TurnEntry::Later(told) => {
                    if let Ok(turn) = told.await {
                        return turn;
                    }
                }
            }
        }
    }

    async fn until(
        &self,
        principal: &Principal,
        entered: TurnEntry,
        patience: Duration,
    ) -> Result<Turn, EngineError> {
        let told = match entered {
            TurnEntry::Now(turn) => return Ok(turn),
            TurnEntry::Later(told) => told,
        };
        if let Ok(Ok(turn)) = timeout(patience, told).await {
            return Ok(turn);
        }
        self.state.lock().owner(principal).refused += 1;
        Err(EngineError::Busy {
            reason: format!(
                "other {} had their turns for {} s; try again",
                self.words,
                patience.as_secs()
            ),
        })
    }

    /// A turn, or a place in the line, of which a principal has only so many.
    fn enter(self: &Arc<Self>, principal: &Principal) -> Result<TurnEntry, EngineError> {
        let most = if principal.is_operator() {
            WAITING_OPERATOR
        } else {
            WAITING
        };
        let mut state = self.state.lock();
        let owner = state.owner(principal);
        if owner.requests >= most {
            owner.forget_gone();
        }
        if owner.requests >= most {
            owner.refused += 1;
            let reason = format!("{most} {} of {} wait for a turn", self.words, principal.owner());
            return Err(EngineError::OverBudget {
                what: self.what,
                reason,
                gateways: false,
                retry_after: 1,
            });
        }
        Ok(self.enter_in(&mut state, principal, true))
    }

    /// The same without that bound.
    fn enter_uncounted(self: &Arc<Self>, principal: &Principal) -> TurnEntry {
        self.enter_in(&mut self.state.lock(), principal, false)
    }

    fn enter_in(self: &Arc<Self>, state: &mut State, principal: &Principal, counts: bool) -> TurnEntry {
        let has_room = self.has_room(state, principal);
        let owner = state.owner(principal);
        if has_room && owner.waiting > 0 {
            owner.forget_gone();
        }
        // A caller that waits goes first.
        if has_room && owner.waiting == 0 {
            state.give(principal);
            return TurnEntry::Now(self.turn(principal.clone()));
        }
        let (tell, told) = oneshot::channel();
        owner.waiting += 1;
        owner.requests += usize::from(counts);
        state.clock += 1;
        let waiter = Waiter {
            principal: principal.clone(),
            came: state.clock,
            counts,
            tell,
        };
        state.owner(principal).line(principal).waiting.push_back(waiter);
        self.wake_after_rest(state, principal.owner());
        TurnEntry::Later(told)
    }

    fn turn(self: &Arc<Self>, principal: Principal) -> Turn {
        Turn {
            turns: Arc::clone(self),
            principal,
            since: Instant::now(),
        }
    }

    fn has_room(&self, state: &State, principal: &Principal) -> bool {
        let owner = state.owners.get(principal.owner());
        owner.is_none_or(|owner| self.has_room_for(state, owner, principal.is_operator()))
    }

    fn has_room_for(&self, state: &State, owner: &Owner, is_operator: bool) -> bool {
        let of_tenant = || state.tenants < self.tenants && owner.now < self.tenant && !owner.rests();
        state.now < self.all && (is_operator || of_tenant())
    }

    /// Gives turns to those who wait.
    fn release(self: &Arc<Self>, principal: &Principal, since: Instant) {
        {
            let mut state = self.state.lock();
            state.leave(principal);
            if !principal.is_operator() && Handle::try_current().is_ok() {
                let slots = u32::try_from(self.tenant).unwrap_or(u32::MAX);
                state.owner(principal).rest(since, slots);
                self.wake_after_rest(&mut state, principal.owner());
            }
        }
        self.give_all();
    }

    fn give_all(self: &Arc<Self>) {
        let mut given = Vec::new();
        {
            let mut state = self.state.lock();
            while let Some(waiter) = self.next_of(&mut state) {
                state.give(&waiter.principal);
                given.push(waiter);
            }
            state.forget_lines();
        }
        // Without the lock: a turn that no caller takes any more comes back at once.
        for Waiter { principal, tell, .. } in given {
            drop(tell.send(self.turn(principal)));
        }
    }

    /// Gives turns again after the rest of an owner, if it waits.
    fn wake_after_rest(self: &Arc<Self>, state: &mut State, name: &str) {
        let Some(owner) = state.owners.get_mut(name).filter(|owner| !owner.is_timed) else {
            return;
        };
        // Also for the last moment of a rest: it may have been too long just now.
        let rest = owner.rests_until.filter(|until| Instant::now() < *until);
        if let (true, Some(until)) = (owner.waiting > 0, rest) {
            owner.is_timed = true;
            let (turns, name) = (Arc::clone(self), name.to_owned());
            tokio::spawn(async move {
                sleep_until(until).await;
                {
                    let mut state = turns.state.lock();
                    if let Some(owner) = state.owners.get_mut(&name) {
                        owner.is_timed = false;
                    }
                    turns.wake_after_rest(&mut state, &name);
                }
                turns.give_all();
            });
        }
    }

    /// Takes out of its line whom there is room for: of the owner whose latest turn is longest ago, of its callers likewise.
    fn next_of(&self, state: &mut State) -> Option<Waiter> {
        loop {
            let ready = state.owners.iter().filter(|(name, owner)| {
                let is_operator = *name == Principal::operator().owner();
                owner.waiting > 0 && self.has_room_for(state, owner, is_operator)
            });
            let (name, _) = ready.min_by_key(|(_, owner)| (owner.last, owner.came()))?;
            let name = name.clone();
            if let Some(waiter) = state.owners.get_mut(&name)?.pop() {
                return Some(waiter);
            }
        }
    }

    /// A caller waits, not necessarily for what this principal has.
    fn is_wanted(&self) -> bool {
        self.state.lock().owners.values().any(|owner| owner.waiting > 0)
    }

    /// Owner, turns now, turns given, refusals.
    pub(super) fn uses(&self) -> Vec<(String, u64, u64, u64)> {
        let state = self.state.lock();
        let owners = state.owners.iter();
        owners
            .map(|(name, it)| (name.clone(), it.now as u64, it.given, it.refused))
            .collect()
    }
}

enum TurnEntry {
    Now(Turn),
    Later(oneshot::Receiver<Turn>),
}

impl State {
    fn owner(&mut self, principal: &Principal) -> &mut Owner {
        self.owners.entry(principal.owner().to_owned()).or_default()
    }

    fn give(&mut self, principal: &Principal) {
        self.clock += 1;
        self.now += 1;
        if !principal.is_operator() {
            self.tenants += 1;
        }
        let clock = self.clock;
        let owner = self.owner(principal);
        owner.now += 1;
        owner.given += 1;
        owner.last = clock;
        owner.line(principal).last = clock;
    }

    fn leave(&mut self, principal: &Principal) {
        self.now = self.now.saturating_sub(1);
        if !principal.is_operator() {
            self.tenants = self.tenants.saturating_sub(1);
        }
        let owner = self.owner(principal);
        owner.now = owner.now.saturating_sub(1);
    }

    /// Drops the queues of callers of an owner that waits for nothing.
    fn forget_lines(&mut self) {
        for owner in self.owners.values_mut().filter(|owner| owner.waiting == 0) {
            owner.lines.clear();
        }
    }
}

impl Owner {
    fn rests(&self) -> bool {
        self.rests_until
            .is_some_and(|until| Instant::now() + SHORT_REST < until)
    }

    /// After a turn since then, one of so many that the owner can have at a time.
    fn rest(&mut self, since: Instant, slots: u32) {
        let now = Instant::now();
        let before = self.rests_until.map_or(since, |until| until.max(since));
        let until = before + now.duration_since(since) * 2 / slots.max(1);
        self.rests_until = Some(until.min(now + REST));
    }

    fn line(&mut self, principal: &Principal) -> &mut Line {
        self.lines.entry(principal.name().to_owned()).or_default()
    }

    /// When the first of those who wait came.
    fn came(&self) -> u64 {
        let fronts = self.lines.values().filter_map(|line| line.waiting.front());
        fronts.map(|waiter| waiter.came).min().unwrap_or(u64::MAX)
    }

    /// The first one of the caller whose latest turn is longest ago.
    fn pop(&mut self) -> Option<Waiter> {
        loop {
            let lines = self.lines.values_mut().filter(|line| !line.waiting.is_empty());
            let line = lines.min_by_key(|line| (line.last, line.waiting.front().map(|waiter| waiter.came)));
            let Some(waiter) = line.and_then(|line| line.waiting.pop_front()) else {
                self.waiting = 0;
                return None;
            };
            self.waiting = self.waiting.saturating_sub(1);
            self.requests = self.requests.saturating_sub(usize::from(waiter.counts));
            if !waiter.tell.is_closed() {
                return Some(waiter);
            }
        }
    }

    /// Drops requests that no longer wait.
    fn forget_gone(&mut self) {
        (self.waiting, self.requests) = (0, 0);
        for line in self.lines.values_mut() {
            line.waiting.retain(|waiter| !waiter.tell.is_closed());
            self.waiting += line.waiting.len();
            self.requests += line.waiting.iter().filter(|waiter| waiter.counts).count();
        }
    }
}

impl Turn {
    /// For work in parts: after a long turn, a tenant rests, and the turn goes to who waits. Another one is waited for, at most this long.
    pub(super) async fn go_on(self, patience: Duration) -> Result<Self, EngineError> {
        let is_alone = || self.principal.is_operator() && !self.turns.is_wanted();
        if self.since.elapsed() < SLICE || is_alone() {
            return Ok(self);
        }
        let (turns, principal) = (Arc::clone(&self.turns), self.principal.clone());
        drop(self);
        let entered = turns.enter_uncounted(&principal);
        turns.until(&principal, entered, patience).await
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.release(&self.principal, self.since);
    }
}

#[cfg(test)]
mod tests;
