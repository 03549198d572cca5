use himalia_model::Spend;
use serde_json::Value;

use super::*;
use crate::bench::Bench;
use crate::event::Command;
use crate::meta::RecordKind;

const LIMITS: ToolCallLimits = ToolCallLimits {
    per_execution: 3,
    per_session: 5,
};

fn what(tool: &str, caller: ToolCaller) -> ToolCallBegin {
    ToolCallBegin {
        callee: Callee::Tool,
        tool: tool.to_owned(),
        caller,
        arguments: "{}".to_owned(),
        arguments_bytes: 2,
        line: None,
    }
}

fn end(outcome: ToolOutcome) -> ToolCallEnd {
    ToolCallEnd {
        callee: Callee::Tool,
        tool: "a.b".to_owned(),
        outcome,
        code: None,
        reason: None,
        reply: None,
        reply_bytes: 10,
        duration_ms: 1,
        model_use: None,
    }
}

fn begin(bench: &mut Bench, waiter: u64, caller: ToolCaller) -> Answer {
    bench.order(
        waiter,
        Command::BeginToolCall(Box::new(what("a.b", caller)), LIMITS),
    );
    let done = bench.done.iter().find(|(of, _)| *of == waiter);
    done.unwrap().1.clone().unwrap()
}

/// Records of calls, as they are on the disk.
fn records(bench: &Bench) -> Vec<Value> {
    let records = bench
        .disk
        .iter()
        .filter(|record| record.kind == RecordKind::ToolCall as u8);
    records
        .map(|record| serde_json::from_slice(&record.body).unwrap())
        .collect()
}

#[test]
fn a_call_is_in_the_log_before_it_is_sent_and_after_it_has_ended() {
    let mut bench = Bench::running();
    assert_eq!(begin(&mut bench, 10, ToolCaller::Code), Answer::ToolCallBegun(1));
    let begun = records(&bench);
    assert_eq!(begun[0]["state"], "begun");
    assert_eq!(
        (&begun[0]["tool"], &begun[0]["caller"]),
        (&"a.b".into(), &"code".into())
    );
    bench.order(11, Command::EndToolCall(1, Box::new(end(ToolOutcome::Done))));
    // A second end is of no call.
    bench.order(12, Command::EndToolCall(1, Box::new(end(ToolOutcome::Failed))));
    let all = records(&bench);
    assert_eq!(all.len(), 2);
    assert_eq!(
        (&all[1]["state"], &all[1]["outcome"]),
        (&"ended".into(), &"done".into())
    );
    let totals = bench.core.snapshot().tool_calls;
    assert_eq!((totals.calls, totals.failed, totals.reply_bytes), (1, 0, 10));
}

#[test]
fn what_a_gateway_leaves_open_is_unknown_to_the_next_one_once() {
    let mut bench = Bench::running();
    begin(&mut bench, 10, ToolCaller::Code);
    begin(&mut bench, 11, ToolCaller::Code);
    bench.order(12, Command::EndToolCall(1, Box::new(end(ToolOutcome::Done))));
    bench.recover();
    bench.step(crate::event::Event::Tick);
    let last = records(&bench).pop().unwrap();
    assert_eq!((&last["call"], &last["outcome"]), (&2.into(), &"unknown".into()));
    assert_eq!(last["code"], "outcome_unknown");
    let count = records(&bench).len();
    assert_eq!(count, 4);
    bench.recover();
    bench.step(crate::event::Event::Tick);
    assert_eq!(records(&bench).len(), count);
    let totals = bench.core.snapshot().tool_calls;
    assert_eq!((totals.calls, totals.unknown), (2, 1));
    // Numbers continue.
    assert_eq!(begin(&mut bench, 20, ToolCaller::Code), Answer::ToolCallBegun(3));
}

#[test]
fn calls_of_sessions_below_count_with_those_of_the_session_at_the_top() {
    let mut bench = Bench::running();
    let counted = |bench: &mut Bench, waiter: u64| {
        bench.order(waiter, Command::CountTreeCall(LIMITS));
        let done = bench.done.iter().find(|(of, _)| *of == waiter);
        done.unwrap().1.clone().unwrap()
    };
    assert_eq!(counted(&mut bench, 10), Answer::Done);
    assert_eq!(begin(&mut bench, 11, ToolCaller::Code), Answer::ToolCallBegun(1));
    assert_eq!(counted(&mut bench, 12), Answer::Done);
    let over = Answer::ToolCallOverLimit(ToolLimit::Tree(3));
    assert_eq!(counted(&mut bench, 13), over);
    let over = Answer::ToolCallOverLimit(ToolLimit::Execution(3));
    assert_eq!(begin(&mut bench, 14, ToolCaller::Code), over);
    // They are in the logs of their own sessions.
    assert_eq!(records(&bench).len(), 1);
    assert_eq!(bench.core.snapshot().tool_calls.calls, 1);
}

