use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use himalia_shim_protocol::shim_link::{Body, ProcessView, WindowLimits};
use himalia_shim_protocol::{
    Event, GapReason, Heartbeat, Lane, Origin, PerLane, ProtocolError, RefusalKind, RequestId, ShimLink,
    Stats, ToGateway, VersionRange,
};
use himalia_wire::Channel;
use tokio::sync::Notify;

use crate::options::Options;
use crate::spill_file::SpillFile;

/// Most frames that are not kept for a later gateway (heartbeat, stats) and wait for the socket; the oldest go first.
const TRANSIENT_MAX: usize = 256;

/// Queue of all messages to the gateway. Adding one never waits.
#[derive(Debug)]
pub(crate) struct Outlet {
    link: RefCell<ShimLink<SpillFile>>,
    transient: RefCell<VecDeque<Bytes>>,
    wake: PerLane<Notify>,
    /// Something is there that may wait for other messages.
    hint: PerLane<Notify>,
    spill_dir: PathBuf,
    limits: PerLane<WindowLimits>,
}

/// When a message is sent, and whether it may be lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Flush {
    /// Output: a gap may mark its loss.
    Lossy,
    /// Something else will follow: it announces that something begins, or is a reply before its idle. It may wait a
    /// moment for that, so that a short cell costs one write and wakes the gateway once.
    Coalesce,
    /// All other messages: they carry state, or a client waits for them.
    Immediate,
}

pub(crate) fn lane_of(channel: Channel) -> Lane {
    match channel {
        Channel::Control => Lane::Now,
        Channel::Shell | Channel::Stdin | Channel::Iopub => Lane::Data,
    }
}

fn spills(dir: &Path) -> PerLane<SpillFile> {
    PerLane {
        now: SpillFile::new(dir),
        data: SpillFile::new(dir),
    }
}

impl Outlet {
    pub(crate) fn new(options: &Options) -> Self {
        let spill_dir = options.spill_dir();
        let mut limits = WindowLimits::PER_LANE;
        limits.data = WindowLimits {
            memory: options.window,
            spill: options.spill_quota,
        };
        limits.now.spill = limits.now.spill.min(options.spill_quota);
        Self {
            link: RefCell::new(ShimLink::new(VersionRange::OURS, spills(&spill_dir))),
            transient: RefCell::default(),
            wake: PerLane::default(),
            hint: PerLane::default(),
            spill_dir,
            limits,
        }
    }

    /// The state machine, for a short look or step.
    pub(crate) fn link<T>(&self, step: impl FnOnce(&mut ShimLink<SpillFile>) -> T) -> T {
        step(&mut self.link.borrow_mut())
    }

    /// Wakes the writer of a lane.
    pub(crate) fn wake(&self, lane: Lane) {
        self.wake[lane].notify_one();
    }

    /// Waits for something to write.
    pub(crate) async fn woken(&self, lane: Lane) {
        self.wake[lane].notified().await;
    }

    /// Takes back a wake-up that has not happened yet: its lane is about to be written anyway.
    pub(crate) fn forget_wake(&self, lane: Lane) {
        let _ = self.wake[lane].notified().now_or_never();
    }

    /// Waits for something that may wait for other messages.
    pub(crate) async fn hinted(&self, lane: Lane) {
        self.hint[lane].notified().await;
    }

    pub(crate) fn add_kernel(&self, kernel: u16) -> Result<(), ProtocolError> {
        self.link(|link| link.add_kernel(kernel, spills(&self.spill_dir), self.limits))
    }

    pub(crate) fn message(&self, kernel: u16, channel: Channel, origin: Origin, frame: Body, flush: Flush) {
        let lane = lane_of(channel);
        let bytes = frame.len();
        let kept = self.link(|link| {
            if let Some(request) = origin
                .answers
                .filter(|_| matches!(channel, Channel::Shell | Channel::Control))
            {
                link.finish(kernel, request);
            }
            link.push_message(kernel, lane, origin, frame, flush == Flush::Lossy)
        });
        match kept {
            Ok(_) if flush == Flush::Coalesce => self.hint[lane].notify_one(),
            Ok(_) => self.wake(lane),
            Err(_) => self.loss(kernel, channel, origin.incarnation, bytes),
        }
    }

    /// Marks a message that is too large to keep.
    pub(crate) fn loss(&self, kernel: u16, channel: Channel, incarnation: u32, bytes: usize) {
        let lane = lane_of(channel);
        let pushed =
            self.link(|link| link.push_loss(kernel, lane, incarnation, bytes as u64, GapReason::TooLarge));
        if let Err(error) = pushed {
            tracing::error!(kernel, "a loss could not be marked: {error}");
        }
        self.wake(lane);
    }

    pub(crate) fn event(&self, kernel: u16, event: Event) {
        if let Err(error) = self.link(|link| link.push_event(kernel, event)) {
            tracing::error!(kernel, "an event could not be kept: {error}");
        }
        self.wake(Lane::Now);
    }

    pub(crate) fn refuse(
        &self,
        kernel: u16,
        lane: Lane,
        request: RequestId,
        kind: RefusalKind,
        reason: &str,
    ) {
        tracing::info!(kernel, number = request.number, "request refused: {reason}");
        let refused = himalia_shim_protocol::RequestRefused {
            request,
            lane,
            kind,
            reason: reason.to_owned(),
        };
        self.link(|link| link.finish(kernel, request));
        self.event(kernel, Event::Refused(refused));
    }

    pub(crate) fn set_process(&self, kernel: u16, view: ProcessView) {
        self.link(|link| link.set_process(kernel, view));
    }

    pub(crate) fn heartbeat(&self, kernel: u16, alive: bool) {
        self.transient(&ToGateway::Heartbeat {
            kernel,
            heartbeat: Heartbeat { alive },
        });
    }

    pub(crate) fn stats(&self, kernel: u16, stats: Stats) {
        self.transient(&ToGateway::Stats { kernel, stats });
    }

    fn transient(&self, packet: &ToGateway) {
        let mut frame = BytesMut::new();
        if packet.encode(&mut frame).is_err() {
            return;
        }
        let mut waiting = self.transient.borrow_mut();
        if waiting.len() >= TRANSIENT_MAX {
            waiting.pop_front();
        }
        waiting.push_back(frame.freeze());
        drop(waiting);
        self.wake(Lane::Now);
    }

    pub(crate) fn take_transient(&self) -> Option<Bytes> {
        self.transient.borrow_mut().pop_front()
    }

    /// Removes messages that are useless on a new connection, because its hello contains the same information.
    pub(crate) fn clear_transient(&self) {
        self.transient.borrow_mut().clear();
    }
}
