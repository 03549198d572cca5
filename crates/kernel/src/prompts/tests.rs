//! Prompts: open until they end, once; the time of the execution that waits; what a restart of the gateway leaves.

use serde_json::json;

use super::open::{MAX_ENDED, MAX_OPEN};
use super::prompt::{Prompt, PromptEnd, PromptKind, PromptStatus};
use crate::event::{Answer, Command, CommandError, Event};
use crate::executions::records::End;
use crate::play::{Play, TIMEOUT};
use himalia_shim_protocol::{Lane, ToGateway};
use himalia_wire::Channel;

const HOUR: u64 = 3_600_000_000;

fn approval(key: Option<&str>) -> Prompt {
    Prompt {
        kind: PromptKind::Approval,
        text: "Delete the order?".into(),
        options: ["once", "session", "always", "deny"].map(str::to_owned).to_vec(),
        tool: Some("orders.delete".into()),
        definition: Some("as it was".into()),
        digest: Some("7".into()),
        arguments: Some(json!({ "id": 7 })),
        key: key.map(str::to_owned),
        password: false,
        wait_ms: Some(HOUR / 1000),
    }
}

fn order(play: &mut Play, waiter: u64, command: Command) -> Vec<(u64, Result<Answer, CommandError>)> {
    play.bench.done.clear();
    play.bench.order(waiter, command);
    std::mem::take(&mut play.bench.done)
}

fn status(result: &Result<Answer, CommandError>) -> PromptStatus {
    match result {
        Ok(Answer::Prompt(status)) => (**status).clone(),
        other => panic!("{other:?}"),
    }
}

fn ask(play: &mut Play, prompt: Prompt) -> PromptStatus {
    let done = order(play, 20, Command::Prompt(Box::new(prompt)));
    assert_eq!(done.len(), 1);
    status(&done[0].1)
}

fn answer(play: &mut Play, seq: u64, value: &str) -> Vec<(u64, Result<Answer, CommandError>)> {
    let by = "operator".into();
    let value = value.into();
    order(play, 21, Command::AnswerPrompt { seq, value, by })
}

fn listed(play: &mut Play) -> Vec<PromptStatus> {
    match order(play, 22, Command::ListPrompts).remove(0).1 {
        Ok(Answer::Prompts(all)) => all,
        other => panic!("{other:?}"),
    }
}

/// An execution that runs, and is asked about.
fn running() -> (Play, u64) {
    let mut play = Play::new();
    let seq = play.execute("x");
    play.status("busy");
    (play, seq)
}

#[test]
fn a_prompt_is_answered_once() {
    let (mut play, execution) = running();
    let asked = ask(&mut play, approval(None));
    assert_eq!((asked.execution, asked.end.clone()), (Some(execution), None));
    let wait = |waiter| {
        (
            waiter,
            Command::AwaitPrompt {
                seq: asked.seq,
                wait: HOUR,
            },
        )
    };
    for waiter in [30, 31] {
        let (waiter, command) = wait(waiter);
        assert_eq!(order(&mut play, waiter, command), []);
    }
    let done = answer(&mut play, asked.seq, "perhaps");
    let options = ["once", "session", "always", "deny"].map(str::to_owned).to_vec();
    assert_eq!(done, [(21, Err(CommandError::NotAnOption(options)))]);
    let done = answer(&mut play, asked.seq, "once");
    let end = Some(PromptEnd::Answered {
        value: "once".into(),
        by: Some("operator".into()),
    });
    let told: Vec<u64> = done.iter().map(|(waiter, _)| *waiter).collect();
    assert_eq!(told, [30, 31, 21]);
    assert!(done.iter().all(|(_, result)| status(result).end == end));
    assert_eq!(
        answer(&mut play, asked.seq, "deny"),
        [(21, Err(CommandError::PromptEnded))]
    );
    assert_eq!(
        answer(&mut play, 9999, "deny"),
        [(21, Err(CommandError::UnknownPrompt))]
    );
    // A late one learns it too.
    let (waiter, command) = wait(32);
    assert_eq!(status(&order(&mut play, waiter, command)[0].1).end, end);
    assert_eq!(listed(&mut play).len(), 1);
}

#[test]
fn the_time_of_the_execution_stands_still() {
    let (mut play, execution) = running();
    let asked = ask(&mut play, approval(None));
    play.wait(3 * TIMEOUT);
    answer(&mut play, asked.seq, "once");
    play.wait(TIMEOUT - 1);
    assert_eq!(play.interrupts(), 0);
    play.wait(1);
    assert_eq!(play.interrupts(), 1);
    play.run_to("error");
    assert_eq!(play.ends(), [(execution, End::Timeout, true, 0)]);
}

