//! Single runs, step by step.

use serde_json::json;

use super::*;
use crate::definition::Definition;

#[allow(clippy::needless_pass_by_value, reason = "they are literals")]
pub(crate) fn workflow(steps: Value, outputs: Value) -> Arc<Workflow> {
    let definition = json!({
        "name": "w", "version": "1.0.0", "description": "d", "inputs": {"type": "object"}, "steps": steps, "outputs": outputs,
    });
    let definition: Definition = serde_json::from_value(definition).unwrap();
    Arc::new(Workflow::stored(definition).unwrap())
}

fn inputs(value: Value) -> Map<String, Value> {
    let Value::Object(members) = value else {
        unreachable!("inputs are an object")
    };
    members
}

fn started(effects: &[Effect]) -> Vec<(String, u32, u32, Value)> {
    let start = |effect: &Effect| match effect {
        Effect::Start(place, inputs) => Some((
            place.step.clone(),
            place.item,
            place.attempt,
            Value::Object(inputs.clone()),
        )),
        _ => None,
    };
    effects.iter().filter_map(start).collect()
}

fn end(effects: &[Effect]) -> Option<End> {
    effects.iter().find_map(|effect| match effect {
        Effect::End(end) => Some((**end).clone()),
        _ => None,
    })
}

fn place(step: &str, item: u32, attempt: u32) -> AttemptId {
    AttemptId {
        step: step.to_owned(),
        item,
        attempt,
    }
}

fn failed(again: bool) -> Outcome {
    Outcome::Failed {
        failure: Failure::new("error", "E: x"),
        again,
    }
}

#[test]
fn outputs_flow_to_the_steps_that_are_wired_to_them() {
    let workflow = workflow(
        json!([
            {"id": "c", "skill": {"name": "s"}, "inputs": {"x": {"from": "steps.a.outputs.n"}, "y": {"from": "steps.b.outputs"}, "z": {"from": "steps.a.outputs.none"}}},
            {"id": "a", "skill": {"name": "s"}, "inputs": {"m": {"from": "inputs.month"}}},
            {"id": "b", "skill": {"name": "s"}, "inputs": {"k": {"value": null}}},
        ]),
        json!({"sum": {"from": "steps.c.outputs"}, "month": {"from": "inputs.month"}}),
    );
    let mut run = Run::new(workflow, inputs(json!({"month": "10"})));
    let first = run.begin(0, false);
    assert_eq!(
        started(&first),
        [
            ("a".to_owned(), 0, 1, json!({"m": "10"})),
            ("b".to_owned(), 0, 1, json!({"k": null}))
        ]
    );
    assert!(matches!(first[0], Effect::Write(_)), "what runs is written first");
    assert_eq!(
        run.finished(&place("a", 0, 1), Outcome::Done(json!({"n": 1})), 5)
            .len(),
        1
    );
    assert_eq!(
        run.finished(&place("a", 0, 1), Outcome::Done(json!({"n": 2})), 6),
        [],
        "it is no news"
    );
    let then = run.finished(&place("b", 0, 1), Outcome::Done(json!([2])), 7);
    assert_eq!(
        started(&then),
        [("c".to_owned(), 0, 1, json!({"x": 1, "y": [2]}))]
    );
    let last = run.finished(&place("c", 0, 1), Outcome::Done(json!(3)), 8);
    let end = end(&last).unwrap();
    assert_eq!(
        (end.status, end.outputs),
        (RunStatus::Succeeded, Some(json!({"sum": 3, "month": "10"})))
    );
}

#[test]
fn a_failure_stops_what_runs_and_ends_the_run() {
    let workflow = workflow(
        json!([{"id": "a", "skill": {"name": "s"}}, {"id": "b", "skill": {"name": "s"}},
        {"id": "c", "skill": {"name": "s"}, "after": ["a", "b"]}]),
        json!({}),
    );
    let mut run = Run::new(workflow, Map::new());
    run.begin(0, false);
    let effects = run.finished(&place("a", 0, 1), failed(true), 1);
    assert!(effects.contains(&Effect::Stop(place("b", 0, 1))));
    let end = end(&effects).unwrap();
    assert_eq!((end.status, end.step.as_deref()), (RunStatus::Failed, Some("a")));
    assert_eq!(run.status("b"), Some(AttemptStatus::Cancelled));
    assert_eq!(run.status("c"), None);
    assert_eq!(run.finished(&place("b", 0, 1), Outcome::Done(json!(1)), 2), []);
    assert_eq!(run.cancel(3), []);
}

