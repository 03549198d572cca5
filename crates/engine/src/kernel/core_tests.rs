//! The state machine by hand, one thing after the other.

use std::sync::Arc;

use bytes::Bytes;
use himalia_journal::Record;
use himalia_shim_protocol::{
    Cause, Event as ShimEvent, Exited, Hello, KernelEntry, KernelSpec, KernelState, Kind, Lane, LinkRange,
    Origin, PerLane, RefusalKind, Refused, RequestId, RequestMarks, Started, ToGateway, VersionRange,
};
use himalia_wire::{Channel, Limits, Parts, header, v1};
use serde_json::{Value, json};

use super::core::{Core, Settings};
use super::event::{Answer, Command, CommandError, Effect, Event, Now, Request};
use super::ledger::{RequestKind, parent_key};
use super::life::Phase;
use super::lifecycle::LifecycleRecord;
use super::meta::{RecordKind, RecordMeta};

const KERNEL: u16 = 1;

/// A core with a disk that never fails, and what it wanted done.
pub(super) struct Bench {
    pub(super) core: Core,
    pub(super) now: Now,
    epoch: u64,
    pub(super) disk: Vec<Arc<Record>>,
    pub(super) checkpoint: Option<(Vec<u8>, usize)>,
    /// Messages that were sent: their `msg_id` and number. The engine's own are left out.
    sent: Vec<(String, u64)>,
    /// Answers to questions that were sent, as they went out.
    pub(super) answers: Vec<Bytes>,
    pub(super) orders: Vec<(Kind, u64)>,
    pub(super) done: Vec<(u64, Result<Answer, CommandError>)>,
    /// What is found out about a death.
    pub(super) oom: bool,
    /// How often the space of the files was to be measured.
    pub(super) measured: u32,
    link: u64,
    high: PerLane<u64>,
}

impl Bench {
    /// A kernel whose first process runs.
    pub(super) fn running() -> Self {
        let now = Now { mono: 1, wall: 1 };
        let mut bench = Self {
            core: Core::new(settings(1), now),
            now,
            epoch: 1,
            disk: Vec::new(),
            checkpoint: None,
            sent: Vec::new(),
            answers: Vec::new(),
            orders: Vec::new(),
            done: Vec::new(),
            oom: false,
            measured: 0,
            link: 0,
            high: PerLane::default(),
        };
        let spec = json!({ "argv": ["kernel"], "env": {}, "cwd": "/" });
        let spec: KernelSpec = serde_json::from_value(spec).unwrap();
        bench.order(1, Command::Start(Box::new(spec)));
        bench.hello(Lane::Now, KernelState::New);
        bench.hello(Lane::Data, KernelState::New);
        bench.started(1);
        bench
    }

