//! A run: what happened comes in, what is to be done goes out. Each [`Effect::Write`] is done before the effects after it, so that a run
//! that is read back ([`Run::restore`]) continues from what was done.

mod attempt;

use std::collections::BTreeMap;
use std::sync::Arc;

use himalia_backoff::doubled;
use serde_json::{Map, Value, json};

pub use attempt::{Attempt, AttemptId, AttemptStatus, Effect, End, Failure, Outcome, RunStatus};

use crate::definition::Step;
use crate::values::{TooLarge, Values, WireValue, bytes_within};
use crate::workflow::Workflow;
use crate::{MAX_INPUT_BYTES, MAX_ITEMS, MAX_PARALLEL, MAX_RUN_BYTES, MAX_WAIT_S};

/// The code of a step whose inputs are not what they have to be.
const BAD_INPUTS: &str = "bad_inputs";
/// The code of what is larger than it may be.
const TOO_LARGE: &str = "too_large";

/// A run of a workflow.
#[derive(Clone, Debug)]
pub struct Run {
    workflow: Arc<Workflow>,
    inputs: Value,
    steps: BTreeMap<String, Progress>,
    /// Size of the outputs of all attempts as JSON, in bytes.
    bytes: usize,
    cancelled: bool,
    end: Option<End>,
}

/// Progress of a step.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// All that it needs has succeeded.
    begun: bool,
    /// Number of the step's runs: the items of a map, else one.
    count: u32,
    /// The latest attempt of each item.
    latest: BTreeMap<u32, Attempt>,
}

impl Run {
    /// A run of which nothing has happened.
    pub fn new(workflow: Arc<Workflow>, inputs: Map<String, Value>) -> Self {
        Self {
            workflow,
            inputs: Value::Object(inputs),
            steps: BTreeMap::new(),
            bytes: 0,
            cancelled: false,
            end: None,
        }
    }

    /// A run of which these attempts were written, in any order.
    pub fn restore(workflow: Arc<Workflow>, inputs: Map<String, Value>, attempts: Vec<Attempt>) -> Self {
        let mut run = Self::new(workflow, inputs);
        for attempt in attempts {
            run.bytes += bytes_of(attempt.outputs.as_ref());
            let latest = &mut run.steps.entry(attempt.place.step.clone()).or_default().latest;
            let later = latest.get(&attempt.place.item);
            if later.is_none_or(|later| later.place.attempt < attempt.place.attempt) {
                latest.insert(attempt.place.item, attempt);
            }
        }
        // Each step after those that its list comes from.
        let order: Vec<Step> = run.workflow.steps().cloned().collect();
        for step in order {
            if run
                .steps
                .get(&step.id)
                .is_some_and(|progress| !progress.latest.is_empty())
            {
                // A list that is wrong has one attempt, which says so.
                let count = run.count_items(&step).unwrap_or(1);
                run.begun(&step, count);
            }
        }
        run
    }

