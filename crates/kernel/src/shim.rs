//! What the shim says: hello, lifecycle, gaps.

use himalia_journal::NewRecord;
use himalia_model::ExecutionState;
use himalia_shim_protocol::{
    Event as ShimEvent, Gap, Hello, KernelState, Lane, LinkCheck, StartFailed, Started, ToGateway,
};
use serde_json::json;

use super::core::Core;
use super::event::{Answer, CommandError, Effect};
use super::life::{Awaited, Phase, Waiter};
use super::lifecycle::LifecycleRecord;
use super::meta::{RecordKind, RecordMeta};
use super::moving::NEVER_USED;
use super::sandbox_end::StopBy;
use super::writes::Next;

/// How long after it is connected again a kernel is not held to the limit of an execution, microseconds: the shim may
/// have its end to tell.
const SETTLE: u64 = 2_000_000;

impl Core {
    pub(super) fn shim(&mut self, lane: Lane, frame: ToGateway, out: &mut Vec<Effect>) {
        let frame = self.numbered(frame);
        match self.outbox.check(lane, &frame) {
            Some(LinkCheck::Seen) => return,
            Some(LinkCheck::Hole { from, to }) => {
                self.loss(
                    lane,
                    from,
                    to,
                    self.life.incarnation,
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
                self.release();
            }
            ToGateway::Heartbeat { heartbeat, .. } => {
                self.changed |= self.alive != heartbeat.alive;
                self.alive = heartbeat.alive;
            }
            ToGateway::Stats { .. } | ToGateway::Hello(_) => {}
        }
    }

    fn lifecycle(&mut self, lane: Lane, link: u64, event: ShimEvent, out: &mut Vec<Effect>) {
        let refusal = match &event {
            ShimEvent::Refused(refused) => self.judge_refusal(refused),
            _ => (0, false),
        };
        let (incarnation, record) = self.describe(&event, refusal);
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
            ShimEvent::Stopped(stopped) => self.stopped(StopBy::of(&stopped), out),
            ShimEvent::Refused(refused) => self.refused(&refused, refusal.1, out),
            ShimEvent::Bound(bound) => self.bound(bound, out),
            ShimEvent::Forked(forked) => self.forked(forked, out),
            ShimEvent::ForkFailed(failed) => self.fork_failed(failed, out),
            ShimEvent::LinkAdded(added) => self.link_added(added, out),
        }
        self.changed = true;
    }

    fn describe(&self, event: &ShimEvent, (record, again): (u64, bool)) -> (u32, LifecycleRecord) {
        let now = self.life.incarnation;
        match event {
            ShimEvent::Started(Started { incarnation, .. }) => (
                *incarnation,
                LifecycleRecord::Started {
                    incarnation: *incarnation,
                },
            ),
            ShimEvent::StartFailed(failed) => (
                now,
                LifecycleRecord::StartFailed {
                    reason: failed.reason.clone(),
                },
            ),
            ShimEvent::Exited(exited) => (exited.incarnation, LifecycleRecord::Exited(exited.clone())),
            ShimEvent::Stopped(stopped) => {
                let record = LifecycleRecord::Stopped {
                    killed: stopped.killed,
                    left: stopped.left,
                    by: StopBy::of(stopped),
                };
                (stopped.incarnation, record)
            }
            ShimEvent::Bound(bound) => (now, LifecycleRecord::Bound { ok: bound.ok }),
            ShimEvent::Forked(forked) => {
                let (pid, cwd) = (forked.pid, forked.cwd.clone());
                (now, LifecycleRecord::Forked { pid, cwd })
            }
            ShimEvent::ForkFailed(failed) => {
                let reason = failed.reason.clone();
                (now, LifecycleRecord::ForkFailed { reason })
            }
            ShimEvent::LinkAdded(_) => (now, LifecycleRecord::LinkAdded),
            ShimEvent::Refused(refused) => (
                now,
                LifecycleRecord::Refused {
                    reason: refused.reason.clone(),
                    record,
                    again,
                },
            ),
        }
    }

    pub(super) fn started(&mut self, started: &Started, out: &mut Vec<Effect>) {
        if started.incarnation <= self.life.incarnation {
            return;
        }
        if self.life.exit.is_some() {
            // The end of the one before is known, its last output comes under its own incarnation.
            self.settle_exit(out);
        }
        self.met = (KernelState::Running, started.incarnation);
        // The shim says only what changes after the start.
        self.alive = true;
        self.life.incarnation = started.incarnation;
        self.life.since = self.now.mono;
        self.life.told_to_end = false;
        self.life.moving = false;
        self.life.settle_reason();
        self.activity.state = ExecutionState::Starting;
        self.activity.touch(self.now.wall);
        self.readiness = super::readiness::Readiness::default();
        self.held.process_started();
        self.iopub_parent = None;
        if self.life.phase != Phase::Stopping && self.life.phase != Phase::Over {
            self.life.phase = Phase::Running;
        }
        self.stopwatch.reset();
        self.disk.process_started();
        out.push(Effect::ProcessStarted(started.pid, started.path));
        for token in self.life.take(|what| matches!(what, Awaited::Process(_))) {
            out.push(Effect::Done(token, Ok(Answer::Done)));
        }
        if self.outbox.greeted() {
            self.probe();
        }
        self.release();
    }