#[test]
fn retries_wait_longer_each_time_and_are_bounded() {
    let step = json!([{"id": "a", "skill": {"name": "s"}, "retries": {"limit": 2, "wait_s": 3}}]);
    let mut run = Run::new(workflow(step, json!({})), Map::new());
    run.begin(0, false);
    run.finished(&place("a", 0, 1), failed(true), 1_000_000);
    assert_eq!(
        (run.due(), run.status("a")),
        (Some(4_000_000), Some(AttemptStatus::Delayed))
    );
    assert_eq!(run.tick(3_999_999), []);
    assert_eq!(started(&run.tick(4_000_000)), [("a".to_owned(), 0, 2, json!({}))]);
    run.finished(&place("a", 0, 2), failed(true), 5_000_000);
    assert_eq!(run.due(), Some(11_000_000));
    assert_eq!(started(&run.tick(11_000_000)).len(), 1);
    let last = run.finished(&place("a", 0, 3), failed(true), 12_000_000);
    assert_eq!(end(&last).unwrap().status, RunStatus::Failed);
    // What cannot succeed is not tried again.
    let step = json!([{"id": "a", "skill": {"name": "s"}, "retries": {"limit": 2}}]);
    let mut run = Run::new(workflow(step, json!({})), Map::new());
    run.begin(0, false);
    assert!(end(&run.finished(&place("a", 0, 1), failed(false), 1)).is_some());
}

#[test]
fn a_map_runs_a_few_items_at_a_time_and_keeps_their_order() {
    let steps = json!([
        {"id": "a", "skill": {"name": "s"}, "map": {"over": {"from": "inputs.rows"}, "parallel": 2},
            "inputs": {"id": {"from": "item.id"}, "all": {"from": "inputs.k"}}},
        {"id": "b", "skill": {"name": "s"}, "inputs": {"all": {"from": "steps.a.outputs"}}},
    ]);
    let given = json!({"rows": [{"id": 0}, {"id": 1}, {"id": 2}], "k": "k"});
    let mut run = Run::new(workflow(steps.clone(), json!({})), inputs(given));
    assert_eq!(started(&run.begin(0, false)).len(), 2);
    assert_eq!(run.count("a"), Some(3));
    let next = run.finished(&place("a", 1, 1), Outcome::Done(json!("one")), 1);
    assert_eq!(
        started(&next),
        [("a".to_owned(), 2, 1, json!({"id": 2, "all": "k"}))]
    );
    run.finished(&place("a", 2, 1), Outcome::Done(json!("two")), 2);
    let then = run.finished(&place("a", 0, 1), Outcome::Done(json!("zero")), 3);
    assert_eq!(
        started(&then),
        [("b".to_owned(), 0, 1, json!({"all": ["zero", "one", "two"]}))]
    );
    // An empty list is done at once; what is no list is a failure.
    let mut run = Run::new(workflow(steps.clone(), json!({})), inputs(json!({"rows": []})));
    assert_eq!(
        started(&run.begin(0, false)),
        [("b".to_owned(), 0, 1, json!({"all": []}))]
    );
    for (rows, code) in [
        (json!("x"), BAD_INPUTS),
        (Value::Array(vec![json!(1); MAX_ITEMS + 1]), TOO_LARGE),
    ] {
        let mut run = Run::new(
            workflow(steps.clone(), json!({})),
            inputs(json!({ "rows": rows })),
        );
        let end = end(&run.begin(0, false)).unwrap();
        assert_eq!(end.failure.unwrap().code, code);
    }
}

#[test]
fn an_approval_waits_for_a_person_and_goes_on_only_with_the_right_answer() {
    let steps = json!([
        {"id": "ask", "approval": {"text": "Pay?", "options": ["pay", "hold", "no"], "proceed": ["pay", "hold"], "timeout_s": 10}},
        {"id": "pay", "skill": {"name": "s"}, "inputs": {"how": {"from": "steps.ask.outputs.answer"}}},
    ]);
    let make = || Run::new(workflow(steps.clone(), json!({})), Map::new());
    let mut run = make();
    assert_eq!(started(&run.begin(0, false)), []);
    assert_eq!(
        (run.status("ask"), run.due()),
        (Some(AttemptStatus::Waiting), Some(10_000_000))
    );
    let then = run.answered("ask", "hold", "ada", 5);
    assert_eq!(started(&then), [("pay".to_owned(), 0, 1, json!({"how": "hold"}))]);
    assert_eq!(run.answered("ask", "no", "bob", 6), []);
    let mut run = make();
    run.begin(0, false);
    assert_eq!(
        end(&run.answered("ask", "no", "ada", 5))
            .unwrap()
            .failure
            .unwrap()
            .code,
        "rejected"
    );
    let mut run = make();
    run.begin(0, false);
    assert_eq!(
        end(&run.tick(10_000_000)).unwrap().failure.unwrap().code,
        "approval_timeout"
    );
    // An answer that was written before a kill counts, also when its time has expired meanwhile.
    let mut run = make();
    run.begin(0, false);
    let mut written = run.attempts().next().unwrap().clone();
    written.status = AttemptStatus::Answered;
    (written.answer, written.by) = (Some("pay".to_owned()), Some("ada".to_owned()));
    let mut again = Run::restore(workflow(steps.clone(), json!({})), Map::new(), vec![written]);
    assert_eq!(started(&again.begin(20_000_000, false)).len(), 1);
}