#[test]
fn the_end_of_the_execution_withdraws_its_prompts() {
    let (mut play, _) = running();
    let asked = ask(&mut play, approval(None));
    let wait = Command::AwaitPrompt {
        seq: asked.seq,
        wait: HOUR,
    };
    order(&mut play, 30, wait);
    play.bench.done.clear();
    play.reply("error");
    play.status("idle");
    let told = play.bench.done.iter().find(|(waiter, _)| *waiter == 30).unwrap();
    let end = status(&told.1).end;
    assert!(matches!(end, Some(PromptEnd::Withdrawn { reason }) if reason.contains("execution")));
    assert_eq!(
        answer(&mut play, asked.seq, "once"),
        [(21, Err(CommandError::PromptEnded))]
    );
}

#[test]
fn a_prompt_outside_of_executions_ends_with_its_process_or_its_time() {
    let mut play = Play::new();
    let asked = ask(&mut play, approval(None));
    assert_eq!(asked.execution, None);
    play.wait(HOUR - 1);
    assert_eq!(listed(&mut play)[0].end, None);
    play.wait(1);
    let end = listed(&mut play)[0].end.clone();
    assert!(matches!(end, Some(PromptEnd::Withdrawn { reason }) if reason.contains("in time")));
    ask(&mut play, approval(None));
    play.bench.exited(1);
    let end = listed(&mut play)[1].end.clone();
    assert!(matches!(end, Some(PromptEnd::Withdrawn { reason }) if reason.contains("process")));
}

#[test]
fn a_wait_is_over_when_its_time_is() {
    let (mut play, _) = running();
    let asked = ask(&mut play, approval(None));
    let wait = |wait| Command::AwaitPrompt { seq: asked.seq, wait };
    assert_eq!(order(&mut play, 30, wait(5)), []);
    play.wait(5);
    let done = std::mem::take(&mut play.bench.done);
    assert_eq!((done[0].0, status(&done[0].1).end), (30, None));
    // The ninth who waits takes the place of the first.
    for waiter in 0..8 {
        assert_eq!(order(&mut play, waiter, wait(HOUR)), []);
    }
    let done = order(&mut play, 8, wait(HOUR));
    assert_eq!((done[0].0, status(&done[0].1).end), (0, None));
}

#[test]
fn the_same_key_is_the_same_prompt() {
    let (mut play, _) = running();
    let first = ask(&mut play, approval(Some("k")));
    assert_eq!(ask(&mut play, approval(Some("k"))).seq, first.seq);
    let mut other = approval(Some("k"));
    other.text = "Another question".into();
    let refused = order(&mut play, 20, Command::Prompt(Box::new(other)));
    assert_eq!(refused, [(20, Err(CommandError::KeyReused))]);
    answer(&mut play, first.seq, "deny");
    let again = ask(&mut play, approval(Some("k")));
    assert!(
        again.seq == first.seq && again.end.is_some(),
        "also when it has ended"
    );
    assert_ne!(ask(&mut play, approval(None)).seq, first.seq);
}

#[test]
fn prompts_are_bounded() {
    let (mut play, _) = running();
    let first = ask(&mut play, approval(None)).seq;
    for _ in 1..MAX_OPEN {
        ask(&mut play, approval(None));
    }
    let refused = order(&mut play, 20, Command::Prompt(Box::new(approval(None))));
    assert_eq!(refused, [(20, Err(CommandError::TooManyPrompts))]);
    answer(&mut play, first, "once");
    for _ in 0..MAX_ENDED {
        let seq = ask(&mut play, approval(None)).seq;
        answer(&mut play, seq, "once");
    }
    assert_eq!(listed(&mut play).len(), MAX_OPEN - 1 + MAX_ENDED);
    assert_eq!(
        answer(&mut play, first, "once"),
        [(21, Err(CommandError::UnknownPrompt))]
    );
}

