//! Native executions of a kernel that is ready, for tests that play its shim and its clients.

use bytes::Bytes;
use himalia_journal::Record;
use himalia_shim_protocol::{KernelState, Kind, Lane, Origin, RequestId, ToGateway};
use himalia_wire::{Channel, Limits, Parts, header, v1};
use serde_json::{Value, json};

use super::bench::Bench;
use super::event::{Answer, Command, CommandError, Event};
use super::executions::records::{End, ExecutionRecord, Language, OnTimeout, Submission, execution_of};
use super::meta::{RecordKind, RecordMeta};
use super::rules::Rules;

pub(super) const TIMEOUT: u64 = 60_000_000;

pub(super) fn submission(code: &str) -> Submission {
    Submission {
        code: code.into(),
        language: Language::Kernel,
        timeout_ms: Some(TIMEOUT / 1000),
        on_timeout: OnTimeout::Interrupt,
        text_chars: 100,
        allow_stdin: true,
        store_history: true,
        expect_incarnation: None,
        key: None,
        max_failures: None,
        caller: "operator".into(),
        client: None,
        trace: None,
        env: std::collections::BTreeMap::new(),
        cwd: None,
        metadata: serde_json::Map::new(),
    }
}

/// A request of an execution: whose, with which code or value, and under which number and header.
fn request(record: &Record) -> Option<(u64, String, u64, Bytes)> {
    if record.kind != RecordKind::Request as u8 {
        return None;
    }
    let meta = RecordMeta::decode(&record.meta);
    let seq = execution_of(meta.owner)?;
    let (_, parts) = v1::decode(&record.body, &Limits::KERNEL).unwrap();
    let content: Value = serde_json::from_slice(&parts.content).unwrap();
    let text = content["code"].as_str().or(content["value"].as_str()).unwrap();
    Some((seq, text.to_owned(), meta.request, parts.header))
}

/// A kernel that is ready, and the side of the shim.
pub(super) struct Play {
    pub(super) bench: Bench,
    pub(super) data: u64,
    pub(super) incarnation: u32,
    /// Metadata of the next messages.
    pub(super) metadata: Value,
}

impl Play {
    pub(super) fn new() -> Self {
        let mut bench = Bench::running();
        bench.core.set_rules(Rules {
            revive: true,
            ..Rules::default()
        });
        bench.core.readiness.restore(true, true);
        bench.done.clear();
        Self {
            bench,
            data: 0,
            incarnation: 1,
            metadata: json!({}),
        }
    }

    pub(super) fn submit(&mut self, submission: Submission) -> Result<Answer, CommandError> {
        self.bench.done.clear();
        self.bench.order(9, Command::Submit(Box::new(submission)));
        assert_eq!(self.bench.done.len(), 1);
        self.bench.done.remove(0).1
    }

    pub(super) fn execute(&mut self, code: &str) -> u64 {
        match self.submit(submission(code)) {
            Ok(Answer::Submitted { seq, repeated: false }) => seq,
            other => panic!("{other:?}"),
        }
    }

    /// Requests to the kernel so far: whose, with which code or value, and under which number and header.
    pub(super) fn sent(&self) -> Vec<(u64, String, u64, Bytes)> {
        let requests = self.bench.disk.iter().filter_map(|record| request(record));
        requests.collect()
    }

    pub(super) fn codes(&self) -> Vec<String> {
        self.sent().into_iter().map(|(_, code, ..)| code).collect()
    }

    /// A message below the latest request.
    pub(super) fn message(&mut self, channel: Channel, msg_type: &str, content: &Value) {
        let requests = self.bench.disk.iter().rev().filter_map(|record| request(record));
        let mut executes =
            requests.filter(|(.., header)| header::peek(header).unwrap().msg_type == "execute_request");
        let (_, _, number, parent) = executes.next().unwrap();
        drop(executes);
        let parts = Parts {
            header: format!(r#"{{"msg_id":"k","msg_type":"{msg_type}","session":"kernel"}}"#).into(),
            parent_header: parent,
            metadata: self.metadata.to_string().into(),
            content: content.to_string().into(),
            buffers: Vec::new(),
        };
        self.data += 1;
        let answers = (channel != Channel::Iopub).then_some(RequestId { epoch: 1, number });
        let frame = ToGateway::Message {
            kernel: 1,
            link: self.data,
            origin: Origin {
                incarnation: self.incarnation,
                answers,
            },
            frame: v1::encode(channel, &parts),
        };
        self.bench.step(Event::Shim(Lane::Data, frame));
    }

    pub(super) fn status(&mut self, state: &str) {
        self.message(Channel::Iopub, "status", &json!({ "execution_state": state }));
    }

    pub(super) fn reply(&mut self, status: &str) {
        self.message(Channel::Shell, "execute_reply", &json!({ "status": status }));
    }

    pub(super) fn run_to(&mut self, status: &str) {
        self.status("busy");
        self.reply(status);
        self.status("idle");
    }

    pub(super) fn wait(&mut self, micros: u64) {
        self.bench.now.mono += micros;
        self.bench.now.wall += micros;
        self.bench.step(Event::Tick);
    }

    /// Ends of executions: number, end, whether they ran, attempts before.
    pub(super) fn ends(&self) -> Vec<(u64, End, bool, u32)> {
        let records = self
            .bench
            .disk
            .iter()
            .filter(|record| record.kind == RecordKind::Execution as u8);
        let ends = records.filter_map(|record| match serde_json::from_slice(&record.body).unwrap() {
            ExecutionRecord::Ended {
                status,
                ran,
                failed_before,
                ..
            } => {
                let seq = execution_of(RecordMeta::decode(&record.meta).owner).unwrap();
                Some((seq, status, ran, failed_before))
            }
            _ => None,
        });
        ends.collect()
    }

    pub(super) fn interrupts(&mut self) -> usize {
        let orders = std::mem::take(&mut self.bench.orders);
        orders.iter().filter(|(kind, _)| *kind == Kind::Interrupt).count()
    }

    /// The next gateway.
    pub(super) fn recover(&mut self) {
        self.bench.recover();
        self.bench.core.set_rules(Rules {
            revive: true,
            ..Rules::default()
        });
        self.bench.core.readiness.restore(true, true);
        for lane in Lane::ALL {
            self.bench.hello(lane, KernelState::Running);
        }
    }
}
