//! Questions of the engine in the state machine, one thing after the other.

use bytes::Bytes;
use himalia_model::{ExecutionState, Unanswered};
use himalia_shim_protocol::{Lane, Origin, RefusalKind, RequestId, ToGateway};
use himalia_wire::{Channel, Limits, Parts, header, v1};
use serde_json::json;

use super::open::{MAX_OPEN, REPLY_WAIT};
use super::question::Question;
use crate::bench::{Bench, settings};
use crate::core::Core;
use crate::event::{Answer, Command, CommandError, Event};
use crate::meta::{RecordKind, RecordMeta};
use crate::requests::kind::RequestKind;

const WAIT: u64 = 5_000_000;

/// A kernel that is ready and idle, and its side of the lanes.
struct Talk {
    bench: Bench,
    links: [u64; 2],
}

impl Talk {
    fn new() -> Self {
        let mut bench = Bench::running();
        bench.core.readiness.restore(true, true);
        bench.core.activity.state = ExecutionState::Idle;
        bench.done.clear();
        Self { bench, links: [1, 0] }
    }

    fn ask(&mut self, waiter: u64, channel: Channel) {
        let question = Question {
            channel,
            msg_type: "complete_request",
            content: json!({"code": "x"}),
            wait: WAIT,
        };
        self.bench.order(waiter, Command::Ask(Box::new(question)));
    }

    /// Numbers and headers of the questions that were recorded.
    fn asked(&self) -> Vec<(u64, Bytes)> {
        let records = self.bench.disk.iter();
        records
            .filter(|record| record.kind == RecordKind::Request as u8)
            .filter_map(|record| {
                let meta = RecordMeta::decode(&record.meta);
                let (_, parts) = v1::decode(&record.body, &Limits::KERNEL).unwrap();
                (RequestKind::from_word(meta.word) == RequestKind::Question)
                    .then_some((meta.request, parts.header))
            })
            .collect()
    }