#[test]
fn what_is_open_survives_the_gateway() {
    for checkpoint in [false, true] {
        let (mut play, execution) = running();
        let answered = ask(&mut play, approval(Some("a"))).seq;
        answer(&mut play, answered, "once");
        let open = ask(&mut play, approval(Some("b"))).seq;
        play.wait(3 * TIMEOUT);
        let mut before = listed(&mut play);
        if checkpoint {
            let bench = &mut play.bench;
            bench.checkpoint = Some((bench.core.checkpoint(), bench.disk.len()));
        }
        let number = play.sent().last().unwrap().2;
        play.bench
            .step(Event::Shim(Lane::Data, ToGateway::Accepted { kernel: 1, number }));
        play.recover();
        before[0].prompt.arguments = None;
        assert_eq!(listed(&mut play), before, "{checkpoint}");
        play.wait(3 * TIMEOUT);
        assert!(play.ends().is_empty(), "its time stands still");
        let late = answer(&mut play, answered, "deny");
        assert_eq!(late, [(21, Err(CommandError::PromptEnded))]);
        let done = answer(&mut play, open, "deny");
        let end = status(&done[0].1).end;
        assert!(matches!(end, Some(PromptEnd::Answered { value, .. }) if value == "deny"));
        play.run_to("ok");
        assert_eq!(play.ends(), [(execution, End::Ok, true, 0)]);
    }
}

fn questions(play: &mut Play) -> Vec<PromptStatus> {
    let mut all = listed(play);
    all.retain(|status| status.prompt.kind == PromptKind::Input);
    all
}