    /// A message of the kernel, below a request of the client; `answers` is the request's number.
    pub(super) fn says(
        &mut self,
        link: u64,
        (channel, msg_type): (Channel, &str),
        msg_id: &str,
        answers: Option<u64>,
        content: &Value,
    ) {
        let parts = Parts {
            header: format!(r#"{{"msg_id":"k","msg_type":"{msg_type}","session":"kernel"}}"#).into(),
            parent_header: format!(
                r#"{{"msg_id":"{msg_id}","msg_type":"execute_request","session":"client"}}"#
            )
            .into(),
            metadata: "{}".into(),
            content: content.to_string().into(),
            buffers: Vec::new(),
        };
        let message = ToGateway::Message {
            kernel: 1,
            link,
            origin: Origin {
                incarnation: 1,
                answers: answers.map(|number| RequestId { epoch: 1, number }),
            },
            frame: v1::encode(channel, &parts),
        };
        self.step(Event::Shim(Lane::Data, message));
    }

    pub(super) fn step(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut effects = Vec::new();
            self.core.step(event, self.now, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Send(lane, pending) => {
                        self.high[lane] = pending.number;
                        if pending.kind == Kind::Message {
                            let (_, parts) = v1::decode(&pending.body, &Limits::KERNEL).unwrap();
                            let header = header::peek(&parts.header).unwrap();
                            if header.msg_type == "input_reply" {
                                self.answers.push(parts.content.clone());
                            }
                            if header.session == "client" {
                                self.sent.push((header.msg_id.into_owned(), pending.number));
                            }
                        } else {
                            self.orders.push((pending.kind, pending.number));
                        }
                    }
                    Effect::Done(waiter, result) => self.done.push((waiter, result)),
                    Effect::MeasureDisk => self.measured += 1,
                    Effect::CheckMemory => events.push(Event::MemoryChecked { killed: self.oom }),
                    Effect::Fetch(seq) => events.push(Event::Fetched {
                        seq,
                        record: self.disk.get(usize::try_from(seq).unwrap() - 1).cloned(),
                    }),
                    _ => {}
                }
            }
            if let Some(batch) = self.core.take_batch() {
                let first_seq = self.disk.len() as u64 + 1;
                for (seq, new) in (first_seq..).zip(&batch) {
                    self.disk.push(Arc::new(Record {
                        seq,
                        at_micros: self.now.wall,
                        kind: new.kind,
                        meta: new.meta,
                        body: new.body.clone(),
                    }));
                }
                events.push(Event::Written { first_seq, batch });
            }
        }
    }

    pub(super) fn hello(&mut self, lane: Lane, state: KernelState) {
        let range = |last| LinkRange { first: 1, last };
        let entry = KernelEntry {
            kernel: KERNEL,
            incarnation: 1,
            pid: None,
            state,
            start_ms: 0,
            alive: true,
            links: PerLane {
                now: range(self.link),
                data: range(0),
            },
            requests: RequestMarks {
                epoch: 1,
                high: self.high,
                unfinished: Vec::new(),
            },
        };
        let hello = Hello {
            lane,
            key: String::new(),
            protocol: VersionRange::OURS,
            build: String::new(),
            epoch_seen: 1,
            pid: 1,
            kernels: vec![entry],
            stream: None,
        };
        self.step(Event::Hello(Box::new(hello)));
    }

    pub(super) fn order(&mut self, waiter: u64, command: Command) {
        self.step(Event::Command { waiter, command });
    }

    pub(super) fn event(&mut self, event: ShimEvent) {
        self.link += 1;
        let frame = ToGateway::Event {
            kernel: KERNEL,
            link: self.link,
            event,
        };
        self.step(Event::Shim(Lane::Now, frame));
    }

    pub(super) fn started(&mut self, incarnation: u32) {
        let started: Started = serde_json::from_value(json!({
            "pid": 1, "incarnation": incarnation, "start_ms": 0, "request": {"epoch": 1, "number": 1},
        }))
        .unwrap();
        self.event(ShimEvent::Started(started));
    }

    pub(super) fn exited(&mut self, incarnation: u32) {
        self.event(ShimEvent::Exited(Exited {
            incarnation,
            pid: 1,
            cause: Cause::Signal { signal: 9 },
            asked: false,
            detail: String::new(),
            stderr_tail: String::new(),
            last_data: 0,
            usage: None,
        }));
    }

    pub(super) fn accepted(&mut self) {
        for lane in Lane::ALL {
            let number = self.high[lane];
            let kernel = KERNEL;
            self.step(Event::Shim(lane, ToGateway::Accepted { kernel, number }));
        }
    }

    pub(super) fn refused(&mut self, number: u64, kind: RefusalKind) {
        self.event(ShimEvent::Refused(Refused {
            request: RequestId { epoch: 1, number },
            lane: Lane::Data,
            kind,
            reason: "no".into(),
        }));
    }

    /// For want of a process.
    fn refused_all(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.refused(*number, RefusalKind::NotRunning);
        }
    }

    pub(super) fn ask(&mut self, msg_id: &str) {
        self.ask_with(msg_id, "{}");
    }

    pub(super) fn ask_with(&mut self, msg_id: &str, content: &str) {
        let header = format!(r#"{{"msg_id":"{msg_id}","msg_type":"execute_request","session":"client"}}"#);
        let parts = Parts {
            header: header.into(),
            parent_header: "{}".into(),
            metadata: "{}".into(),
            content: Bytes::copy_from_slice(content.as_bytes()),
            buffers: Vec::new(),
        };
        self.step(Event::Request(Request {
            owner: 7,
            channel: Channel::Shell,
            kind: RequestKind::Execute,
            parent: parent_key(msg_id, "client"),
            frame: v1::encode(Channel::Shell, &parts),
        }));
    }

    /// Asks a, b and c; gives their numbers.
    fn ask_three(&mut self) -> [u64; 3] {
        for msg_id in ["a", "b", "c"] {
            self.ask(msg_id);
        }
        let sent = self.take_sent();
        assert_eq!(sent.len(), 3);
        [sent[0].1, sent[1].1, sent[2].1]
    }

    pub(super) fn take_sent(&mut self) -> Vec<(String, u64)> {
        std::mem::take(&mut self.sent)
    }

    pub(super) fn sent_names(&mut self) -> Vec<String> {
        self.take_sent().into_iter().map(|(name, _)| name).collect()
    }

    /// The next gateway, from what is on the disk.
    pub(super) fn recover(&mut self) {
        self.epoch += 1;
        let (checkpoint, covered) = self.checkpoint.clone().unzip();
        let since = &self.disk[covered.unwrap_or(0)..];
        let read = |seq: u64| self.disk.get(usize::try_from(seq).unwrap() - 1).cloned();
        self.core =
            Core::recover(settings(self.epoch), self.now, checkpoint.as_deref(), since, read).unwrap();
    }

    /// Ends of refused requests as the journal tells them: number of the record, and whether it goes again.
    fn refusals(&self) -> Vec<(u64, bool)> {
        let records = self.disk.iter();
        let told = records
            .filter(|record| record.kind == RecordKind::Lifecycle as u8)
            .filter_map(|record| serde_json::from_slice(&record.body).ok());
        told.filter_map(|told| match told {
            LifecycleRecord::Refused { record, again, .. } => Some((record, again)),
            _ => None,
        })
        .collect()
    }

    /// Records of requests of the client, with the earlier record of those that were sent again.
    fn records(&self) -> Vec<(u64, u64)> {
        let metas = self
            .disk
            .iter()
            .map(|record| (record, RecordMeta::decode(&record.meta)));
        metas
            .filter(|(record, meta)| record.kind == RecordKind::Request as u8 && meta.owner == 7)
            .map(|(record, meta)| (record.seq, meta.link))
            .collect()
    }
}

