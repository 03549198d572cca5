//! Messages of the gateway on their way to a kernel, and those that wait for its sockets.

use bytes::Bytes;
use himalia_shim_protocol::{KernelState, Lane, RefusalKind, RequestId};
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits};

use super::Kernel;
use super::sockets::Outlets;
use crate::outlet::lane_of;

/// Messages that wait for the sockets of a starting kernel, and their bytes. More than the gateway sends without an
/// answer, as long as it gives no notices.
const WAITING_MAX: usize = 2048;
const WAITING_BYTES: usize = 64 << 20;
/// Refusal of a message while there is no process.
pub(super) const NOT_RUNNING: &str = "the kernel is not running";

/// A message that came before the sockets were there.
#[derive(Debug)]
pub(super) struct WaitingMessage {
    lane: Lane,
    request: RequestId,
    frame: Frame,
}

impl Kernel {
    /// Passes a message of the gateway on. What cannot be passed on is refused with a reason.
    pub(crate) fn send(&self, lane: Lane, request: RequestId, frame: Bytes) {
        let refuse = |kind, reason: &str| self.refuse(lane, request, kind, reason);
        let frame = match Frame::parse(frame, &Limits::KERNEL) {
            Ok(frame) => frame,
            Err(error) => return refuse(RefusalKind::Never, &error.to_string()),
        };
        let channel = frame.channel();
        if channel == Channel::Iopub || lane_of(channel) != lane {
            let reason = format!("{} does not belong on lane {lane}", channel.as_str());
            return refuse(RefusalKind::Never, &reason);
        }
        match self.view.get().state {
            KernelState::Running | KernelState::Stopping => self.pass(lane, request, &frame),
            state if state == KernelState::Connecting || self.starting.get() > 0 => {
                let mut waiting = self.waiting.borrow_mut();
                let bytes: usize = waiting.iter().map(|other| other.frame.bytes().len()).sum();
                if waiting.len() >= WAITING_MAX || bytes + frame.bytes().len() > WAITING_BYTES {
                    drop(waiting);
                    let reason = "the kernel is starting and too many messages wait for it";
                    return refuse(RefusalKind::Full, reason);
                }
                waiting.push(WaitingMessage {
                    lane,
                    request,
                    // The received bytes would keep the whole read buffer.
                    frame: frame.to_unshared(),
                });
            }
            _ => refuse(RefusalKind::NotRunning, NOT_RUNNING),
        }
    }

    fn pass(&self, lane: Lane, request: RequestId, frame: &Frame) {
        let channel = frame.channel();
        let header = frame.peek().ok();
        let answered = matches!(channel, Channel::Shell | Channel::Control)
            && header
                .as_ref()
                .is_some_and(|header| header.msg_type.ends_with("_request"));
        if channel == Channel::Shell && header.is_some_and(|header| header.msg_type == "execute_request") {
            // What earlier code wrote explains no death from here on.
            self.tail.borrow().forget();
        }
        if answered && self.echoes.get() != Some(false) {
            self.outlet.link(|link| link.track(self.number, request));
        }
        let sent = match &mut *self.outlets.borrow_mut() {
            Some(outlets) => outlets.send(channel, Some(request), &frame.to_parts()),
            None => Err((RefusalKind::NotRunning, NOT_RUNNING.to_owned())),
        };
        match sent {
            Err((kind, reason)) => self.refuse(lane, request, kind, &reason),
            Ok(()) if answered && channel == Channel::Shell && !self.busy.replace(true) => self.linger.want(),
            Ok(()) => {}
        }
    }

    /// The sockets are there: what waited goes first.
    pub(super) fn connected(&self, outlets: Outlets) {
        *self.outlets.borrow_mut() = Some(outlets);
        self.set_state(KernelState::Running);
        for WaitingMessage { lane, request, frame } in self.waiting.take() {
            self.pass(lane, request, &frame);
        }
    }

    /// The process is gone: what waited is refused.
    pub(super) fn gone(&self) {
        self.pid.set(None);
        self.outlets.borrow_mut().take();
        self.private.clear();
        self.refuse_waiting();
    }

    /// An ordered start is done, in whatever way.
    pub(super) fn start_is_done(&self) {
        self.starting.set(self.starting.get().saturating_sub(1));
        if self.starting.get() == 0 && self.view.get().state != KernelState::Connecting {
            self.refuse_waiting();
        }
    }

    fn refuse_waiting(&self) {
        for WaitingMessage { lane, request, .. } in self.waiting.take() {
            self.refuse(lane, request, RefusalKind::NotRunning, NOT_RUNNING);
        }
    }

    pub(super) fn refuse(&self, lane: Lane, request: RequestId, kind: RefusalKind, reason: &str) {
        self.outlet.refuse(self.number, lane, request, kind, reason);
    }
}