    /// The kernel says something below the question of this place.
    fn says(&mut self, question: usize, channel: Channel, msg_type: &str, content: &serde_json::Value) {
        let (number, parent_header) = self.asked()[question].clone();
        let parts = Parts {
            header: format!(r#"{{"msg_id":"k","msg_type":"{msg_type}","session":"kernel"}}"#).into(),
            parent_header,
            metadata: "{}".into(),
            content: content.to_string().into(),
            buffers: vec![Bytes::from_static(b"arrow")],
        };
        let lane = if channel == Channel::Control {
            Lane::Now
        } else {
            Lane::Data
        };
        let link = &mut self.links[usize::from(lane == Lane::Data)];
        *link += 1;
        let frame = ToGateway::Message {
            kernel: 1,
            link: *link,
            origin: Origin {
                incarnation: 1,
                answers: (channel != Channel::Iopub).then_some(RequestId { epoch: 1, number }),
            },
            frame: v1::encode(channel, &parts),
        };
        self.bench.step(Event::Shim(lane, frame));
    }

    fn status(&mut self, question: usize, state: &str) {
        let content = json!({ "execution_state": state });
        self.says(question, Channel::Iopub, "status", &content);
    }

    fn later(&mut self, micros: u64) {
        self.bench.now.mono += micros;
        self.bench.now.wall += micros;
        self.bench.step(Event::Tick);
    }

    /// What those who asked have received since the last call.
    fn told(&mut self) -> Vec<(u64, Result<Answer, CommandError>)> {
        std::mem::take(&mut self.bench.done)
    }
}

#[test]
fn who_asks_gets_the_reply_and_the_log_no_body() {
    let mut talk = Talk::new();
    let before = talk.bench.core.requests.count_open();
    talk.ask(7, Channel::Control);
    let header = talk.asked()[0].1.clone();
    assert_eq!(header::peek(&header).unwrap().msg_type, "complete_request");
    assert!(talk.told().is_empty());
    talk.says(0, Channel::Control, "complete_reply", &json!({"status": "ok"}));
    let told = talk.told();
    let (7, Ok(Answer::Replied(reply))) = &told[0] else {
        panic!("{told:?}")
    };
    assert_eq!(reply.content, r#"{"status":"ok"}"#);
    assert_eq!(reply.buffers, [Bytes::from_static(b"arrow")]);
    let last = talk.bench.disk.last().unwrap();
    let meta = RecordMeta::decode(&last.meta);
    assert!(last.body.is_empty() && meta.hidden && meta.owner == 0);
    assert_eq!(talk.bench.core.requests.count_open(), before);
    // A second reply belongs to no question.
    talk.says(0, Channel::Control, "complete_reply", &json!({"status": "ok"}));
    assert!(talk.told().is_empty());
}

#[test]
fn a_question_is_no_activity() {
    let mut talk = Talk::new();
    let before = talk.bench.core.last_activity();
    talk.later(10);
    talk.ask(7, Channel::Shell);
    talk.status(0, "busy");
    assert_eq!(talk.bench.core.state(), ExecutionState::Idle);
    talk.says(0, Channel::Shell, "complete_reply", &json!({"status": "ok"}));
    talk.status(0, "idle");
    assert_eq!(talk.bench.core.last_activity(), before);
    let records = talk.bench.disk.iter().filter(|record| {
        let meta = RecordMeta::decode(&record.meta);
        meta.channel == Some(Channel::Iopub) && !meta.hidden
    });
    assert_eq!(records.count(), 0);
}

#[test]
fn an_idle_without_a_reply_says_that_the_kernel_does_not_know() {
    let mut talk = Talk::new();
    talk.ask(7, Channel::Control);
    talk.status(0, "busy");
    talk.status(0, "idle");
    assert!(talk.told().is_empty());
    talk.later(REPLY_WAIT - 1);
    assert!(talk.told().is_empty());
    talk.later(1);
    assert_eq!(talk.told(), [(7, Err(CommandError::NotKnown))]);
    // The reply may follow the idle within that time.
    talk.ask(8, Channel::Shell);
    talk.status(1, "idle");
    talk.says(1, Channel::Shell, "complete_reply", &json!({}));
    assert!(matches!(&talk.told()[..], [(8, Ok(_))]));
}

#[test]
fn time_is_bounded_and_a_late_reply_is_nobodys() {
    let mut talk = Talk::new();
    talk.ask(7, Channel::Shell);
    talk.later(WAIT - 1);
    assert!(talk.told().is_empty());
    talk.later(1);
    assert_eq!(talk.told(), [(7, Err(CommandError::NoAnswer))]);
    talk.says(0, Channel::Shell, "complete_reply", &json!({}));
    assert!(talk.told().is_empty());
}

#[test]
fn no_more_are_asked_than_the_kernel_can_come_to() {
    let mut talk = Talk::new();
    for waiter in 0..MAX_OPEN as u64 {
        talk.ask(waiter, Channel::Shell);
    }
    talk.ask(100, Channel::Shell);
    assert_eq!(talk.told(), [(100, Err(CommandError::TooManyQuestions))]);
    talk.ask(101, Channel::Control);
    assert!(talk.told().is_empty(), "each channel counts for itself");
    talk.later(WAIT);
    assert_eq!(talk.told().len(), MAX_OPEN + 1);
    // They still stand before the next one.
    talk.ask(102, Channel::Shell);
    assert_eq!(talk.told(), [(102, Err(CommandError::TooManyQuestions))]);
    // An answer says that what came before has none.
    talk.says(MAX_OPEN - 1, Channel::Shell, "complete_reply", &json!({}));
    talk.ask(103, Channel::Shell);
    assert!(talk.told().is_empty());
    assert_eq!(talk.asked().len(), MAX_OPEN + 2);
}

#[test]
fn the_end_of_the_process_ends_the_waiting() {
    let mut talk = Talk::new();
    talk.ask(7, Channel::Control);
    talk.bench.exited(1);
    assert_eq!(talk.told(), [(7, Err(CommandError::NotRunning))]);
    talk.ask(8, Channel::Control);
    assert!(matches!(&talk.told()[..], [(8, Err(CommandError::NotRunning))]));
    let mut talk = Talk::new();
    talk.ask(7, Channel::Shell);
    let number = talk.asked()[0].0;
    talk.bench.refused(number, RefusalKind::Full);
    assert!(matches!(&talk.told()[..], [(7, Err(CommandError::Refused(_)))]));
    assert_eq!(talk.asked().len(), 1, "it is not asked again");
}

#[test]
fn the_next_gateway_asks_nothing_again() {
    let mut talk = Talk::new();
    talk.ask(7, Channel::Shell);
    let disk = talk.bench.disk.clone();
    let by_number = |seq: u64| disk.get(usize::try_from(seq).unwrap() - 1).cloned();
    let checkpoint = talk.bench.core.checkpoint();
    for (checkpoint, since) in [(None, &disk[..]), (Some(&checkpoint[..]), &[])] {
        let core = Core::recover(settings(2), talk.bench.now, checkpoint, since, by_number).unwrap();
        let kinds = core.requests.carried_kinds(Lane::Data);
        assert!(!kinds.contains(&RequestKind::Question), "{kinds:?}");
    }
}

#[test]
fn a_control_channel_that_is_blocked_is_said_until_it_answers() {
    let problem = |talk: &Talk| talk.bench.core.snapshot().unresponsive.map(|found| found.problem);
    let mut talk = Talk::new();
    talk.ask(7, Channel::Control);
    talk.later(WAIT);
    assert_eq!(talk.told(), [(7, Err(CommandError::NoAnswer))]);
    assert_eq!(problem(&talk), Some(Unanswered::Control));
    talk.ask(8, Channel::Control);
    assert_eq!(talk.told(), [(8, Err(CommandError::ControlSilent))]);
    // Another channel is not concerned.
    talk.ask(9, Channel::Shell);
    talk.says(1, Channel::Shell, "complete_reply", &json!({}));
    assert!(matches!(&talk.told()[..], [(9, Ok(_))]));
    talk.says(0, Channel::Control, "complete_reply", &json!({}));
    assert_eq!(problem(&talk), None);
    talk.ask(10, Channel::Control);
    talk.says(2, Channel::Control, "complete_reply", &json!({}));
    assert!(matches!(&talk.told()[..], [(10, Ok(_))]));
}