pub(super) fn settings(epoch: u64) -> Settings {
    Settings {
        kernel: KERNEL,
        epoch,
        restart_limit: 5,
        grace_ms: 100,
    }
}

#[test]
fn requests_that_found_no_process_go_to_the_next_one_in_their_order() {
    for refused_first in [true, false] {
        let mut bench = Bench::running();
        let numbers = bench.ask_three();
        // That a request was accepted may be known before the death is.
        bench.accepted();
        if refused_first {
            bench.refused_all(&numbers);
        }
        bench.exited(1);
        if !refused_first {
            bench.refused_all(&numbers);
        }
        bench.ask("d");
        bench.now.mono += 3_600_000_000;
        bench.step(Event::Tick);
        assert!(bench.sent.is_empty(), "nothing is sent before there is a process");
        bench.started(2);
        let sent = bench.take_sent();
        let names: Vec<&str> = sent.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d"], "refused first: {refused_first}");
        assert!(sent[0].1 > numbers[2], "a number is used once");
        let records = bench.records();
        let firsts: Vec<u64> = records[..3].iter().map(|(seq, _)| *seq).collect();
        let linked: Vec<u64> = records[3..].iter().map(|(_, before)| *before).collect();
        assert_eq!(linked, [firsts[0], firsts[1], firsts[2], 0]);
        assert_eq!(
            bench.refusals(),
            [(firsts[0], true), (firsts[1], true), (firsts[2], true)]
        );
    }
}

#[test]
fn a_refusal_before_its_death_is_known_is_not_repeated_at_once() {
    let mut bench = Bench::running();
    let [first, ..] = bench.ask_three();
    bench.refused(first, RefusalKind::NotRunning);
    bench.ask("d");
    bench.step(Event::Tick);
    assert!(bench.sent.is_empty());
    // Those that were accepted were lost with the process.
    bench.accepted();
    bench.exited(1);
    bench.started(2);
    assert_eq!(bench.sent_names(), ["a", "d"]);
}

#[test]
fn a_refusal_for_want_of_room_waits_and_one_for_good_is_the_end() {
    let mut bench = Bench::running();
    let [a, b, c] = bench.ask_three();
    bench.accepted();
    bench.refused(a, RefusalKind::Full);
    bench.refused(b, RefusalKind::Full);
    bench.refused(c, RefusalKind::Never);
    bench.step(Event::Tick);
    assert!(bench.sent.is_empty());
    bench.now.mono = bench.core.deadline().unwrap();
    bench.step(Event::Tick);
    assert!(bench.sent.is_empty(), "an acknowledgement was due");
    bench.now.mono = bench.core.deadline().unwrap();
    bench.step(Event::Tick);
    assert_eq!(bench.sent_names(), ["a", "b"]);
    assert_eq!(
        bench
            .refusals()
            .iter()
            .map(|(_, again)| *again)
            .collect::<Vec<_>>(),
        [true, true, false]
    );
    // A shim that repeats itself changes nothing.
    bench.refused(a, RefusalKind::Full);
    bench.refused(c, RefusalKind::Full);
    bench.now.mono += 3_600_000_000;
    bench.step(Event::Tick);
    assert!(bench.sent.is_empty());
}

