//! A state machine without a disk and a shim, for tests that play both.

use std::sync::Arc;

use bytes::Bytes;
use himalia_journal::Record;
use himalia_shim_protocol::{
    Cause, Event as ShimEvent, Hello, KernelEntry, KernelExited, KernelSpec, KernelStarted, KernelState,
    KernelStopped, Kind, Lane, LinkRange, Origin, PerLane, RefusalKind, RequestId, RequestMarks,
    RequestRefused, ToGateway, VersionRange,
};
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits, Parts, header, v1};
use serde_json::{Value, json};

use super::core::{Core, Settings};
use super::event::{Answer, Command, CommandError, Effect, Event, Request, Timestamp};
use super::life::records::LifecycleRecord;
use super::meta::{RecordKind, RecordMeta};
use super::requests::kind::{RequestKind, parent_key};

const KERNEL: u16 = 1;

/// A core with a disk that never fails, and what it wanted done.
pub(super) struct Bench {
    pub(super) core: Core,
    pub(super) now: Timestamp,
    pub(super) epoch: u64,
    pub(super) disk: Vec<Arc<Record>>,
    pub(super) checkpoint: Option<(Vec<u8>, usize)>,
    /// Messages that were sent: their `msg_id` and number. The engine's own are left out.
    pub(super) sent: Vec<(String, u64)>,
    /// Answers to questions that were sent, as they went out.
    pub(super) answers: Vec<Bytes>,
    pub(super) orders: Vec<(Kind, u64)>,
    pub(super) done: Vec<(u64, Result<Answer, CommandError>)>,
    /// What is found out about a death.
    pub(super) oom: bool,
    /// How often the space of the files was to be measured.
    pub(super) measured: u32,
    pub(super) link: u64,
    pub(super) high: PerLane<u64>,
}

impl Bench {
    /// A kernel whose first process runs.
    pub(super) fn running() -> Self {
        let now = Timestamp { mono: 1, wall: 1 };
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
        message: (Channel, &str),
        msg_id: &str,
        answers: Option<u64>,
        content: &Value,
    ) {
        let parent = json!({ "msg_id": msg_id, "msg_type": "execute_request", "session": "client" });
        self.says_below(link, message, &parent, answers, content);
    }

    /// The same below a request with this header.
    pub(super) fn says_below(
        &mut self,
        link: u64,
        (channel, msg_type): (Channel, &str),
        parent: &Value,
        answers: Option<u64>,
        content: &Value,
    ) {
        let parts = Parts {
            header: format!(r#"{{"msg_id":"k","msg_type":"{msg_type}","session":"kernel"}}"#).into(),
            parent_header: parent.to_string().into(),
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
            versions: VersionRange::OURS,
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
        let started: KernelStarted = serde_json::from_value(json!({
            "pid": 1, "incarnation": incarnation, "start_ms": 0, "request": {"epoch": 1, "number": 1},
            "path": "cold",
        }))
        .unwrap();
        self.event(ShimEvent::Started(started));
    }

    pub(super) fn exited(&mut self, incarnation: u32) {
        self.event(ShimEvent::Exited(KernelExited {
            incarnation,
            pid: 1,
            cause: Cause::Signal { signal: 9 },
            asked: false,
            detail: String::new(),
            stderr_tail: String::new(),
            last_data: 0,
            usage: None,
            out_of_memory: false,
        }));
    }

    /// The shim ends the process because it was itself asked to end.
    pub(super) fn ended_by_shim(&mut self, incarnation: u32) {
        self.event(ShimEvent::Exited(KernelExited {
            incarnation,
            pid: 1,
            cause: Cause::Exit { code: 0 },
            asked: true,
            detail: String::new(),
            stderr_tail: String::new(),
            last_data: 0,
            usage: None,
            out_of_memory: false,
        }));
    }

    /// A stop is complete; without a request it was the shim's own.
    pub(super) fn stopped(&mut self, incarnation: u32, request: Option<RequestId>) {
        self.event(ShimEvent::Stopped(KernelStopped {
            incarnation,
            killed: 0,
            left: 0,
            request,
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
        self.event(ShimEvent::Refused(RequestRefused {
            request: RequestId { epoch: 1, number },
            lane: Lane::Data,
            kind,
            reason: "no".into(),
        }));
    }

    /// Because there was no process.
    pub(super) fn refused_all(&mut self, numbers: &[u64]) {
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
            kind: RequestKind::Execute,
            parent: parent_key(msg_id, "client"),
            frame: Frame::new(Channel::Shell, &parts),
            trace: None,
        }));
    }

    /// Asks a, b and c; gives their numbers.
    pub(super) fn ask_three(&mut self) -> [u64; 3] {
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
    pub(super) fn refusals(&self) -> Vec<(u64, bool)> {
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
    pub(super) fn records(&self) -> Vec<(u64, u64)> {
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
        message_bytes: Limits::KERNEL.message_bytes,
    }
}
