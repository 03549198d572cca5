//! Runs of random workflows with kills, repeated reports, late answers and failures, driven by one seed, over a store and a world that runs
//! what is started.
//!
//! - `HIMALIA_WORKFLOW_SEED=n` runs one schedule and prints what happened in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::run::{Attempt, AttemptId, AttemptStatus, Effect, End, Failure, Outcome, Run, RunStatus};
use crate::{Definition, MAX_PARALLEL, Workflow};

const SCHEDULES: u64 = 3_000;
/// More than any run takes.
const STEPS: u64 = 20_000;
const SECOND: i64 = 1_000_000;

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

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// A workflow of up to eight steps, each of which may need earlier ones.
fn workflow(rng: &mut Rng) -> Arc<Workflow> {
    let count = 1 + rng.below(8);
    let mut steps = Vec::new();
    for at in 0..count {
        let after: Vec<String> = (0..at)
            .filter(|_| rng.one_in(3))
            .map(|needed| format!("s{needed}"))
            .collect();
        let mut step = json!({ "id": format!("s{at}"), "after": after });
        if rng.one_in(5) {
            step["approval"] = json!({ "text": "?", "timeout_s": 1 + rng.below(60) });
        } else {
            step["skill"] = json!({ "name": "s" });
            if rng.one_in(2) {
                step["retries"] = json!({ "limit": 1 + rng.below(3), "wait_s": 1 + rng.below(5) });
            }
            if rng.one_in(3) {
                let items: Vec<u64> = (0..rng.below(12)).collect();
                step["map"] = json!({ "over": { "value": items }, "parallel": 1 + rng.below(6) });
                step["inputs"] = json!({ "n": { "from": "item" } });
            }
        }
        steps.push(step);
    }
    let definition = json!({
        "name": "w", "version": "1.0.0", "description": "d", "inputs": {"type": "object"}, "steps": steps,
        "outputs": { "last": { "from": format!("steps.s{}.outputs", count - 1) } },
    });
    let definition: Definition = serde_json::from_value(definition).unwrap();
    Arc::new(Workflow::stored(definition).unwrap())
}

/// What outlives a kill: the store, and the sandboxes.
struct World {
    rng: Rng,
    now: i64,
    workflow: Arc<Workflow>,
    rows: BTreeMap<AttemptId, Attempt>,
    end: Option<End>,
    cancel: bool,
    /// What runs, and what will come of it.
    sandboxes: BTreeMap<AttemptId, Outcome>,
    /// How often each skill was really run.
    ran: BTreeMap<AttemptId, u32>,
    failures: u64,
    trace: bool,
}

impl World {
    /// Does what a run says; a kill can come between any two effects. `true`: it came.
    fn act(&mut self, effects: Vec<Effect>, kills: u64) -> bool {
        for effect in effects {
            if self.rng.one_in(kills) {
                self.say(&"killed");
                return true;
            }
            self.say(&effect);
            assert!(self.end.is_none(), "nothing follows the end");
            match effect {
                Effect::Write(attempt) => {
                    let held = self.rows.get(&attempt.place);
                    let answered = held.is_some_and(|held| held.status == AttemptStatus::Answered);
                    if answered && attempt.by.is_none() {
                        // The store refuses, and the run is read anew.
                        return true;
                    }
                    assert!(
                        held.is_none_or(|held| !held.status.is_over()),
                        "what has ended stays: {attempt:?}"
                    );
                    self.rows.insert(attempt.place.clone(), *attempt);
                }
                Effect::Start(place, inputs) => self.start(place, &inputs),
                Effect::Stop(place) => drop(self.sandboxes.remove(&place)),
                Effect::End(end) => self.end = Some(*end),
            }
            self.check();
        }
        false
    }

    fn start(&mut self, place: AttemptId, inputs: &Map<String, Value>) {
        let row = self.rows.get(&place).expect("what is started was written before");
        assert_eq!(row.status, AttemptStatus::Running, "{place:?}");
        let step = self.workflow.step(&place.step).unwrap();
        if step.map.is_some() {
            assert_eq!(inputs.get("n"), Some(&json!(place.item)));
        }
        let before = self
            .rows
            .values()
            .filter(|row| row.place.step == place.step && row.place.item == place.item);
        assert!(
            !before.clone().any(|row| row.status == AttemptStatus::Succeeded),
            "{place:?} has succeeded"
        );
        for needed in step.needs() {
            let all = self.rows.values().filter(|row| row.place.step == needed);
            let latest: BTreeMap<u32, AttemptStatus> = all.map(|row| (row.place.item, row.status)).collect();
            assert!(
                latest.values().all(|status| *status == AttemptStatus::Succeeded),
                "{needed} is not done"
            );
        }
        // The same place again finds the session that is there, or the log of one that has ended.
        if !self.ran.contains_key(&place) {
            *self.ran.entry(place.clone()).or_default() += 1;
            let outcome = if self.failures > 0 && self.rng.one_in(self.failures) {
                Outcome::Failed {
                    failure: Failure::new("error", "x"),
                    again: !self.rng.one_in(8),
                }
            } else {
                Outcome::Done(json!(place.item))
            };
            self.sandboxes.insert(place, outcome);
        }
    }