    fn start_failed(&mut self, failed: &StartFailed, out: &mut Vec<Effect>) {
        let mine = |what| what == Awaited::Process(failed.request);
        let error = CommandError::StartFailed {
            reason: failed.reason.clone(),
            stderr: failed.stderr.clone(),
        };
        let waiting = self.life.take(mine);
        let asked = !waiting.is_empty();
        for token in waiting {
            out.push(Effect::Done(token, Err(error.clone())));
        }
        match self.life.phase {
            Phase::Starting => self.over("start_failed", out),
            Phase::Restarting if self.life.moving => {
                self.give_up_sandbox(format!("start_failed: {}", failed.reason), out);
            }
            Phase::Restarting if asked => self.dead(format!("restart failed: {}", failed.reason), out),
            Phase::Restarting => self.crashed(failed.reason.clone(), out),
            _ => {}
        }
    }

    fn gap(&mut self, lane: Lane, gap: Gap, out: &mut Vec<Effect>) {
        let body = json!({
            "from": gap.from, "to": gap.to, "lane": lane.as_str(), "messages": gap.messages, "bytes": gap.bytes,
            "reason": gap.reason, "parent": self.raw_parent(),
        });
        self.push_gap(lane, gap.to, gap.incarnation, &body);
        self.after_data(lane, out);
    }

    /// Records that links are missing which nobody will bring any more.
    pub(super) fn loss(&mut self, lane: Lane, from: u64, to: u64, incarnation: u32, reason: &str) {
        let body = json!({
            "from": from, "to": to, "lane": lane.as_str(), "messages": to - from + 1, "reason": reason,
            "parent": self.raw_parent(),
        });
        self.push_gap(lane, to, incarnation, &body);
    }

    fn push_gap(&mut self, lane: Lane, link: u64, incarnation: u32, body: &serde_json::Value) {
        let channel = (lane == Lane::Data).then_some(himalia_wire::Channel::Iopub);
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
        let raw = &self.iopub_parent.as_ref()?.raw;
        serde_json::from_slice(raw).ok()
    }

    pub(super) fn push_lifecycle(&mut self, meta: RecordMeta, record: &LifecycleRecord, then: Next) {
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
    pub(super) fn hello(&mut self, hello: &Hello, out: &mut Vec<Effect>) {
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
                self.life.incarnation,
                "acknowledged and lost by the gateway",
            );
        }
        if let Some(entry) = entry {
            self.alive = entry.alive;
        }
        if !self.outbox.has_heard_hello(lane) {
            self.settle_carried(lane, entry);
            if lane == Lane::Now {
                self.met = self.met_in(hello);
            }
            if self.outbox.heard_hello(lane) {
                self.settle_epoch(out);
            }
        }
        self.changed = true;
    }

    /// Both lanes are there for the first time in this epoch. That earlier requests were never accepted must be in the
    /// journal before the shim's marks move on to this epoch.
    fn settle_epoch(&mut self, out: &mut Vec<Effect>) {
        let mut requests: Vec<u64> = self
            .carried
            .now
            .keys()
            .chain(self.carried.data.keys())
            .copied()
            .collect();
        requests.sort_unstable();
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

    /// Goes on with what an earlier gateway had begun.
    pub(super) fn greet(&mut self, out: &mut Vec<Effect>) {
        self.hold_carried();
        let restarts = self.outbox.restarts();
        self.outbox.greet(out);
        // What ended meanwhile is told first.
        self.stopwatch.not_before(self.now.mono.saturating_add(SETTLE));
        self.changed = true;
        let (state, shim_incarnation) = self.met;
        match self.life.phase {
            Phase::Running if !self.readiness.is_ready() && self.life.exit.is_none() => self.probe(),
            // The order to start again may not have arrived. It is given once, also if the death was told before this.
            Phase::Restarting
                if state == KernelState::Exited && shim_incarnation == self.life.incarnation && !restarts =>
            {
                self.order_restart(out);
            }
            // An order of a caller who is gone, and it never arrived.
            Phase::Restarting | Phase::Stopping
                if matches!(state, KernelState::Connecting | KernelState::Running)
                    && shim_incarnation == self.life.incarnation =>
            {
                self.life.phase = Phase::Running;
                self.life.reason = None;
                self.life.stop_deadline = None;
                if !self.readiness.is_ready() {
                    self.probe();
                }
            }
            // Its process was running before its log was begun: a branch.
            Phase::New if matches!(state, KernelState::Connecting | KernelState::Running) => {
                self.take_running(shim_incarnation);
                self.probe();
            }
            // An earlier gateway had made this sandbox, and was killed before it had started anything there, or before it had
            // ended the one that it gave up.
            Phase::Dead | Phase::Restarting if state == KernelState::New && self.never_used() => {
                self.sandbox_gone(NEVER_USED.to_owned(), out);
            }
            // A start whose caller is gone.
            Phase::Dead | Phase::Over => {
                self.executions_lost(&self.life.reason.clone().unwrap_or_default());
            }
            _ if state == KernelState::New && self.adopted => self.over("start_failed", out),
            _ => {}
        }
        self.release();
    }

    /// Adds a waiter.
    pub(super) fn wait(&mut self, token: u64, what: Awaited) {
        self.life.waiters.push(Waiter { token, what });
    }
}
