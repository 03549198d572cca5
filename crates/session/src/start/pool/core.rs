//! The state machine of one pool. Pure: no clock, no process.
//!
//! The driver feeds [`Event`]s and carries out [`Effect`]s in order. A *member* is one kernel of the pool, from the moment
//! that it is being started until it is claimed, ends or is ended; its number is never used again.

use std::collections::{BTreeMap, VecDeque};

use himalia_backoff::doubled;

/// Starts under way at once: more would only slow each other and the claims down.
const STARTS_AT_ONCE: u32 = 2;
/// First pause after a failed start, microseconds; it doubles with each next one …
pub(super) const BACK_OFF: u64 = 1_000_000;
/// … up to this.
pub(super) const BACK_OFF_MAX: u64 = 60_000_000;
/// Time after which failures are forgotten, if a kernel was ready for so long or was claimed: kernels that become ready and die at once are not made
/// again and again; microseconds.
pub(super) const STABLE: u64 = 30_000_000;
/// While half of the pool waits, a start waits so long after a claim: it would slow down the first cell of the caller that
/// claimed; microseconds.
pub(super) const COURTESY: u64 = 100_000;
/// The pool is as large as the number of claims in this time, between its size and its maximum; microseconds.
pub(super) const RATE_WINDOW: u64 = 30_000_000;

/// Time for which a kernel is held for a start that is on its way from another gateway, or through the checks before its claim; microseconds.
pub(super) const HOLD: u64 = 5_000_000;

/// Settings that stay the same while a pool lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Kernels at rest.
    pub(crate) size: u32,
    /// Kernels at most, those being started included.
    pub(crate) max: u32,
    /// Microseconds that one may wait.
    pub(crate) max_age: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A caller wants a kernel. Answered in the same step.
    Claim(u64),
    /// A caller comes for the member that is held for it. If it is held no more, this is an ordinary claim.
    ClaimHeld {
        claim: u64,
        member: u64,
    },
    /// One is to be held for a caller that will claim it. Answered in the same step, and counted when it is claimed.
    Hold(u64),
    /// A member that was held is not wanted; nothing, if it was claimed.
    Release(u64),
    /// A member can be claimed.
    Ready(u64),
    /// A member could not be started.
    Failed(u64, String),
    /// A member that was ready is no more.
    Died(u64),
    /// The machine of a member is to be emptied: another one is to take its place.
    Leaving(u64),
    /// As many gateways have a pool of this template, this one among them: each has its part.
    Sharers(u32),
    /// Members were made from what is not current any more.
    Stale,
    /// The gateway stops: no more claims, nothing stays.
    Close,
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Start this member.
    Start(u64),
    /// The claim gets this member, which is the pool's no more.
    Grant { claim: u64, member: u64 },
    /// The member is held for this caller, for [`HOLD`].
    Held { claim: u64, member: u64 },
    /// The claim gets none, or none can be held for this caller.
    Miss { claim: u64 },
    /// End this member.
    End(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Starting,
    /// Since when.
    Ready(u64),
    /// Ready since then, and held until then.
    Held(u64, u64),
}

/// Numbers of a pool, for status pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) ready: u32,
    pub(crate) starting: u32,
    pub(crate) held: u32,
    pub(crate) target: u32,
    pub(crate) size: u32,
    pub(crate) max: u32,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) failures: u64,
    pub(crate) problem: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Core {
    rules: Rules,
    /// Gateways that have a part of the pool.
    sharers: u32,
    members: BTreeMap<u64, State>,
    next: u64,
    /// Times of recent claims, at most `max` of them.
    claims: VecDeque<u64>,
    /// Failed starts in a row.
    failed: u32,
    /// When the latest of them was.
    last_failure: u64,
    /// No start before this time.
    not_before: u64,
    /// No start before this time while half of the pool waits.
    courtesy: u64,
    closed: bool,
    counts: Counts,
}

