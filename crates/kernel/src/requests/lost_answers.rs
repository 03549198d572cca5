//! Requests of clients that were lost with a process get an error reply in its name, so that no client waits for ever.
//!
//! The kernel has begun with some: they are answered when the process has ended. Of the others the shim may still say that they never
//! ran, and then they go to the next process: they are answered if it has not said so for a while.

use std::sync::Arc;

use himalia_journal::{NewRecord, Record};
use himalia_shim_protocol::RequestId;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits};
use serde_json::{Value, json};

use super::ledger::Entry;
use super::state::Requests;
use crate::core::Core;
use crate::event::Effect;
use crate::executions::progress::VERDICT_WAIT;
use crate::life::Phase;
use crate::messages::word;
use crate::meta::{RecordKind, RecordMeta};
use crate::requests::kind::RequestKind;
use crate::synthetic;
use crate::writes::Next;

const NAME: &str = "KernelDied";

impl Core {
    /// When the next lost request is answered, monotonic microseconds.
    pub(crate) fn lost_deadline(&self) -> Option<u64> {
        self.requests.lost.deadline()
    }

    /// Answers lost requests whose time has come. Their headers are in the journal.
    pub(crate) fn answer_lost(&mut self, out: &mut Vec<Effect>) {
        let (requests, mono) = (&mut self.requests, self.now.mono);
        let (ledger, connected) = (&requests.ledger, self.outbox.greeted());
        requests.lost.due.retain(|id, due| {
            let Some(entry) = ledger.lost(*id) else {
                return false;
            };
            if due.is_none_or(|due| due > mono) {
                return true;
            }
            if entry.busy || connected {
                *due = None;
                out.push(Effect::Fetch(entry.seq));
            } else {
                // The shim can say nothing.
                *due = Some(mono.saturating_add(VERDICT_WAIT));
            }
            true
        });
    }

    /// The record of a request that may be a lost one. `false` if it is not.
    pub(super) fn fetched_lost(&mut self, seq: u64, record: Option<&Arc<Record>>) -> bool {
        let requests = &mut self.requests;
        let id = requests.ledger.of_record(seq);
        let Some(id) = id.filter(|id| requests.lost.due.get(id) == Some(&None)) else {
            return false;
        };
        requests.lost.remove(id);
        // A shim that takes it back now is not believed.
        let entry = requests.ledger.take(id);
        let frame = record.and_then(|record| Frame::parse(record.body.clone(), &Limits::KERNEL).ok());
        if let (Some(entry), Some(frame)) = (entry, frame) {
            self.write_lost(id, &entry, &frame);
        }
        true
    }

    fn write_lost(&mut self, id: RequestId, entry: &Entry, request: &Frame) {
        let Ok(header) = request.peek() else { return };
        let Some(name) = header.msg_type.strip_suffix("_request") else {
            return;
        };
        let cause = self.life.reason().unwrap_or("restart");
        let value =
            format!("the kernel's process ended before it answered ({cause}); its variables are lost");
        let error = json!({"ename": NAME, "evalue": value, "traceback": [format!("{NAME}: {value}")]});
        let mut reply = error.clone();
        reply["status"] = "error".into();
        let idle = json!({"execution_state": "idle"});
        let mut answers = Vec::new();
        if entry.kind == RequestKind::Execute {
            reply["execution_count"] = 0.into();
            reply["user_expressions"] = json!({});
            let content = serde_json::from_slice::<Value>(request.content()).unwrap_or_default();
            if content["silent"] != true {
                answers.push((Channel::Iopub, "error".to_owned(), error));
            }
        }
        answers.push((entry.channel, format!("{name}_reply"), reply));
        // A dead kernel is not idle.
        if !matches!(self.life.phase(), Phase::Dead | Phase::Ended) {
            answers.push((Channel::Iopub, "status".to_owned(), idle));
        }
        for (channel, msg_type, content) in answers {
            let is_reply = channel != Channel::Iopub;
            let mut meta = RecordMeta {
                kernel: self.settings.kernel,
                channel: Some(channel),
                synthetic: true,
                incarnation: self.life.incarnation(),
                owner: if is_reply { entry.owner } else { 0 },
                word: if is_reply { word::REPLY } else { 0 },
                ..RecordMeta::default()
            };
            meta.set_request_id(id);
            let session = &self.kernel_session;
            let body = synthetic::answer(session, channel, &msg_type, request.header(), &content);
            let record = NewRecord {
                kind: RecordKind::Message as u8,
                meta: meta.encode(),
                body,
            };
            self.writes.push(record, Next::Nothing);
        }
    }
}

impl Requests {
    /// All records are read: what earlier gateways left without an answer gets one.
    pub(crate) fn resume_lost(&mut self, mono: u64) {
        for (id, entry) in self.ledger.iter_lost() {
            self.lost.add(id, entry, mono);
        }
    }
}