    fn check(&self) {
        let running = |row: &&Attempt| row.status == AttemptStatus::Running;
        assert!(self.rows.values().filter(running).count() <= MAX_PARALLEL as usize);
        for step in &self.workflow.definition().steps {
            let here = self
                .rows
                .values()
                .filter(running)
                .filter(|row| row.place.step == step.id)
                .count();
            let most = step.map.as_ref().map_or(1, |map| map.parallel);
            assert!(here <= most as usize, "{} runs {here} at a time", step.id);
            let retries = step.retries.as_ref().map_or(0, |retries| retries.limit);
            assert!(
                self.rows
                    .keys()
                    .filter(|place| place.step == step.id)
                    .all(|place| place.attempt <= retries + 1)
            );
        }
        assert!(self.ran.values().all(|times| *times == 1));
    }

    fn read(&mut self) -> Option<(Run, Vec<Effect>)> {
        if self.end.is_some() {
            return None;
        }
        let rows = self.rows.values().cloned().collect();
        let mut run = Run::restore(Arc::clone(&self.workflow), Map::new(), rows);
        let effects = run.begin(self.now, self.cancel);
        Some((run, effects))
    }

    fn say(&self, what: &dyn std::fmt::Debug) {
        if self.trace {
            println!("{:>10} {what:?}", self.now);
        }
    }

    /// One thing that happens outside.
    fn happens(&mut self, run: &mut Run) -> Vec<Effect> {
        match self.rng.below(10) {
            0..=4 => {
                let at = self.rng.below(self.sandboxes.len().max(1) as u64);
                let found = self.sandboxes.iter().nth(usize::try_from(at).unwrap());
                let Some((place, outcome)) = found.map(|(place, outcome)| (place.clone(), outcome.clone()))
                else {
                    return Vec::new();
                };
                self.say(&("ended", &place));
                if self.rng.one_in(4) {
                    let mut effects = run.started(&place, "session", Some("execution"));
                    effects.extend(run.finished(&place, outcome.clone(), self.now));
                    // And once more.
                    effects.extend(run.finished(&place, outcome, self.now));
                    return effects;
                }
                run.finished(&place, outcome, self.now)
            }
            5..=7 => {
                self.now += i64::try_from(self.rng.below(8)).unwrap() * SECOND;
                run.tick(self.now)
            }
            8 => {
                let open = self
                    .rows
                    .values_mut()
                    .find(|row| row.status == AttemptStatus::Waiting);
                let Some(row) = open else {
                    return Vec::new();
                };
                let answer = if self.rng.one_in(6) { "reject" } else { "approve" };
                row.status = AttemptStatus::Answered;
                (row.answer, row.by) = (Some(answer.to_owned()), Some("ada".to_owned()));
                let step = row.place.step.clone();
                // Its signal can be late.
                if self.rng.one_in(3) {
                    Vec::new()
                } else {
                    run.answered(&step, answer, "ada", self.now)
                }
            }
            _ if self.rng.one_in(60) => {
                self.cancel = true;
                run.cancel(self.now)
            }
            _ => Vec::new(),
        }
    }
}

fn schedule(seed: u64, trace: bool) -> RunStatus {
    let mut rng = Rng(seed);
    let (kills, failures) = (
        [30, 1_000_000][usize::try_from(rng.below(2)).unwrap()],
        [0, 4, 12][usize::try_from(rng.below(3)).unwrap()],
    );
    let workflow = workflow(&mut rng);
    let mut world = World {
        rng,
        now: 0,
        workflow,
        rows: BTreeMap::new(),
        end: None,
        cancel: false,
        sandboxes: BTreeMap::new(),
        ran: BTreeMap::new(),
        failures,
        trace,
    };
    let mut process: Option<Run> = None;
    for _ in 0..STEPS {
        let (run, effects) = if let Some(mut run) = process.take() {
            let effects = world.happens(&mut run);
            (run, effects)
        } else {
            match world.read() {
                Some(read) => read,
                None => break,
            }
        };
        if !world.act(effects, kills) {
            process = Some(run);
        }
        if world.end.is_some() {
            break;
        }
    }
    let end = world.end.expect("a run ends");
    assert!(
        !world
            .rows
            .values()
            .any(|row| row.status == AttemptStatus::Running),
        "nothing runs after the end"
    );
    if end.status == RunStatus::Succeeded {
        let workflow = Arc::clone(&world.workflow);
        let run = Run::restore(workflow, Map::new(), world.rows.into_values().collect());
        for step in &run.workflow().definition().steps {
            let empty = step
                .map
                .as_ref()
                .is_some_and(|map| map.over == crate::InputValue::Value(json!([])));
            assert!(
                empty || run.status(&step.id) == Some(AttemptStatus::Succeeded),
                "{}",
                step.id
            );
        }
    }
    end.status
}

#[test]
fn a_run_ends_and_nothing_that_finished_runs_twice() {
    if let Some(seed) = std::env::var("HIMALIA_WORKFLOW_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
    {
        schedule(seed, true);
        return;
    }
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..SCHEDULES {
        let end = std::panic::catch_unwind(|| schedule(seed, false));
        let end = end.unwrap_or_else(|_| panic!("HIMALIA_WORKFLOW_SEED={seed}"));
        *ends.entry(end.as_str()).or_default() += 1;
    }
    // Each end was reached by many.
    assert!(
        ends.len() == 3 && ends.values().all(|times| *times > SCHEDULES / 50),
        "{ends:?}"
    );
}
