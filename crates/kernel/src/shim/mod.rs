//! The link to the shim: what the shim says (hello, lifecycle, gaps).
//!
//! [`outbox::Outbox`] knows which lanes are connected, what may be sent, and what is to be acknowledged.

pub(super) mod outbox;

use himalia_journal::NewRecord;
use himalia_shim_protocol::{Event as ShimEvent, Gap, Hello, Lane, LinkCheck, RequestId, ToGateway};
use serde_json::json;

use crate::core::Core;
use crate::event::Effect;
use crate::life::reconnect::Continuation;
use crate::life::records::{LifecycleRecord, StopBy};
use crate::meta::{RecordKind, RecordMeta};
use crate::writes::Next;

/// Time after a reconnection without the limit of executions, in microseconds: the shim may have an end to report.
const RECONNECT_GRACE: u64 = 2_000_000;

/// Reason why a new, unused sandbox is given up.
const NEVER_USED: &str = "sandbox_lost: it was never used";

impl Core {
    pub(crate) fn shim(&mut self, lane: Lane, frame: ToGateway, out: &mut Vec<Effect>) {
        let frame = self.life.numbered(frame);
        match self.outbox.check(lane, &frame) {
            Some(LinkCheck::Seen) => return,
            Some(LinkCheck::Hole { from, to }) => {
                self.loss(
                    lane,
                    from,
                    to,
                    self.life.incarnation(),
                    "lost between sandbox and gateway",
                );
            }
            Some(LinkCheck::Next) | None => {}
        }
        match frame {
            ToGateway::Message {
                link, origin, frame, ..
            } => self.message(lane, link, origin, frame, out),
            ToGateway::Event { link, event, .. } => self.lifecycle(lane, link, event, out),
            ToGateway::Gap { gap, .. } => self.gap(lane, gap, out),
            ToGateway::Accepted { number, .. } => {
                self.outbox.accepted(lane, number);
                let epoch = self.settings.epoch;
                self.requests
                    .accepted(lane, RequestId { epoch, number }, self.now.wall);
                self.release();
            }
            ToGateway::Heartbeat { heartbeat, .. } => {
                self.changed |= self.readiness.heartbeat(heartbeat.alive);
            }
            ToGateway::Stats { .. } | ToGateway::Hello(_) => {}
        }
    }

    fn lifecycle(&mut self, lane: Lane, link: u64, event: ShimEvent, out: &mut Vec<Effect>) {
        let refusal = match &event {
            ShimEvent::Refused(refused) => self.judge_refusal(refused),
            _ => (0, false),
        };
        let incarnation = match &event {
            ShimEvent::Started(started) => started.incarnation,
            ShimEvent::Exited(exited) => exited.incarnation,
            ShimEvent::Stopped(stopped) => stopped.incarnation,
            _ => self.life.incarnation(),
        };
        let record = LifecycleRecord::of(&event, refusal);
        let meta = RecordMeta {
            kernel: self.settings.kernel,
            lane: Some(lane),
            incarnation,
            link,
            ..RecordMeta::default()
        };
        self.push_lifecycle(meta, &record, Next::Stored(lane, link));
        match event {
            ShimEvent::Started(started) => self.started(&started, out),
            ShimEvent::StartFailed(failed) => self.start_failed(&failed, out),
            ShimEvent::Exited(exited) => self.exited(exited, out),
            ShimEvent::Stopped(stopped) => self.stop_completed(StopBy::of(&stopped), out),
            ShimEvent::Refused(refused) => self.refused(&refused, refusal.1, out),
            ShimEvent::Bound(bound) => self.bound(bound, out),
            ShimEvent::Forked(forked) => self.forked(forked, out),
            ShimEvent::ForkFailed(failed) => self.fork_failed(failed, out),
            ShimEvent::LinkAdded(added) => self.link_added(added, out),
        }
        self.changed = true;
    }

    fn gap(&mut self, lane: Lane, gap: Gap, out: &mut Vec<Effect>) {
        let body = json!({
            "from": gap.from, "to": gap.to, "lane": lane.as_str(), "messages": gap.messages, "bytes": gap.bytes,
            "reason": gap.reason, "parent": self.raw_parent(),
        });
        self.push_gap(lane, gap.to, gap.incarnation, &body);
        self.after_data(lane, out);
    }