#[test]
fn a_refused_request_survives_the_gateway_and_is_sent_once() {
    // With how much of it in the checkpoint.
    for place in 0..4 {
        let mut bench = Bench::running();
        let roll = |bench: &mut Bench, at| {
            if place == at {
                bench.checkpoint = Some((bench.core.checkpoint(), bench.disk.len()));
            }
        };
        let [a, ..] = bench.ask_three();
        bench.accepted();
        roll(&mut bench, 1);
        bench.exited(1);
        roll(&mut bench, 2);
        bench.refused(a, RefusalKind::NotRunning);
        roll(&mut bench, 3);
        bench.recover();
        bench.hello(Lane::Now, KernelState::Exited);
        bench.hello(Lane::Data, KernelState::Exited);
        assert!(bench.sent.is_empty());
        bench.started(2);
        assert_eq!(bench.sent_names(), ["a"], "{place}");
        bench.recover();
        bench.high = PerLane::default();
        bench.hello(Lane::Now, KernelState::Running);
        bench.hello(Lane::Data, KernelState::Running);
        // This shim has not seen the second gateway's request.
        assert_eq!(bench.sent_names(), ["a"], "{place}");
        assert_eq!(bench.records().len(), 5);
    }
}

#[test]
fn a_refusal_from_before_the_gateway_counts_when_it_is_told_between_the_lanes() {
    let mut bench = Bench::running();
    let [a, b, _] = bench.ask_three();
    bench.recover();
    bench.link += 2;
    bench.hello(Lane::Now, KernelState::Exited);
    bench.link -= 2;
    bench.refused(b, RefusalKind::NotRunning);
    bench.refused(a, RefusalKind::NotRunning);
    bench.hello(Lane::Data, KernelState::Exited);
    assert!(bench.sent.is_empty());
    bench.exited(1);
    bench.started(2);
    assert_eq!(bench.sent_names(), ["a", "b"], "c was lost with the process");
}

#[test]
fn a_record_that_is_gone_ends_its_request() {
    let mut bench = Bench::running();
    let [a, ..] = bench.ask_three();
    bench.accepted();
    let seq = bench.records()[0].0;
    let at = usize::try_from(seq).unwrap() - 1;
    let record = Arc::clone(&bench.disk[at]);
    bench.disk[at] = Arc::new(Record {
        body: "gone".into(),
        ..(*record).clone()
    });
    bench.refused(a, RefusalKind::NotRunning);
    assert_eq!(bench.refusals(), [(seq, true), (seq, false)]);
    bench.disk[at] = record;
    bench.recover();
    bench.hello(Lane::Now, KernelState::Exited);
    bench.hello(Lane::Data, KernelState::Exited);
    bench.exited(1);
    bench.started(2);
    assert!(bench.sent.is_empty());
}

#[test]
fn orders_wait_until_both_lanes_are_back() {
    let mut bench = Bench::running();
    bench.recover();
    bench.order(5, Command::Restart);
    bench.hello(Lane::Now, KernelState::Running);
    bench.order(6, Command::Restart);
    assert_eq!(bench.core.snapshot().phase, Phase::Running);
    assert!(bench.done.iter().all(|(waiter, _)| *waiter == 1));
    bench.orders.clear();
    bench.hello(Lane::Data, KernelState::Running);
    // One process is the answer to both.
    assert_eq!(bench.orders.len(), 1);
    assert_eq!(bench.orders[0].0, Kind::Restart);
    bench.done.clear();
    bench.started(2);
    assert_eq!(bench.done, [(5, Ok(Answer::Done)), (6, Ok(Answer::Done))]);
}

#[test]
fn a_death_that_is_told_between_the_lanes_is_followed_by_one_start() {
    let mut bench = Bench::running();
    bench.recover();
    bench.orders.clear();
    bench.link += 1;
    bench.hello(Lane::Now, KernelState::Exited);
    bench.link -= 1;
    bench.exited(1);
    bench.hello(Lane::Data, KernelState::Exited);
    assert_eq!(bench.orders.len(), 1, "{:?}", bench.orders);
}

#[test]
fn orders_wait_for_a_lane_that_broke_but_not_for_ever() {
    let mut bench = Bench::running();
    bench.done.clear();
    bench.step(Event::LaneClosed(Lane::Now));
    bench.order(5, Command::Restart);
    assert!(bench.done.is_empty());
    while bench.done.is_empty() {
        bench.now.mono = bench.core.deadline().unwrap();
        bench.step(Event::Tick);
    }
    assert_eq!(bench.done, [(5, Err(CommandError::Disconnected))]);
    bench.order(6, Command::Restart);
    bench.step(Event::SandboxGone("gone".into()));
    assert_eq!(bench.done[1..], [(6, Err(CommandError::NotRunning))]);
}
