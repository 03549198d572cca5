use himalia_model::{ModelUse, Spend};
use himalia_wire::Channel;
use serde_json::{Value, json};

use super::*;
use crate::bench::Bench;
use crate::event::Command;
use crate::meta::RecordKind;
use crate::time_limit::tests::status;
use crate::tool_calls::{ToolCallTotals, WINDOW};

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

fn has_begun(call: u64) -> Answer {
    Answer::ToolCallBegun { call, trace: None }
}

#[test]
fn a_call_is_in_the_log_before_it_is_sent_and_after_it_has_ended() {
    let mut bench = Bench::running();
    assert_eq!(begin(&mut bench, 10, ToolCaller::Code), has_begun(1));
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
    assert_eq!(begin(&mut bench, 20, ToolCaller::Code), has_begun(3));
}

#[test]
fn calls_of_sessions_below_count_with_those_of_the_session_at_the_top() {
    let mut bench = Bench::running();
    bench.ask("a");
    let counted = |bench: &mut Bench, waiter: u64| {
        bench.order(waiter, Command::CountTreeCall(LIMITS));
        let done = bench.done.iter().find(|(of, _)| *of == waiter);
        done.unwrap().1.clone().unwrap()
    };
    assert_eq!(counted(&mut bench, 10), Answer::Done);
    assert_eq!(begin(&mut bench, 11, ToolCaller::Code), has_begun(1));
    assert_eq!(counted(&mut bench, 12), Answer::Done);
    let over = Answer::ToolCallOverLimit(ToolLimit::Tree(3));
    assert_eq!(counted(&mut bench, 13), over);
    let over = Answer::ToolCallOverLimit(ToolLimit::Execution(3));
    assert_eq!(begin(&mut bench, 14, ToolCaller::Code), over);
    // They are in the logs of their own sessions.
    assert_eq!(records(&bench).len(), 1);
    assert_eq!(bench.core.snapshot().tool_calls.calls, 1);
    // The next execution at the top has calls of its own, and no execution no such limit.
    end_cell(&mut bench, "a", 1);
    for waiter in 20..24 {
        assert_eq!(counted(&mut bench, waiter), Answer::Done);
    }
    bench.ask("b");
    for waiter in 30..33 {
        assert_eq!(counted(&mut bench, waiter), Answer::Done);
    }
    assert_eq!(
        counted(&mut bench, 33),
        Answer::ToolCallOverLimit(ToolLimit::Tree(3))
    );
}

/// A cell of the client is done; `link` is the number of its first message.
fn end_cell(bench: &mut Bench, msg_id: &str, link: u64) {
    let (_, number) = bench
        .sent
        .iter()
        .find(|(name, _)| name == msg_id)
        .cloned()
        .unwrap();
    let ok = json!({ "status": "ok" });
    status(bench, link, msg_id, "busy");
    bench.says(
        link + 1,
        (Channel::Shell, "execute_reply"),
        msg_id,
        Some(number),
        &ok,
    );
    status(bench, link + 2, msg_id, "idle");
}

fn is_begun(bench: &mut Bench, waiter: u64, caller: ToolCaller) -> bool {
    matches!(begin(bench, waiter, caller), Answer::ToolCallBegun { .. })
}

const MANY: ToolCallLimits = ToolCallLimits {
    per_execution: 3,
    per_session: 1000,
};

#[test]
fn calls_of_clients_count_for_the_session_only() {
    let mut bench = Bench::running();
    for running in [false, true] {
        for waiter in 0..10 {
            let waiter = 100 * (1 + u64::from(running)) + waiter;
            let begin = Command::BeginToolCall(Box::new(what("a.b", ToolCaller::Model)), MANY);
            bench.order(waiter, begin);
            let done = bench.done.iter().find(|(of, _)| *of == waiter);
            assert!(
                matches!(done.unwrap().1, Ok(Answer::ToolCallBegun { .. })),
                "{done:?}"
            );
        }
        bench.ask("a");
    }
    assert_eq!(bench.core.snapshot().tool_calls.calls, 20);
}

#[test]
fn each_execution_has_its_own_calls_also_before_it_is_known_to_be_busy() {
    let limited = |bench: &mut Bench, waiter: u64| {
        bench.order(
            waiter,
            Command::BeginToolCall(Box::new(what("a.b", ToolCaller::Code)), MANY),
        );
        let done = bench.done.iter().find(|(of, _)| *of == waiter);
        done.unwrap().1.clone().unwrap() == Answer::ToolCallOverLimit(ToolLimit::Execution(3))
    };
    let mut bench = Bench::running();
    for cell in 0..10 {
        let (name, waiter) = (format!("cell{cell}"), 100 * (cell + 1));
        bench.ask(&name);
        // The second call comes before the message that the kernel is busy, the third one after it.
        assert!(!limited(&mut bench, waiter) && !limited(&mut bench, waiter + 1));
        status(&mut bench, 10 * cell + 1, &name, "busy");
        assert!(!limited(&mut bench, waiter + 2), "cell {cell}");
        let client = Command::BeginToolCall(Box::new(what("a.b", ToolCaller::Model)), MANY);
        bench.order(waiter + 3, client);
        assert!(limited(&mut bench, waiter + 4), "cell {cell}");
        let (_, number) = bench.take_sent().remove(0);
        let (answer, ok) = ((Channel::Shell, "execute_reply"), json!({ "status": "ok" }));
        bench.says(10 * cell + 2, answer, &name, Some(number), &ok);
        status(&mut bench, 10 * cell + 3, &name, "idle");
        // Code that runs between cells belongs to none.
        for more in 10..15 {
            assert!(!limited(&mut bench, waiter + more));
        }
    }
    assert!(
        bench.core.tool_calls.executions.is_empty(),
        "counts end with their executions"
    );
}

#[test]
fn cells_that_wait_in_the_kernel_have_their_calls_in_turn() {
    let mut bench = Bench::running();
    bench.ask("a");
    bench.ask("b");
    for waiter in 10..13 {
        assert!(is_begun(&mut bench, waiter, ToolCaller::Code));
    }
    assert!(!is_begun(&mut bench, 13, ToolCaller::Code));
    end_cell(&mut bench, "a", 1);
    assert!(is_begun(&mut bench, 14, ToolCaller::Code));
    assert!(is_begun(&mut bench, 15, ToolCaller::Code));
    let over = Answer::ToolCallOverLimit(ToolLimit::Session(5));
    assert_eq!(begin(&mut bench, 16, ToolCaller::Code), over);
}

#[test]
fn calls_are_limited_for_what_runs_and_for_the_session() {
    let mut bench = Bench::running();
    bench.ask("a");
    for waiter in 10..13 {
        assert!(matches!(
            begin(&mut bench, waiter, ToolCaller::Code),
            Answer::ToolCallBegun { .. }
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
        assert!(matches!(done.1, Ok(Answer::ToolCallBegun { .. })), "{done:?}");
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
    let mut next = Core::new(crate::bench::settings(1), crate::event::Timestamp::default());
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