    /// Effects of a start, or of a restart after the run was read back: attempts that were running are started again under the same id, so
    /// that they are the same runs of skills. `cancelled`: the run is to end.
    pub fn begin(&mut self, now: i64, cancelled: bool) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.cancelled |= cancelled;
        let running: Vec<AttemptId> = self
            .attempts()
            .filter(|one| one.status == AttemptStatus::Running)
            .map(|one| one.place.clone())
            .collect();
        for place in running {
            // It was started with them before.
            let inputs = self.inputs_of(&place.step, place.item, MAX_INPUT_BYTES);
            effects.push(Effect::Start(place, inputs.unwrap_or_default()));
        }
        let answered: Vec<Attempt> = self
            .attempts()
            .filter(|one| one.status == AttemptStatus::Answered)
            .cloned()
            .collect();
        for one in answered {
            let (answer, by) = (one.answer.unwrap_or_default(), one.by.unwrap_or_default());
            self.take_answer(&one.place.step, &answer, &by, now, &mut effects);
        }
        self.advance(now, &mut effects);
        effects
    }

    /// Records the session and execution of an attempt.
    pub fn started(&mut self, place: &AttemptId, session: &str, execution: Option<&str>) -> Vec<Effect> {
        let Some(attempt) = self.running(place) else {
            return Vec::new();
        };
        let before = (attempt.session.clone(), attempt.execution.clone());
        attempt.session = Some(session.to_owned());
        if let Some(execution) = execution {
            attempt.execution = Some(execution.to_owned());
        }
        if before == (attempt.session.clone(), attempt.execution.clone()) {
            return Vec::new();
        }
        vec![Effect::Write(Box::new(attempt.clone()))]
    }

    /// An attempt has ended. What is no news, or of an attempt that was stopped, changes nothing.
    pub fn finished(&mut self, place: &AttemptId, outcome: Outcome, now: i64) -> Vec<Effect> {
        let mut effects = Vec::new();
        let room = MAX_RUN_BYTES.saturating_sub(self.bytes);
        let retries = self
            .workflow
            .step(&place.step)
            .and_then(|step| step.retries.clone());
        let Some(attempt) = self.running(place) else {
            return effects;
        };
        attempt.ended = Some(now);
        let mut added = 0;
        let again = match outcome {
            Outcome::Done(outputs) if bytes_of(Some(&outputs)) <= room => {
                added = bytes_of(Some(&outputs));
                attempt.status = AttemptStatus::Succeeded;
                attempt.outputs = Some(outputs);
                None
            }
            Outcome::Done(_) => {
                let text = format!(
                    "the outputs of all steps have more than {MAX_RUN_BYTES} bytes as JSON, where each item of a list counts at least 16 and each object 160: \
                     write large results to a file or an artifact"
                );
                attempt.fail(Failure::new(TOO_LARGE, &text));
                None
            }
            Outcome::Failed { failure, again } => {
                attempt.fail(failure);
                retries.filter(|retries| again && place.attempt <= retries.limit)
            }
        };
        effects.push(Effect::Write(Box::new(attempt.clone())));
        if let Some(retries) = again {
            let seconds = doubled(retries.wait_s.into(), place.attempt - 1, MAX_WAIT_S.into());
            let next = AttemptId {
                attempt: place.attempt + 1,
                ..place.clone()
            };
            *attempt = Attempt::new(next, AttemptStatus::Delayed);
            attempt.due = Some(now.saturating_add(i64::try_from(seconds * 1_000_000).unwrap_or(i64::MAX)));
            effects.push(Effect::Write(Box::new(attempt.clone())));
        }
        self.bytes += added;
        self.advance(now, &mut effects);
        effects
    }

    /// A person has answered; the answer is written, and counts.
    pub fn answered(&mut self, step: &str, answer: &str, by: &str, now: i64) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.take_answer(step, answer, by, now, &mut effects);
        self.advance(now, &mut effects);
        effects
    }

    /// It is to end.
    pub fn cancel(&mut self, now: i64) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.cancelled = true;
        self.advance(now, &mut effects);
        effects
    }

    /// Time has passed.
    pub fn tick(&mut self, now: i64) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.advance(now, &mut effects);
        effects
    }

    /// When [`Run::tick`] has something to do, if nothing else happens.
    pub fn due(&self) -> Option<i64> {
        let waits = |one: &&Attempt| matches!(one.status, AttemptStatus::Delayed | AttemptStatus::Waiting);
        self.attempts().filter(waits).filter_map(|one| one.due).min()
    }

    /// End of the run; `None`: it is in progress.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    pub fn workflow(&self) -> &Workflow {
        &self.workflow
    }

    /// The latest attempts of all steps.
    pub fn attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.steps.values().flat_map(|progress| progress.latest.values())
    }

    /// Number of a step's runs, if known: the items of a map, else one.
    pub fn count(&self, step: &str) -> Option<u32> {
        let progress = self.steps.get(step).filter(|progress| progress.begun)?;
        Some(progress.count)
    }

    /// Status of a step; `None`: it has not begun.
    pub fn status(&self, step: &str) -> Option<AttemptStatus> {
        use AttemptStatus::{Answered, Cancelled, Delayed, Failed, Running, Succeeded, Waiting};
        let progress = self.steps.get(step).filter(|progress| progress.begun)?;
        let any = |status: AttemptStatus| progress.latest.values().any(|one| one.status == status);
        let all = progress.latest.len() == progress.count as usize
            && progress
                .latest
                .values()
                .all(|one| one.status == AttemptStatus::Succeeded);
        Some(if all {
            Succeeded
        } else if any(Failed) {
            Failed
        } else if any(Cancelled) {
            Cancelled
        } else if any(Waiting) || any(Answered) {
            Waiting
        } else if any(Delayed) && !any(Running) {
            Delayed
        } else {
            Running
        })
    }

    /// Inputs of a step that has begun.
    ///
    /// # Errors
    /// The inputs have more than `most` bytes as JSON.
    pub fn inputs_of(&self, step: &str, item: u32, most: usize) -> Result<Map<String, Value>, TooLarge> {
        let Some(step) = self.workflow.step(step) else {
            return Ok(Map::new());
        };
        let list = step
            .map
            .as_ref()
            .and_then(|map| self.values(None).given(&map.over));
        let item = list.and_then(|list| list.item(item as usize));
        self.values(item).all(&step.inputs, most)
    }

    /// Outputs of a step that has succeeded.
    ///
    /// # Errors
    /// The outputs have more than `most` bytes as JSON.
    pub fn outputs_of(&self, step: &str, most: usize) -> Result<Option<Value>, TooLarge> {
        let Some(outputs) = self.returned_by(step) else {
            return Ok(None);
        };
        bytes_within(&outputs, most).ok_or(TooLarge)?;
        Ok(Some(outputs.to_value()))
    }

    fn returned_by(&self, step: &str) -> Option<WireValue<'_>> {
        let progress = self.steps.get(step)?;
        if self.status(step) != Some(AttemptStatus::Succeeded) {
            return None;
        }
        if self.workflow.step(step)?.map.is_none() {
            return progress.latest.get(&0)?.outputs.as_ref().map(WireValue::One);
        }
        let all = progress.latest.values().filter_map(|one| one.outputs.as_ref());
        Some(WireValue::List(all.collect()))
    }

    fn values<'a>(&'a self, item: Option<&'a Value>) -> Values<'a, impl Fn(&str) -> Option<WireValue<'a>>> {
        Values {
            inputs: &self.inputs,
            outputs: |step: &str| self.returned_by(step),
            item,
        }
    }

    fn running(&mut self, place: &AttemptId) -> Option<&mut Attempt> {
        let attempt = self.steps.get_mut(&place.step)?.latest.get_mut(&place.item)?;
        (attempt.place == *place && attempt.status == AttemptStatus::Running).then_some(attempt)
    }

    fn take_answer(&mut self, step: &str, answer: &str, by: &str, now: i64, effects: &mut Vec<Effect>) {
        let approval = self.workflow.step(step).and_then(|step| step.approval.as_ref());
        let proceeds = approval.is_some_and(|approval| approval.proceeds().iter().any(|one| one == answer));
        let progress = self.steps.get_mut(step);
        let Some(attempt) = progress.and_then(|progress| progress.latest.get_mut(&0)) else {
            return;
        };
        if !matches!(attempt.status, AttemptStatus::Waiting | AttemptStatus::Answered) {
            return;
        }
        attempt.answer = Some(answer.to_owned());
        attempt.by = Some(by.to_owned());
        attempt.ended = Some(now);
        attempt.due = None;
        if proceeds {
            attempt.status = AttemptStatus::Succeeded;
            attempt.outputs = Some(json!({ "answer": answer, "by": by }));
        } else {
            attempt.fail(Failure::new("rejected", &format!("{by} has answered {answer:?}")));
        }
        effects.push(Effect::Write(Box::new(attempt.clone())));
    }

    fn advance(&mut self, now: i64, effects: &mut Vec<Effect>) {
        if self.end.is_some() {
            return;
        }
        self.expire(now, effects);
        let workflow = Arc::clone(&self.workflow);
        // A step that succeeds at once, as one over an empty list, lets others begin: each comes after what it needs.
        for step in workflow.steps() {
            if self.cancelled || self.failed().is_some() {
                break;
            }
            self.go_on(step, now, effects);
        }
        if let Some((step, item, failure)) = self.failed() {
            self.stop(now, effects);
            self.finish(
                End {
                    status: RunStatus::Failed,
                    outputs: None,
                    failure: Some(failure),
                    step: Some(step),
                    item: Some(item),
                },
                effects,
            );
        } else if self.cancelled {
            self.stop(now, effects);
            self.finish(End::of(RunStatus::Cancelled), effects);
        } else if workflow
            .steps()
            .all(|step| self.status(&step.id) == Some(AttemptStatus::Succeeded))
        {
            let end = self.returned();
            self.finish(end, effects);
        }
    }

    /// Begins a step that can, and starts what there is room for.
    fn go_on(&mut self, step: &Step, now: i64, effects: &mut Vec<Effect>) {
        let begun = self.steps.get(&step.id).is_some_and(|progress| progress.begun);
        if !begun {
            let ready = |needed: &&str| self.status(needed) == Some(AttemptStatus::Succeeded);
            if !step.needs().iter().all(ready) {
                return;
            }
            match self.count_items(step) {
                Ok(count) => self.begun(step, count),
                Err(failure) => {
                    self.begun(step, 1);
                    self.refuse(&AttemptId::first(&step.id, 0), failure, now, effects);
                    return;
                }
            }
        }
        let parallel = step.map.as_ref().map_or(1, |map| map.parallel);
        loop {
            let busy = |one: &&Attempt| one.status == AttemptStatus::Running;
            let Some(progress) = self.steps.get(&step.id) else {
                return;
            };
            let here = progress.latest.values().filter(busy).count();
            let all = self.attempts().filter(busy).count();
            if here >= parallel as usize || all >= MAX_PARALLEL as usize {
                return;
            }
            let due =
                |one: &&Attempt| one.status == AttemptStatus::Delayed && one.due.is_none_or(|due| due <= now);
            let again = progress.latest.values().find(due).map(|one| one.place.clone());
            let fresh = u32::try_from(progress.latest.len()).unwrap_or(u32::MAX);
            let place = match again {
                Some(place) => place,
                None if fresh < progress.count => AttemptId::first(&step.id, fresh),
                None => return,
            };
            if !self.start(step, place, now, effects) {
                return;
            }
        }
    }

    /// Starts one run of a step; `false`: it failed at once.
    fn start(&mut self, step: &Step, place: AttemptId, now: i64, effects: &mut Vec<Effect>) -> bool {
        let Ok(inputs) = self.inputs_of(&step.id, place.item, MAX_INPUT_BYTES) else {
            let text = format!("its inputs have more than {MAX_INPUT_BYTES} bytes as JSON");
            self.refuse(&place, Failure::new(TOO_LARGE, &text), now, effects);
            return false;
        };
        let (item, asks) = (place.item, step.approval.as_ref());
        let status = if asks.is_some() {
            AttemptStatus::Waiting
        } else {
            AttemptStatus::Running
        };
        let mut attempt = Attempt::new(place.clone(), status);
        attempt.begun = Some(now);
        attempt.due = asks.map(|approval| now.saturating_add(i64::from(approval.timeout_s) * 1_000_000));
        effects.push(Effect::Write(Box::new(attempt.clone())));
        if asks.is_none() {
            effects.push(Effect::Start(place, inputs));
        }
        if let Some(progress) = self.steps.get_mut(&step.id) {
            progress.latest.insert(item, attempt);
        }
        true
    }

    /// An attempt that fails before it begins.
    fn refuse(&mut self, place: &AttemptId, failure: Failure, now: i64, effects: &mut Vec<Effect>) {
        let mut attempt = Attempt::new(place.clone(), AttemptStatus::Failed);
        attempt.begun = Some(now);
        attempt.ended = Some(now);
        attempt.fail(failure);
        effects.push(Effect::Write(Box::new(attempt.clone())));
        let progress = self.steps.entry(place.step.clone()).or_default();
        progress.latest.insert(place.item, attempt);
    }

    fn begun(&mut self, step: &Step, count: usize) {
        let progress = self.steps.entry(step.id.clone()).or_default();
        progress.begun = true;
        progress.count = u32::try_from(count).unwrap_or(u32::MAX);
    }

    /// The number of runs of a step: one for each item of its list, else one.
    fn count_items(&self, step: &Step) -> Result<usize, Failure> {
        let Some(map) = &step.map else {
            return Ok(1);
        };
        let Some(list) = self.values(None).given(&map.over) else {
            return Err(Failure::new(BAD_INPUTS, "map.over is not there"));
        };
        match list.len() {
            Some(count) if count <= MAX_ITEMS => Ok(count),
            Some(count) => {
                let text = format!("map.over has {count} items, at most {MAX_ITEMS} are allowed");
                Err(Failure::new(TOO_LARGE, &text))
            }
            None => Err(Failure::new(BAD_INPUTS, "map.over must be a list")),
        }
    }

    /// Questions that no person has answered in time.
    fn expire(&mut self, now: i64, effects: &mut Vec<Effect>) {
        let all = self
            .steps
            .values_mut()
            .flat_map(|progress| progress.latest.values_mut());
        for attempt in all {
            if attempt.status == AttemptStatus::Waiting && attempt.due.is_some_and(|due| due <= now) {
                attempt.ended = Some(now);
                attempt.fail(Failure::new("approval_timeout", "no person has answered in time"));
                effects.push(Effect::Write(Box::new(attempt.clone())));
            }
        }
    }

    /// Ends what runs or waits.
    fn stop(&mut self, now: i64, effects: &mut Vec<Effect>) {
        let mut stopped = Vec::new();
        let all = self
            .steps
            .values_mut()
            .flat_map(|progress| progress.latest.values_mut());
        for attempt in all.filter(|attempt| !attempt.status.is_over()) {
            let ran = attempt.status == AttemptStatus::Running;
            attempt.status = AttemptStatus::Cancelled;
            attempt.ended = Some(now);
            attempt.due = None;
            effects.push(Effect::Write(Box::new(attempt.clone())));
            if ran {
                stopped.push(Effect::Stop(attempt.place.clone()));
            }
        }
        effects.append(&mut stopped);
    }

    fn finish(&mut self, end: End, effects: &mut Vec<Effect>) {
        self.end = Some(end.clone());
        effects.push(Effect::End(Box::new(end)));
    }

    /// The first failure.
    fn failed(&self) -> Option<(String, u32, Failure)> {
        let failed = |one: &&Attempt| one.status == AttemptStatus::Failed;
        let first = self.attempts().filter(failed).min_by_key(|one| one.ended)?;
        let failure = first
            .failure
            .clone()
            .unwrap_or_else(|| Failure::new("failed", ""));
        Some((first.place.step.clone(), first.place.item, failure))
    }

    fn returned(&self) -> End {
        let given = &self.workflow.definition().outputs;
        let Ok(outputs) = self.values(None).all(given, MAX_RUN_BYTES) else {
            let text = format!("the outputs of the run have more than {MAX_RUN_BYTES} bytes as JSON");
            return End {
                failure: Some(Failure::new(TOO_LARGE, &text)),
                ..End::of(RunStatus::Failed)
            };
        };
        End {
            outputs: Some(Value::Object(outputs)),
            ..End::of(RunStatus::Succeeded)
        }
    }
}

/// Bytes of a value as JSON, or a quarter of its bytes in memory: many small values take more there.
fn bytes_of(value: Option<&Value>) -> usize {
    value.map_or(0, |value| {
        let written = bytes_within(value, usize::MAX).unwrap_or(usize::MAX / 4);
        written.max(memory_of(value) / 4)
    })
}

/// Bytes that the lists and objects of a value take in memory, about. Its texts are not counted.
fn memory_of(value: &Value) -> usize {
    const VALUE: usize = 64;
    match value {
        Value::Array(items) => items.len() * VALUE + items.iter().map(memory_of).sum::<usize>(),
        // The first member takes room for eleven.
        Value::Object(members) => {
            members.len().max(10) * VALUE + members.values().map(memory_of).sum::<usize>()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
