//! Schedules of claims, bursts, failures, deaths and ageing, driven by one seed, over a world that really has
//! processes to lose.
//!
//! - `HIMALIA_POOL_SEED=n` runs one schedule and prints what happened in it.

use std::collections::{BTreeMap, BTreeSet};

use super::core::{BACK_OFF, BACK_OFF_MAX, COURTESY, Core, Effect, Event, HOLD, RATE_WINDOW, Rules, STABLE};

const SCHEDULES: u64 = 20_000;
const STEPS: u64 = 120;
const MAX_AGE: u64 = 100_000_000;

/// `SplitMix64`.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    Starting,
    /// Since when.
    Ready(u64),
}

struct World {
    rng: Rng,
    core: Core,
    now: u64,
    /// Every process that the pool made and has neither assigned nor ended.
    processes: BTreeMap<u64, Process>,
    /// Ended while they were being started: told of when they are up.
    abandoned: BTreeSet<u64>,
    used: BTreeSet<u64>,
    /// Those that are held, until when.
    held: BTreeMap<u64, u64>,
    /// The member that the claim of this step is for.
    comes_for: Option<u64>,
    asked: Vec<u64>,
    answered: Vec<u64>,
    max: u32,
    size: u32,
    /// Failures in a row, and when the last one was.
    failures: u32,
    last_failure: u64,
    /// Gateways that share the pool.
    sharers: u32,
    closed: bool,
    /// What changes now ends those that are held, too.
    may_end_held: bool,
    trace: Option<Vec<String>>,
}

impl World {
    fn new(seed: u64, trace: bool) -> Self {
        let mut rng = Rng(seed);
        let size = u32::try_from(rng.below(5)).unwrap();
        let max = size + u32::try_from(rng.below(5)).unwrap();
        let core = Core::new(Rules {
            size,
            max,
            max_age: MAX_AGE,
        });
        Self {
            rng,
            core,
            now: 1,
            processes: BTreeMap::new(),
            abandoned: BTreeSet::new(),
            used: BTreeSet::new(),
            held: BTreeMap::new(),
            comes_for: None,
            asked: Vec::new(),
            answered: Vec::new(),
            max,
            size,
            failures: 0,
            last_failure: 0,
            sharers: 1,
            closed: false,
            may_end_held: false,
            trace: trace.then(Vec::new),
        }
    }