#[test]
fn what_is_too_large_fails() {
    let steps = json!([{"id": "a", "skill": {"name": "s"}}, {"id": "b", "skill": {"name": "s"}, "inputs": {"x": {"from": "steps.a.outputs"}}}]);
    let mut run = Run::new(workflow(steps.clone(), json!({})), Map::new());
    run.begin(0, false);
    let long = json!("x".repeat(MAX_INPUT_BYTES));
    let end_of = |effects: &[Effect]| end(effects).unwrap().failure.unwrap();
    let failure = end_of(&run.finished(&place("a", 0, 1), Outcome::Done(long), 1));
    assert_eq!(failure.code, TOO_LARGE);
    let mut run = Run::new(workflow(steps, json!({})), Map::new());
    run.begin(0, false);
    let longer = json!("x".repeat(MAX_RUN_BYTES));
    assert_eq!(
        end_of(&run.finished(&place("a", 0, 1), Outcome::Done(longer), 1)).code,
        TOO_LARGE
    );
    // Many small values take more in memory than as text.
    for small in [json!(0), json!({"a": 0})] {
        let mut run = Run::new(
            workflow(json!([{"id": "a", "skill": {"name": "s"}}]), json!({})),
            Map::new(),
        );
        run.begin(0, false);
        let many = Value::Array(vec![small; 600_000]);
        let failure = end_of(&run.finished(&place("a", 0, 1), Outcome::Done(many), 1));
        assert_eq!(failure.code, TOO_LARGE);
    }
    let text = Failure::new("a", &format!("{}\u{0}\u{1b}", "x".repeat(3000))).message;
    assert_eq!(text.len(), 2000);
}

#[test]
fn a_run_that_returns_the_same_value_too_often_fails() {
    let steps = json!([{"id": "a", "skill": {"name": "s"}, "map": {"over": {"value": []}}}]);
    let outputs = |count: usize| {
        let wires = (0..count).map(|n| (format!("o{n}"), json!({"from": "inputs.x"})));
        Value::Object(wires.collect())
    };
    let given = inputs(json!({"x": "y".repeat(MAX_INPUT_BYTES - 10)}));
    let ended = |count: usize| {
        let mut run = Run::new(workflow(steps.clone(), outputs(count)), given.clone());
        end(&run.begin(0, false)).unwrap()
    };
    let fits = ended(60);
    assert_eq!((fits.status, fits.failure), (RunStatus::Succeeded, None));
    let many = ended(100);
    assert_eq!((many.status, many.outputs), (RunStatus::Failed, None));
    assert_eq!(many.failure.unwrap().code, TOO_LARGE);
}

#[test]
fn a_list_is_shown_within_a_bound_and_each_item_is_found_after_a_restart() {
    let steps = json!([
        {"id": "a", "skill": {"name": "s"}},
        {"id": "b", "skill": {"name": "s"}, "map": {"over": {"from": "steps.a.outputs.rows"}, "parallel": 2}, "inputs": {"i": {"from": "item"}}},
        {"id": "c", "skill": {"name": "s"}, "map": {"over": {"from": "steps.b.outputs"}}, "inputs": {"i": {"from": "item.n"}}},
    ]);
    let flow = workflow(steps, json!({}));
    let mut run = Run::new(Arc::clone(&flow), Map::new());
    run.begin(0, false);
    run.finished(&place("a", 0, 1), Outcome::Done(json!({"rows": [7, 8]})), 1);
    for (item, n) in [(0, 70), (1, 80)] {
        run.finished(&place("b", item, 1), Outcome::Done(json!({"n": n})), 2);
    }
    let written = run.attempts().cloned().collect();
    let mut again = Run::restore(flow, Map::new(), written);
    let begun = started(&again.begin(3, false));
    let found: Vec<Value> = begun.into_iter().map(|(_, _, _, inputs)| inputs).collect();
    assert_eq!(found, [json!({"i": 70}), json!({"i": 80})]);
    assert_eq!(again.inputs_of("b", 1, 100), Ok(inputs(json!({"i": 8}))));
    assert_eq!(again.inputs_of("b", 1, 5), Err(TooLarge));
    let all = json!([{"n": 70}, {"n": 80}]);
    let bytes = all.to_string().len();
    assert_eq!(again.outputs_of("b", bytes), Ok(Some(all)));
    assert_eq!(again.outputs_of("b", bytes - 1), Err(TooLarge));
}