fn values(play: &Play) -> Vec<String> {
    let read = |content: &[u8]| serde_json::from_slice::<serde_json::Value>(content).unwrap();
    let answers = play.bench.answers.iter();
    answers
        .map(|content| read(content)["value"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn what_input_asks_is_a_prompt_that_is_answered_once() {
    let (mut play, execution) = running();
    play.message(
        Channel::Stdin,
        "input_request",
        &json!({ "prompt": "Name?\u{1b}[2J", "password": false }),
    );
    let all = questions(&mut play);
    assert_eq!(all.len(), 1);
    let asked = &all[0];
    assert_eq!((asked.execution, asked.end.clone()), (Some(execution), None));
    assert_eq!(asked.prompt.text, "Name?[2J");
    assert_eq!(play.bench.core.snapshot().open_prompts.len(), 1);
    let seq = asked.seq;
    let done = answer(&mut play, seq, "Ada");
    let end = Some(PromptEnd::Answered {
        value: "Ada".into(),
        by: Some("operator".into()),
    });
    assert_eq!(status(&done[0].1).end, end);
    assert_eq!(values(&play), ["Ada"]);
    let late: Result<Answer, CommandError> = Err(CommandError::PromptEnded);
    assert_eq!(answer(&mut play, seq, "Bob"), [(21, late.clone())]);
    // Its own way of being answered ends it, too, and a question that follows is another one.
    play.message(Channel::Stdin, "input_request", &json!({ "prompt": "Again?" }));
    assert_eq!(answer(&mut play, seq, "Bob"), [(21, late.clone())]);
    let next = questions(&mut play).last().unwrap().seq;
    let input = |value: &str| Command::Input {
        seq: execution,
        value: value.into(),
        by: "operator".into(),
    };
    assert_eq!(order(&mut play, 24, input("Eve")), [(24, Ok(Answer::Done))]);
    assert_eq!(answer(&mut play, next, "Bob"), [(21, late)]);
    assert_eq!(values(&play), ["Ada", "Eve"]);
    assert_eq!(play.bench.core.snapshot().open_prompts, []);
}

#[test]
fn what_input_asks_survives_the_gateway() {
    for checkpoint in [false, true] {
        let (mut play, _) = running();
        play.message(Channel::Stdin, "input_request", &json!({ "prompt": "a?" }));
        let answered = questions(&mut play)[0].seq;
        answer(&mut play, answered, "1");
        play.message(Channel::Stdin, "input_request", &json!({ "prompt": "b?" }));
        let open = questions(&mut play)[1].seq;
        if checkpoint {
            let bench = &mut play.bench;
            bench.checkpoint = Some((bench.core.checkpoint(), bench.disk.len()));
        }
        play.recover();
        let all = questions(&mut play);
        assert_eq!(all.len(), 2, "{checkpoint}");
        assert!(matches!(&all[0].end, Some(PromptEnd::Answered { value, .. }) if value == "1"));
        assert_eq!(
            answer(&mut play, answered, "2"),
            [(21, Err(CommandError::PromptEnded))]
        );
        assert!(all[1].end.is_none());
        let done = answer(&mut play, open, "2");
        assert!(status(&done[0].1).end.is_some(), "{checkpoint}");
        assert_eq!(values(&play).last().unwrap(), "2");
    }
}

#[test]
fn the_answer_to_getpass_is_kept_nowhere() {
    let (mut play, _) = running();
    let secret = json!({ "prompt": "Password:", "password": true });
    play.message(Channel::Stdin, "input_request", &secret);
    let asked = questions(&mut play).remove(0);
    assert!(asked.prompt.password);
    answer(&mut play, asked.seq, "hunter2");
    assert_eq!(values(&play), ["hunter2"]);
    let shown = format!("{:?}", questions(&mut play));
    assert!(!shown.contains("hunter2"), "{shown}");
    let kept = |text: &[u8]| text.windows(7).any(|part| part == b"hunter2");
    assert!(!play.bench.disk.iter().any(|record| kept(&record.body)));
    assert!(!kept(&play.bench.core.checkpoint()));
}

#[test]
fn what_input_asks_ends_with_its_execution() {
    let (mut play, _) = running();
    play.message(Channel::Stdin, "input_request", &json!({ "prompt": "?" }));
    let asked = questions(&mut play).remove(0).seq;
    play.run_to("error");
    let withdrawn = |play: &mut Play| matches!(questions(play)[0].end, Some(PromptEnd::Withdrawn { .. }));
    assert!(withdrawn(&mut play));
    assert_eq!(
        answer(&mut play, asked, "x"),
        [(21, Err(CommandError::PromptEnded))]
    );
    play.recover();
    assert!(withdrawn(&mut play));
}

fn call(play: &mut Play, prompt: Option<u64>, digest: &str) -> Result<Answer, CommandError> {
    call_of(play, prompt, digest, "as it was")
}

fn call_of(
    play: &mut Play,
    prompt: Option<u64>,
    digest: &str,
    definition: &str,
) -> Result<Answer, CommandError> {
    let command = Command::UseApproval {
        prompt,
        tool: "orders.delete".into(),
        definition: definition.into(),
        digest: digest.into(),
    };
    order(play, 23, command).remove(0).1
}

#[test]
fn an_approval_is_for_one_call_with_these_arguments() {
    let (mut play, _) = running();
    assert!(matches!(
        call(&mut play, None, "7"),
        Err(CommandError::NotApproved(_))
    ));
    let asked = ask(&mut play, approval(None)).seq;
    let why = |result| match result {
        Err(CommandError::NotApproved(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(call(&mut play, Some(asked), "7")), "it is not approved yet");
    answer(&mut play, asked, "once");
    assert!(why(call(&mut play, Some(asked), "8")).contains("another call"));
    assert_eq!(call(&mut play, Some(asked), "7"), Ok(Answer::Done));
    assert!(why(call(&mut play, Some(asked), "7")).contains("made before"));
    let number = play.sent().last().unwrap().2;
    play.bench
        .step(Event::Shim(Lane::Data, ToGateway::Accepted { kernel: 1, number }));
    play.recover();
    assert!(
        why(call(&mut play, Some(asked), "7")).contains("made before"),
        "also for the next gateway"
    );
    let asked = ask(&mut play, approval(None)).seq;
    answer(&mut play, asked, "deny");
    assert!(why(call(&mut play, Some(asked), "7")).contains("denied"));
}

#[test]
fn what_is_approved_always_is_approved_elsewhere_and_here_for_one_call() {
    let (mut play, _) = running();
    let asked = ask(&mut play, approval(None)).seq;
    answer(&mut play, asked, "always");
    assert_eq!(call(&mut play, Some(asked), "7"), Ok(Answer::Done));
    for prompt in [Some(asked), None] {
        let refused = call(&mut play, prompt, "7");
        assert!(
            matches!(refused, Err(CommandError::NotApproved(_))),
            "it can be revoked"
        );
    }
}

#[test]
fn a_tool_that_is_approved_for_the_session_stays_so() {
    for checkpoint in [false, true] {
        let (mut play, _) = running();
        let asked = ask(&mut play, approval(None)).seq;
        answer(&mut play, asked, "session");
        for digest in ["7", "8"] {
            assert_eq!(call(&mut play, None, digest), Ok(Answer::Done));
        }
        let changed = call_of(&mut play, None, "7", "as it is now");
        assert!(
            matches!(changed, Err(CommandError::NotApproved(_))),
            "{changed:?}"
        );
        if checkpoint {
            let bench = &mut play.bench;
            bench.checkpoint = Some((bench.core.checkpoint(), bench.disk.len()));
        }
        let number = play.sent().last().unwrap().2;
        play.bench
            .step(Event::Shim(Lane::Data, ToGateway::Accepted { kernel: 1, number }));
        play.recover();
        assert_eq!(call(&mut play, None, "9"), Ok(Answer::Done), "{checkpoint}");
    }
}