    fn step(&mut self, event: Event) -> Result<(), String> {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>10} {event:?}", self.now));
        }
        let mut out = Vec::new();
        self.core.step(event, self.now, &mut out);
        if let Some(trace) = &mut self.trace {
            trace.push(format!("           {out:?}"));
        }
        self.held.retain(|_, until| *until > self.now);
        for effect in out {
            self.carry_out(effect)?;
        }
        self.comes_for = None;
        self.check()
    }

    fn carry_out(&mut self, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Start(member) => {
                if self.closed {
                    return Err("a start after the end".to_owned());
                }
                if !self.used.insert(member) {
                    return Err(format!("member {member} twice"));
                }
                if self.failures > 0 {
                    let pause = (BACK_OFF << (self.failures - 1).min(16)).min(BACK_OFF_MAX);
                    if self.now < self.last_failure + pause {
                        return Err(format!(
                            "a start {} us after failure {}",
                            self.now - self.last_failure,
                            self.failures
                        ));
                    }
                }
                self.processes.insert(member, Process::Starting);
            }
            Effect::Grant { claim, member } => {
                self.answered.push(claim);
                let was_held = self.held.remove(&member).is_some();
                if was_held && self.comes_for != Some(member) {
                    return Err(format!("claim {claim} got {member}, which is held for another"));
                }
                let older = self.free(|at, since| at < since, member);
                match self.processes.remove(&member) {
                    Some(Process::Ready(_)) => {
                        if older && !was_held {
                            return Err(format!("claim {claim} got a younger one than there was"));
                        }
                    }
                    other => return Err(format!("claim {claim} got {member}, which is {other:?}")),
                }
            }
            Effect::Miss { claim } => {
                self.answered.push(claim);
                if self.free(|_, _| true, u64::MAX) && !self.closed {
                    return Err(format!("claim {claim} got none although one was ready"));
                }
            }
            Effect::Held { claim, member } => {
                self.answered.push(claim);
                let ready = matches!(self.processes.get(&member), Some(Process::Ready(_)));
                if !ready || self.held.insert(member, self.now + HOLD).is_some() {
                    return Err(format!("{member} cannot be held"));
                }
            }
            Effect::End(member) => match self.processes.remove(&member) {
                Some(_) if self.held.remove(&member).is_some() && !self.may_end_held => {
                    return Err(format!("{member} was held and is ended"));
                }
                Some(Process::Starting) => drop(self.abandoned.insert(member)),
                Some(Process::Ready(_)) => {}
                None if self.abandoned.remove(&member) => {}
                None => return Err(format!("{member} is ended and was not there")),
            },
        }
        Ok(())
    }

    /// Whether one that is ready and not held compares so to a member; with [`u64::MAX`], whether there is one at all.
    fn free(&self, compares: fn(u64, u64) -> bool, member: u64) -> bool {
        let since = match self.processes.get(&member) {
            Some(Process::Ready(since)) => *since,
            _ => u64::MAX,
        };
        self.processes.iter().any(|(other, process)| {
            let free = !self.held.contains_key(other) && *other != member;
            matches!(process, Process::Ready(at) if free && compares(*at, since))
        })
    }

    fn check(&self) -> Result<(), String> {
        let count = u32::try_from(self.processes.len()).unwrap();
        if count > self.max {
            return Err(format!("{count} processes, at most {} are allowed", self.max));
        }
        if self.asked != self.answered {
            return Err("a claim was not answered, or not in order".to_owned());
        }
        let counts = self.core.counts(self.now);
        if counts.ready + counts.starting + counts.held != count {
            return Err(format!("{counts:?} does not tell of {count} processes"));
        }
        if self.closed && count > 0 {
            return Err("something is left after the end".to_owned());
        }
        Ok(())
    }

    /// A member in this state, if there is one.
    fn pick(&mut self, ready: bool) -> Option<u64> {
        let all: Vec<u64> = self
            .processes
            .iter()
            .filter(|(_, process)| matches!(process, Process::Ready(_)) == ready)
            .map(|(member, _)| *member)
            .collect();
        let at = self.rng.below(all.len().max(1) as u64);
        all.get(usize::try_from(at).unwrap()).copied()
    }

    fn comes_up(&mut self, member: u64) -> Result<(), String> {
        self.processes.insert(member, Process::Ready(self.now));
        self.failures = 0;
        self.step(Event::Ready(member))
    }

    fn fails(&mut self, member: u64, event: Event) -> Result<(), String> {
        self.processes.remove(&member);
        self.held.remove(&member);
        self.failures += 1;
        self.last_failure = self.now;
        self.step(event)
    }

    fn play(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            self.now += self.rng.below(3_000_000);
            match self.rng.below(100) {
                0..30 => {
                    let claim = self.asked.len() as u64;
                    self.asked.push(claim);
                    self.step(Event::Claim(claim))?;
                }
                30..60 => {
                    if let Some(member) = self.pick(false) {
                        self.comes_up(member)?;
                    }
                }
                60..68 => {
                    if let Some(member) = self.pick(false) {
                        self.fails(member, Event::Failed(member, "no".to_owned()))?;
                    }
                }
                68..74 => {
                    if let Some(member) = self.pick(true) {
                        self.fails(member, Event::Died(member))?;
                    }
                }
                74..78 => {
                    if let Some(member) = self.abandoned.first().copied() {
                        self.step(Event::Ready(member))?;
                    }
                }
                78 => self.ends_all(Event::Stale)?,
                79 => {
                    self.sharers = 1 + u32::try_from(self.rng.below(3)).unwrap();
                    self.step(Event::Sharers(self.sharers))?;
                }
                80..83 => {
                    // A burst, so that it grows; quiet makes it shrink again.
                    for _ in 0..self.rng.below(8) {
                        let claim = self.asked.len() as u64;
                        self.asked.push(claim);
                        self.step(Event::Claim(claim))?;
                    }
                }
                83 => {
                    self.now += self.rng.below(2 * MAX_AGE);
                    self.step(Event::Tick)?;
                }
                88..92 => {
                    let claim = self.asked.len() as u64;
                    self.asked.push(claim);
                    self.step(Event::Hold(claim))?;
                }
                92..95 => {
                    let used = self.used.len().max(1) as u64;
                    let member = self.held.keys().next().copied();
                    let member = member.unwrap_or(1 + self.rng.below(used));
                    let claim = self.asked.len() as u64;
                    self.asked.push(claim);
                    self.comes_for = Some(member);
                    self.step(Event::ClaimHeld { claim, member })?;
                }
                95 => {
                    let member = self.held.keys().next_back().copied().unwrap_or(1);
                    self.held.remove(&member);
                    self.step(Event::Release(member))?;
                }
                85..88 => {
                    if let Some(member) = self.pick(true) {
                        self.ends_all(Event::Leaving(member))?;
                    }
                }
                84 if self.rng.below(20) == 0 => {
                    self.closed = true;
                    return self.ends_all(Event::Close);
                }
                _ => self.step(Event::Tick)?,
            }
        }
        self.rest()
    }

    /// A step that may end what is held.
    fn ends_all(&mut self, event: Event) -> Result<(), String> {
        self.may_end_held = true;
        let done = self.step(event);
        self.may_end_held = false;
        done
    }

    /// Nothing goes wrong any more: the pool comes to its size and stays there.
    fn rest(&mut self) -> Result<(), String> {
        self.now += RATE_WINDOW + BACK_OFF_MAX;
        for _ in 0..100 {
            self.step(Event::Tick)?;
            while let Some(member) = self.pick(false) {
                self.comes_up(member)?;
            }
            self.now += 1000;
        }
        let counts = self.core.counts(self.now);
        let part = self.size.div_ceil(self.sharers);
        if (counts.ready, counts.starting) != (part, 0) {
            return Err(format!("it rests at {counts:?}, its part is {part}"));
        }
        // Aged ones go, all of them.
        self.now += MAX_AGE;
        self.step(Event::Tick)?;
        let oldest = self.now - MAX_AGE;
        let aged = self
            .processes
            .values()
            .any(|process| matches!(process, Process::Ready(since) if *since <= oldest));
        if aged {
            return Err("one is older than allowed".to_owned());
        }
        if self.size > 0 && self.core.deadline(self.now).is_none() && self.processes.is_empty() {
            return Err("nothing would wake it".to_owned());
        }
        Ok(())
    }
}