impl Core {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules: Rules {
                max: rules.max.max(rules.size),
                ..rules
            },
            sharers: 1,
            members: BTreeMap::new(),
            next: 1,
            claims: VecDeque::new(),
            failed: 0,
            last_failure: 0,
            not_before: 0,
            courtesy: 0,
            closed: false,
            counts: Counts::default(),
        }
    }

    /// One event at `now`, monotonic microseconds.
    pub(crate) fn step(&mut self, event: Event, now: u64, out: &mut Vec<Effect>) {
        self.end_holds(now);
        match event {
            Event::Claim(claim) => self.claim(claim, None, now, out),
            Event::ClaimHeld { claim, member } => self.claim(claim, Some(member), now, out),
            Event::Hold(claim) => match self.oldest_ready() {
                Some((since, member)) => {
                    let until = now.saturating_add(HOLD);
                    self.members.insert(member, State::Held(since, until));
                    out.push(Effect::Held { claim, member });
                }
                None => out.push(Effect::Miss { claim }),
            },
            Event::Release(member) => {
                if let Some(state) = self.members.get_mut(&member)
                    && let State::Held(since, _) = *state
                {
                    *state = State::Ready(since);
                }
            }
            Event::Ready(member) => match self.members.get_mut(&member) {
                Some(state) => {
                    *state = State::Ready(now);
                    self.not_before = 0;
                    self.counts.problem = None;
                }
                // It was given up while it started.
                None => out.push(Effect::End(member)),
            },
            Event::Failed(member, problem) => {
                if self.members.remove(&member).is_some() {
                    self.back_off(now, problem);
                }
            }
            Event::Died(member) => {
                if self.members.remove(&member).is_some() {
                    // One that dies while it waits is as bad as one that does not start.
                    self.back_off(now, "it died while it waited".to_owned());
                }
            }
            Event::Leaving(member) => {
                if self.members.remove(&member).is_some() {
                    out.push(Effect::End(member));
                }
            }
            Event::Sharers(count) => self.sharers = count.max(1),
            Event::Stale => self.end_all(out),
            Event::Close => {
                self.closed = true;
                self.end_all(out);
            }
            Event::Tick => {}
        }
        self.tend(now, out);
    }

    /// Releases the held kernels whose caller did not come.
    fn end_holds(&mut self, now: u64) {
        for state in self.members.values_mut() {
            if let State::Held(since, until) = *state
                && until <= now
            {
                *state = State::Ready(since);
            }
        }
    }

    /// When [`Event::Tick`] is wanted next, if nothing happens before.
    pub(crate) fn deadline(&self, now: u64) -> Option<u64> {
        if self.closed {
            return None;
        }
        let ages = self.members.values().filter_map(|state| match state {
            State::Ready(since) if self.shows_success(*since) => {
                Some(since.saturating_add(self.rules.max_age.min(STABLE)))
            }
            State::Ready(since) => Some(since.saturating_add(self.rules.max_age)),
            State::Held(_, until) => Some(*until),
            State::Starting => None,
        });
        let rate = self.claims.front().map(|at| at.saturating_add(RATE_WINDOW));
        let starts = self.may_start(now).filter(|at| *at > now);
        ages.chain(rate).chain(starts).min()
    }

    pub(crate) fn counts(&self, now: u64) -> Counts {
        Counts {
            ready: self.ready(),
            starting: self.starting(),
            held: self.held(),
            target: self.target(now),
            size: self.rules.size,
            max: self.rules.max,
            ..self.counts.clone()
        }
    }

    fn claim(&mut self, claim: u64, held: Option<u64>, now: u64, out: &mut Vec<Effect>) {
        if !self.closed {
            let kept = usize::try_from(self.part(self.rules.max)).unwrap_or(usize::MAX);
            while self.claims.len() >= kept.max(1) {
                self.claims.pop_front();
            }
            self.claims.push_back(now);
        }
        let is_held = |member: &u64| matches!(self.members.get(member), Some(State::Held(..)));
        let oldest = || self.oldest_ready().map(|(_, member)| member);
        if let Some(member) = held.filter(is_held).or_else(oldest) {
            if let Some(State::Ready(since) | State::Held(since, _)) = self.members.remove(&member)
                && self.shows_success(since)
            {
                self.failed = 0;
            }
            self.counts.hits += 1;
            // Not put off by those that follow, or a steady rate would never be served.
            if self.courtesy <= now {
                self.courtesy = now.saturating_add(COURTESY);
            }
            out.push(Effect::Grant { claim, member });
        } else {
            self.counts.misses += 1;
            out.push(Effect::Miss { claim });
        }
    }

    /// Brings the number of members to what is wanted.
    fn tend(&mut self, now: u64, out: &mut Vec<Effect>) {
        while self
            .claims
            .front()
            .is_some_and(|at| at.saturating_add(RATE_WINDOW) <= now)
        {
            self.claims.pop_front();
        }
        if self.closed {
            return;
        }
        let is_stable = |state: &State| match state {
            State::Ready(since) => self.shows_success(*since) && since.saturating_add(STABLE) <= now,
            State::Held(..) | State::Starting => false,
        };
        if self.members.values().any(is_stable) {
            self.failed = 0;
        }
        let max_age = self.rules.max_age;
        let old: Vec<u64> = self
            .members
            .iter()
            .filter(|(_, state)| matches!(state, State::Ready(since) if since.saturating_add(max_age) <= now))
            .map(|(member, _)| *member)
            .collect();
        for member in old {
            self.members.remove(&member);
            out.push(Effect::End(member));
        }
        let target = self.target(now);
        while self.total() > target {
            // Those that start are let finish, unless there are too many of them alone. What is held was promised.
            let Some(member) = self
                .oldest_ready()
                .map(|(_, member)| member)
                .or_else(|| self.latest_starting())
            else {
                break;
            };
            self.members.remove(&member);
            out.push(Effect::End(member));
        }
        let at_once = if self.failed > 0 { 1 } else { STARTS_AT_ONCE };
        while self.starting() < at_once && self.may_start(now).is_some_and(|at| at <= now) {
            let member = self.next;
            self.next += 1;
            self.members.insert(member, State::Starting);
            out.push(Effect::Start(member));
        }
    }

    /// When the next member may be started, if one is wanted.
    fn may_start(&self, now: u64) -> Option<u64> {
        let target = self.target(now);
        if self.total() >= target {
            return None;
        }
        let at_ease = 2 * self.ready() >= target;
        Some(self.not_before.max(if at_ease { self.courtesy } else { 0 }))
    }

    fn back_off(&mut self, now: u64, problem: String) {
        let pause = doubled(BACK_OFF, self.failed, BACK_OFF_MAX);
        self.failed = self.failed.saturating_add(1);
        self.last_failure = now;
        self.not_before = now.saturating_add(pause);
        self.counts.failures += 1;
        self.counts.problem = Some(problem);
    }

    /// True if a kernel that has been ready since then came after all failures: if it stays, starts succeed again.
    fn shows_success(&self, since: u64) -> bool {
        self.failed > 0 && since >= self.last_failure
    }

    fn end_all(&mut self, out: &mut Vec<Effect>) {
        let all = std::mem::take(&mut self.members);
        out.extend(all.into_keys().map(Effect::End));
    }

    /// Target number of kernels: as many as were claimed lately, within the bounds.
    fn target(&self, now: u64) -> u32 {
        if self.closed {
            return 0;
        }
        let recent = self
            .claims
            .iter()
            .filter(|at| at.saturating_add(RATE_WINDOW) > now)
            .count();
        let recent = u32::try_from(recent).unwrap_or(u32::MAX);
        if self.rules.size == 0 {
            return 0;
        }
        recent.clamp(self.part(self.rules.size), self.part(self.rules.max))
    }

    /// The part of this gateway; at least one of what there is at all.
    fn part(&self, of: u32) -> u32 {
        of.div_ceil(self.sharers)
    }

    /// Since when, and which.
    fn oldest_ready(&self) -> Option<(u64, u64)> {
        let ready = self.members.iter().filter_map(|(member, state)| match state {
            State::Ready(since) => Some((*since, *member)),
            State::Held(..) | State::Starting => None,
        });
        ready.min()
    }

    fn latest_starting(&self) -> Option<u64> {
        let mut latest_first = self.members.iter().rev();
        let latest = latest_first.find(|(_, state)| **state == State::Starting);
        latest.map(|(member, _)| *member)
    }

    fn total(&self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    fn starting(&self) -> u32 {
        let starting = self.members.values().filter(|state| **state == State::Starting);
        u32::try_from(starting.count()).unwrap_or(u32::MAX)
    }

    fn held(&self) -> u32 {
        let held = self
            .members
            .values()
            .filter(|state| matches!(state, State::Held(..)));
        u32::try_from(held.count()).unwrap_or(u32::MAX)
    }

    fn ready(&self) -> u32 {
        self.total() - self.starting() - self.held()
    }
}