#[test]
fn calls_are_limited_for_what_runs_and_for_the_session() {
    let mut bench = Bench::running();
    for waiter in 10..13 {
        assert!(matches!(
            begin(&mut bench, waiter, ToolCaller::Code),
            Answer::ToolCallBegun(_)
        ));
    }
    let over = Answer::ToolCallOverLimit(ToolLimit::Execution(3));
    assert_eq!(begin(&mut bench, 13, ToolCaller::Code), over);
    bench.order(
        14,
        Command::RefuseToolCall {
            what: Box::new(what("a.b", ToolCaller::Code)),
            code: "tool_denied".to_owned(),
            reason: "no".to_owned(),
        },
    );
    // Nothing else runs, and the session has made four.
    let running = Some(RequestId { epoch: 1, number: 9 });
    assert_eq!(bench.core.tool_calls.count(running, LIMITS), Ok(()));
    bench.core.tool_calls.totals.calls = 5;
    assert_eq!(
        bench.core.tool_calls.count(running, LIMITS),
        Err(ToolLimit::Session(5))
    );
}

#[test]
fn calls_of_models_count_for_themselves_and_a_left_one_is_one_of_a_model() {
    let mut bench = Bench::running();
    let model = || ToolCallBegin {
        callee: Callee::Model,
        ..what("small", ToolCaller::Code)
    };
    // The limits of tools are not theirs.
    for waiter in 10..14 {
        bench.order(waiter, Command::BeginToolCall(Box::new(model()), LIMITS));
        let done = bench.done.iter().find(|(of, _)| *of == waiter).unwrap();
        assert!(matches!(done.1, Ok(Answer::ToolCallBegun(_))), "{done:?}");
    }
    let used = ModelUse {
        input_tokens: 5,
        output_tokens: 2,
        spend: Spend::of_nanos(7),
        ..ModelUse::default()
    };
    let done = ToolCallEnd {
        callee: Callee::Model,
        model_use: Some(used),
        ..end(ToolOutcome::Done)
    };
    bench.order(20, Command::EndToolCall(1, Box::new(done)));
    let refused = Command::RefuseToolCall {
        what: Box::new(model()),
        code: "model_limit".to_owned(),
        reason: "no".to_owned(),
    };
    bench.order(21, refused);
    assert_eq!(records(&bench)[0]["callee"], "model");
    assert_eq!(records(&bench)[4]["model_use"]["input_tokens"], 5);
    bench.recover();
    bench.step(crate::event::Event::Tick);
    let last = records(&bench).pop().unwrap();
    assert_eq!(
        (&last["callee"], &last["outcome"]),
        (&"model".into(), &"unknown".into())
    );
    let snapshot = bench.core.snapshot();
    assert_eq!(snapshot.tool_calls, ToolCallTotals::default());
    let models = snapshot.model_calls;
    assert_eq!(
        (models.calls.calls, models.calls.refused, models.calls.unknown),
        (5, 1, 3)
    );
    assert_eq!(
        (models.used.input_tokens, models.used.spend),
        (5, Spend::of_nanos(7))
    );
    let checkpoint = bench.core.checkpoint();
    let mut next = Core::new(crate::bench::settings(1), crate::event::Now::default());
    next.restore(&checkpoint).unwrap();
    assert_eq!(next.snapshot().model_calls, models);
}

#[test]
fn a_flood_of_refusals_has_few_records() {
    let mut bench = Bench::running();
    let refuse = |bench: &mut Bench| {
        bench.order(
            10,
            Command::RefuseToolCall {
                what: Box::new(what("a.b", ToolCaller::Model)),
                code: "tool_denied".to_owned(),
                reason: "no".to_owned(),
            },
        );
    };
    for _ in 0..300 {
        refuse(&mut bench);
    }
    assert_eq!(records(&bench).len(), 128);
    assert_eq!(bench.core.snapshot().tool_calls.refused, 300);
    bench.now.mono += WINDOW;
    refuse(&mut bench);
    assert_eq!(records(&bench).last().unwrap()["omitted"], 172);
    bench.recover();
    assert_eq!(bench.core.snapshot().tool_calls.refused, 301);
}