fn run(seed: u64, trace: bool) -> Result<(), String> {
    let mut world = World::new(seed, trace);
    let result = world.play();
    for line in world.trace.iter().flatten() {
        println!("{line}");
    }
    result.map_err(|reason| format!("seed {seed}: {reason} (HIMALIA_POOL_SEED={seed} shows it)"))
}

#[test]
fn every_schedule_keeps_the_promises() {
    if let Some(seed) = std::env::var("HIMALIA_POOL_SEED")
        .ok()
        .map(|text| text.parse().unwrap())
    {
        return run(seed, true).unwrap();
    }
    for seed in 0..SCHEDULES {
        run(seed, false).unwrap();
    }
}

#[test]
fn a_burst_makes_it_grow_and_quiet_makes_it_shrink() {
    let mut core = Core::new(Rules {
        size: 1,
        max: 3,
        max_age: u64::MAX,
    });
    let mut out = Vec::new();
    core.step(Event::Tick, 0, &mut out);
    assert_eq!(out, [Effect::Start(1)]);
    core.step(Event::Ready(1), 1, &mut out);
    for claim in 0..5 {
        core.step(Event::Claim(claim), 2, &mut out);
    }
    assert_eq!(core.counts(2).target, 3);
    assert_eq!(core.deadline(2), Some(2 + RATE_WINDOW));
    for member in [2, 3] {
        core.step(Event::Ready(member), 3, &mut out);
    }
    core.step(Event::Ready(4), 4, &mut out);
    assert_eq!(core.counts(4).ready, 3);
    out.clear();
    core.step(Event::Tick, 2 + RATE_WINDOW, &mut out);
    assert_eq!(out, [Effect::End(2), Effect::End(3)]);
    assert_eq!(core.counts(2 + RATE_WINDOW).ready, 1);
}

