//! Requests of clients, and their answers: what keeps a kernel busy, who may answer a question, what is lost with a process.

use himalia_model::ExecutionState;
use himalia_shim_protocol::{KernelState, Lane, Origin, RequestId, ToGateway};
use himalia_wire::v1::{self, Frame};
use himalia_wire::{Channel, Limits, Parts};
use serde_json::{Value, json};

use super::bench::Bench;
use super::event::{Command, Event, Request};
use super::meta::{RecordKind, RecordMeta};
use super::requests::kind::{RequestKind, parent_key};
use super::time_limit::tests::status;

/// A request of the client that is no cell.
fn request(bench: &mut Bench, channel: Channel, kind: RequestKind, msg_type: &str) {
    let parts = Parts {
        header: format!(r#"{{"msg_id":"{msg_type}","msg_type":"{msg_type}","session":"client"}}"#).into(),
        parent_header: "{}".into(),
        metadata: "{}".into(),
        content: "{}".into(),
        buffers: Vec::new(),
    };
    bench.step(Event::Request(Request {
        owner: 7,
        kind,
        parent: parent_key(msg_type, "client"),
        frame: Frame::new(channel, &parts),
        trace: None,
    }));
}

#[test]
fn a_kernel_is_busy_while_it_works_on_any_request() {
    let ok = json!({ "status": "ok" });
    let busy = |bench: &Bench| bench.core.state() == ExecutionState::Busy;
    let mut bench = Bench::running();
    bench.core.readiness.restore(true, true);
    bench.ask("cell");
    status(&mut bench, 1, "cell", "busy");
    // A console of a subshell, and the request that makes one.
    request(
        &mut bench,
        Channel::Control,
        RequestKind::Request,
        "create_subshell_request",
    );
    status(&mut bench, 2, "create_subshell_request", "busy");
    status(&mut bench, 3, "create_subshell_request", "idle");
    assert!(busy(&bench));
    bench.ask("console");
    let number = bench.sent.iter().find(|(name, _)| name == "console").unwrap().1;
    status(&mut bench, 4, "console", "busy");
    bench.says(5, (Channel::Shell, "execute_reply"), "console", Some(number), &ok);
    status(&mut bench, 6, "console", "idle");
    assert!(busy(&bench), "the cell runs on");
    assert!(bench.core.requests.executes(), "the cell has no answer");
    bench.recover();
    for lane in Lane::ALL {
        bench.hello(lane, KernelState::Running);
    }
    assert!(busy(&bench), "also for the next gateway");
    request(&mut bench, Channel::Shell, RequestKind::Notice, "comm_msg");
    status(&mut bench, 7, "comm_msg", "busy");
    status(&mut bench, 8, "comm_msg", "idle");
    assert!(busy(&bench));
    let number = bench.sent.iter().find(|(name, _)| name == "cell").unwrap().1;
    bench.says(9, (Channel::Shell, "execute_reply"), "cell", Some(number), &ok);
    status(&mut bench, 10, "cell", "idle");
    assert_eq!(bench.core.state(), ExecutionState::Idle);
}

#[test]
fn a_lost_end_of_a_request_keeps_no_kernel_busy() {
    let mut bench = Bench::running();
    bench.core.readiness.restore(true, true);
    request(&mut bench, Channel::Shell, RequestKind::Notice, "comm_msg");
    status(&mut bench, 1, "comm_msg", "busy");
    // Its idle, the second message, is lost.
    bench.ask("a");
    status(&mut bench, 3, "a", "busy");
    status(&mut bench, 4, "a", "idle");
    assert_eq!(bench.core.state(), ExecutionState::Idle);
}

/// The kernel asks the client for input; the question has this id.
fn question(bench: &mut Bench, link: u64, msg_id: &str, number: u64) {
    let parts = Parts {
        header: format!(r#"{{"msg_id":"{msg_id}","msg_type":"input_request","session":"kernel"}}"#).into(),
        parent_header: r#"{"msg_id":"a","msg_type":"execute_request","session":"client"}"#.into(),
        metadata: "{}".into(),
        content: r#"{"prompt":"?","password":false}"#.into(),
        buffers: Vec::new(),
    };
    let origin = Origin {
        incarnation: 1,
        answers: Some(RequestId { epoch: 1, number }),
    };
    let frame = v1::encode(Channel::Stdin, &parts);
    let message = ToGateway::Message {
        kernel: 1,
        link,
        origin,
        frame,
    };
    bench.step(Event::Shim(Lane::Data, message));
}

/// Tests whether an answer goes to the kernel: of this owner, to the question with this id if there is one.
fn answered(bench: &mut Bench, owner: u64, question: Option<&str>) -> bool {
    let parent = question.map_or("{}".to_owned(), |id| {
        format!(r#"{{"msg_id":"{id}","msg_type":"input_request","session":"kernel"}}"#)
    });
    let parts = Parts {
        header: r#"{"msg_id":"r","msg_type":"input_reply","session":"any"}"#.into(),
        parent_header: parent.into(),
        metadata: "{}".into(),
        content: r#"{"value":"x"}"#.into(),
        buffers: Vec::new(),
    };
    let before = bench.answers.len();
    bench.step(Event::Request(Request {
        owner,
        kind: RequestKind::Notice,
        parent: parent_key("r", "any"),
        frame: Frame::new(Channel::Stdin, &parts),
        trace: None,
    }));
    bench.answers.len() > before
}

#[test]
fn an_answer_is_of_the_client_that_is_asked_or_names_the_question() {
    for recovered in [false, true] {
        let mut bench = Bench::running();
        bench.ask("a");
        let number = bench.sent[0].1;
        question(&mut bench, 1, "first", number);
        question(&mut bench, 2, "second", number);
        if recovered {
            bench.recover();
            for lane in Lane::ALL {
                bench.hello(lane, KernelState::Running);
            }
        }
        assert!(!answered(&mut bench, 8, None), "another client");
        assert!(!answered(&mut bench, 7, Some("first")), "a late answer");
        assert!(answered(&mut bench, 7, None));
        assert!(answered(&mut bench, 8, Some("second")));
    }
}

/// Other kernels send names of files as they are.
#[test]
fn a_message_that_is_no_unicode_is_kept_as_text() {
    let mut bench = Bench::running();
    bench.ask("a");
    let parts = Parts {
        header: r#"{"msg_id":"m","msg_type":"stream","session":"kernel"}"#.into(),
        parent_header: r#"{"msg_id":"a","msg_type":"execute_request","session":"client"}"#.into(),
        metadata: "{}".into(),
        content: (&b"{\"name\":\"stdout\",\"text\":\"a\\udcffb\xffc\"}"[..]).into(),
        buffers: Vec::new(),
    };
    let message = ToGateway::Message {
        kernel: 1,
        link: 1,
        origin: Origin {
            incarnation: 1,
            answers: None,
        },
        frame: v1::encode(Channel::Iopub, &parts),
    };
    bench.step(Event::Shim(Lane::Data, message));
    let stored = bench.disk.last().unwrap();
    assert_eq!(stored.kind, RecordKind::Message as u8);
    let frame = Frame::parse(stored.body.clone(), &Limits::KERNEL).unwrap();
    let content: Value = serde_json::from_slice(frame.content()).unwrap();
    assert_eq!(content["text"], "a\u{fffd}b\u{fffd}c");
}

/// Messages that the gateway made in the kernel's name for a request: type, owner, status or state.
fn made(bench: &Bench, msg_id: &str) -> Vec<(String, u64, String)> {
    let records = bench.disk.iter();
    let records = records.filter(|record| record.kind == RecordKind::Message as u8);
    let made = records.filter_map(|record| {
        let meta = RecordMeta::decode(&record.meta);
        let frame = Frame::parse(record.body.clone(), &Limits::KERNEL).unwrap();
        let parent = frame.peek_parent().unwrap()?;
        let content: Value = serde_json::from_slice(frame.content()).unwrap();
        let state = content["status"].as_str().or(content["execution_state"].as_str());
        let shown = (
            frame.peek().unwrap().msg_type.into_owned(),
            meta.owner,
            state.unwrap_or_default().to_owned(),
        );
        (meta.synthetic && *parent.msg_id == *msg_id).then_some(shown)
    });
    made.collect()
}

#[test]
fn a_request_that_was_lost_with_its_process_gets_an_error_reply() {
    let mut bench = Bench::running();
    let numbers = bench.ask_three();
    bench.accepted();
    status(&mut bench, 1, "a", "busy");
    bench.exited(1);
    let error = |msg_type: &str, owner, state: &str| (msg_type.to_owned(), owner, state.to_owned());
    let expected = [
        error("error", 0, ""),
        error("execute_reply", 7, "error"),
        error("status", 0, "idle"),
    ];
    assert_eq!(made(&bench, "a"), expected);
    // The kernel had not begun with the others: one never ran, and goes to the next process.
    bench.refused_all(&numbers[1..2]);
    bench.started(2);
    assert_eq!(bench.sent_names(), ["b"]);
    assert!(made(&bench, "c").is_empty());
    bench.now.mono += 2_000_000;
    bench.step(Event::Tick);
    assert_eq!(made(&bench, "c"), expected);
    // Too late for the shim to say that it never ran.
    bench.refused_all(&numbers[2..]);
    assert!(bench.sent.is_empty() && made(&bench, "b").is_empty());
    bench.recover();
    bench.now.mono += 2_000_000;
    bench.step(Event::Tick);
    assert_eq!((made(&bench, "a").len(), made(&bench, "c").len()), (3, 3));
}

#[test]
fn the_next_gateway_answers_what_was_lost_before() {
    let mut bench = Bench::running();
    bench.ask("a");
    bench.accepted();
    bench.exited(1);
    bench.started(2);
    assert!(made(&bench, "a").is_empty());
    bench.checkpoint = Some((bench.core.checkpoint(), bench.disk.len()));
    bench.recover();
    for lane in Lane::ALL {
        bench.hello(lane, KernelState::Running);
    }
    bench.now.mono += 2_000_000;
    bench.step(Event::Tick);
    assert_eq!(made(&bench, "a").len(), 3);
}

#[test]
fn a_request_that_a_restart_ends_does_not_name_the_crash_before() {
    let mut bench = Bench::running();
    bench.exited(1);
    bench.started(2);
    bench.core.readiness.restore(true, true);
    bench.ask("a");
    bench.accepted();
    bench.order(1, Command::Restart);
    bench.ended_by_shim(2);
    bench.started(3);
    bench.now.mono += 2_000_000;
    bench.step(Event::Tick);
    assert_eq!(made(&bench, "a").len(), 3);
    let cause = b"before it answered (restart)";
    let names_it = |body: &[u8]| body.windows(cause.len()).any(|part| part == cause);
    assert!(bench.disk.iter().any(|record| names_it(&record.body)));
}