    /// Records that links are missing which will not come any more.
    pub(crate) fn loss(&mut self, lane: Lane, from: u64, to: u64, incarnation: u32, reason: &str) {
        let body = json!({
            "from": from, "to": to, "lane": lane.as_str(), "messages": to - from + 1, "reason": reason,
            "parent": self.raw_parent(),
        });
        self.push_gap(lane, to, incarnation, &body);
    }

    fn push_gap(&mut self, lane: Lane, link: u64, incarnation: u32, body: &serde_json::Value) {
        let channel = (lane == Lane::Data).then_some(himalia_wire::Channel::Iopub);
        if channel.is_some() {
            self.requests.output_lost();
        }
        let kernel = self.settings.kernel;
        let meta = RecordMeta {
            kernel,
            channel,
            lane: Some(lane),
            incarnation,
            link,
            ..RecordMeta::default()
        };
        let record = NewRecord {
            kind: RecordKind::Gap as u8,
            meta: meta.encode(),
            body: body.to_string().into(),
        };
        self.writes.push(record, Next::Stored(lane, link));
    }

    fn raw_parent(&self) -> Option<&serde_json::value::RawValue> {
        serde_json::from_slice(self.requests.latest_parent()?).ok()
    }

    pub(crate) fn push_lifecycle(&mut self, meta: RecordMeta, record: &LifecycleRecord, then: Next) {
        let kind = RecordKind::Lifecycle as u8;
        self.writes.push(
            NewRecord {
                kind,
                meta: meta.encode(),
                body: record.to_body(),
            },
            then,
        );
    }

    /// A hello of a lane: where both sides stand, and what of earlier epochs is still to be done.
    pub(crate) fn hello(&mut self, hello: &Hello, out: &mut Vec<Effect>) {
        let lane = hello.lane;
        let entry = hello.kernel(self.settings.kernel);
        let resumed = self.outbox.hello(lane, entry, out);
        if resumed.rewound {
            tracing::warn!(
                lane = lane.as_str(),
                "the shim is behind what is stored; its numbers are taken as new"
            );
        }
        if let Some((from, to)) = resumed.lost {
            self.loss(
                lane,
                from,
                to,
                self.life.incarnation(),
                "acknowledged and lost by the gateway",
            );
        }
        if let Some(entry) = entry {
            self.readiness.heartbeat(entry.alive);
        }
        if !self.outbox.has_heard_hello(lane) {
            self.requests.confirm_carried(lane, entry);
            if lane == Lane::Now {
                self.life.reported(hello, self.settings.kernel);
            }
            if self.outbox.heard_hello(lane) {
                self.begin_epoch(out);
            }
        }
        self.changed = true;
    }

    /// Begins an epoch when both lanes are there for the first time. A record that earlier requests were never accepted must be in the journal before
    /// the shim's marks move on to this epoch.
    fn begin_epoch(&mut self, out: &mut Vec<Effect>) {
        let requests = self.requests.carried_records();
        if requests.is_empty() {
            self.greet(out);
            return;
        }
        let meta = RecordMeta {
            kernel: self.settings.kernel,
            synthetic: true,
            ..RecordMeta::default()
        };
        self.push_lifecycle(meta, &LifecycleRecord::Carried { requests }, Next::Greet);
    }

    /// Continues what an earlier gateway had begun.
    pub(crate) fn greet(&mut self, out: &mut Vec<Effect>) {
        self.requests.hold_carried();
        let restarts = self.outbox.restarts();
        self.outbox.greet(out);
        // The shim reports first what ended meanwhile.
        self.stopwatch
            .not_before(self.now.mono.saturating_add(RECONNECT_GRACE));
        self.changed = true;
        match self.life.reconnected(restarts, self.readiness.is_ready()) {
            Continuation::AsItIs => {}
            Continuation::Probe => self.probe(),
            Continuation::Restart => drop(self.order_restart(out)),
            Continuation::TakeRunning(incarnation) => {
                self.take_running(incarnation);
                self.probe();
            }
            Continuation::UnusedSandbox => self.sandbox_gone(NEVER_USED.to_owned(), out),
            Continuation::StaysDead => self.executions_lost(&self.life.cause()),
            Continuation::NeverStarted => self.end_kernel("start_failed", out),
        }
        self.release();
    }
}