/// A pod can become ready and end at once, for instance for lack of memory.
#[test]
fn those_that_become_ready_and_die_are_made_with_growing_pauses() {
    let mut core = Core::new(Rules {
        size: 1,
        max: 1,
        max_age: u64::MAX,
    });
    let (mut out, mut now, mut pauses) = (Vec::new(), 0, Vec::new());
    core.step(Event::Tick, now, &mut out);
    for _ in 0..9 {
        let Some(Effect::Start(member)) = out.pop() else {
            panic!("none is started")
        };
        core.step(Event::Ready(member), now, &mut out);
        core.step(Event::Died(member), now, &mut out);
        assert_eq!(out, []);
        let due = core.deadline(now).unwrap();
        pauses.push((due - now) / BACK_OFF);
        now = due;
        core.step(Event::Tick, now, &mut out);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert_eq!(core.counts(now).failures, 9);
    // One that stays makes them forgotten.
    let Some(Effect::Start(member)) = out.pop() else {
        panic!("none is started")
    };
    core.step(Event::Ready(member), now, &mut out);
    assert_eq!(core.deadline(now), Some(now + STABLE));
    now += STABLE;
    core.step(Event::Tick, now, &mut out);
    core.step(Event::Died(member), now, &mut out);
    assert_eq!(core.deadline(now), Some(now + BACK_OFF));
}

#[test]
fn gateways_that_share_a_pool_have_a_part_each() {
    let mut core = Core::new(Rules {
        size: 4,
        max: 8,
        max_age: u64::MAX,
    });
    let mut out = Vec::new();
    core.step(Event::Sharers(3), 0, &mut out);
    let counts = core.counts(0);
    assert_eq!((counts.size, counts.max, counts.target), (4, 8, 2));
    assert_eq!(out, [Effect::Start(1), Effect::Start(2)]);
    for member in [1, 2] {
        core.step(Event::Ready(member), 1, &mut out);
    }
    out.clear();
    core.step(Event::Sharers(4), 2, &mut out);
    assert_eq!(out, [Effect::End(1)]);
    out.clear();
    // The others have ended, so all of it is its own.
    core.step(Event::Sharers(1), 3, &mut out);
    assert_eq!(out, [Effect::Start(3), Effect::Start(4)]);
}

#[test]
fn one_whose_machine_is_to_be_emptied_is_replaced_at_once() {
    let mut core = Core::new(Rules {
        size: 1,
        max: 1,
        max_age: u64::MAX,
    });
    let mut out = Vec::new();
    core.step(Event::Tick, 0, &mut out);
    core.step(Event::Ready(1), 1, &mut out);
    out.clear();
    core.step(Event::Leaving(1), 2, &mut out);
    assert_eq!(out, [Effect::End(1), Effect::Start(2)]);
    assert_eq!(core.counts(2).failures, 0);
}

#[test]
fn who_claims_has_the_machine_first_while_others_wait() {
    let mut core = Core::new(Rules {
        size: 4,
        max: 4,
        max_age: u64::MAX,
    });
    let mut out = Vec::new();
    core.step(Event::Tick, 0, &mut out);
    for member in 1..=4 {
        core.step(Event::Ready(member), 1, &mut out);
    }
    out.clear();
    core.step(Event::Claim(1), 10, &mut out);
    assert_eq!(out, [Effect::Grant { claim: 1, member: 1 }]);
    assert_eq!(core.deadline(10), Some(10 + COURTESY));
    // The second does not put it off; after the third less than half is left.
    core.step(Event::Claim(2), 20, &mut out);
    assert_eq!(core.deadline(20), Some(10 + COURTESY));
    out.clear();
    core.step(Event::Claim(3), 30, &mut out);
    assert_eq!(
        out,
        [
            Effect::Grant { claim: 3, member: 3 },
            Effect::Start(5),
            Effect::Start(6)
        ]
    );
    core.step(Event::Ready(5), 40, &mut out);
    out.clear();
    core.step(Event::Ready(6), 50, &mut out);
    assert_eq!(out, [], "at ease again");
    core.step(Event::Tick, 10 + COURTESY, &mut out);
    assert_eq!(out, [Effect::Start(7)]);
}

#[test]
fn one_that_is_held_is_its_callers_alone_until_its_time_has_passed() {
    let mut core = Core::new(Rules {
        size: 2,
        max: 2,
        max_age: u64::MAX,
    });
    let mut out = Vec::new();
    core.step(Event::Tick, 0, &mut out);
    core.step(Event::Ready(1), 1, &mut out);
    core.step(Event::Ready(2), 2, &mut out);
    out.clear();
    core.step(Event::Hold(10), 3, &mut out);
    core.step(Event::Claim(11), 3, &mut out);
    core.step(Event::Hold(12), 3, &mut out);
    let granted = Effect::Grant { claim: 11, member: 2 };
    let held = Effect::Held { claim: 10, member: 1 };
    out.retain(|effect| !matches!(effect, Effect::Start(_)));
    assert_eq!(out, [held, granted, Effect::Miss { claim: 12 }]);
    let counts = core.counts(3);
    assert_eq!(
        (counts.ready, counts.held, counts.hits, counts.misses),
        (0, 1, 1, 0)
    );
    out.clear();
    core.step(Event::ClaimHeld { claim: 13, member: 1 }, 4, &mut out);
    assert!(out.contains(&Effect::Grant { claim: 13, member: 1 }));
    // One that was released, or was held for too long, is there for all.
    core.step(Event::Ready(3), 5, &mut out);
    for release in [true, false] {
        out.clear();
        core.step(Event::Hold(14), 6, &mut out);
        assert_eq!(out[0], Effect::Held { claim: 14, member: 3 });
        if release {
            core.step(Event::Release(3), 6, &mut out);
        } else {
            assert_eq!(core.deadline(6), Some(6 + HOLD));
            core.step(Event::Tick, 6 + HOLD, &mut out);
        }
        assert_eq!(core.counts(6).ready, 1);
    }
    out.clear();
    core.step(Event::ClaimHeld { claim: 15, member: 1 }, 7 + HOLD, &mut out);
    assert!(
        out.contains(&Effect::Grant { claim: 15, member: 3 }),
        "the one that was held is gone"
    );
}
