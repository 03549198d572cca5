//! Handles the state that the shim reports when it is connected again.

use himalia_shim_protocol::{Event as ShimEvent, Hello, KernelState, ToGateway};

use super::phase::Phase;
use super::state::Life;

/// Ways to continue once the work of an earlier gateway is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continuation {
    AsItIs,
    /// It is asked whether it is ready.
    Probe,
    /// The command to start again has not arrived. It is given again.
    Restart,
    /// A process runs that the log does not know: a branch.
    TakeRunning(u32),
    /// An earlier gateway had made this sandbox, and was killed before it had started anything there, or before it had
    /// ended the one that it gave up.
    UnusedSandbox,
    /// It stays dead; executions that wait for it end.
    StaysDead,
    /// The caller of its start is gone, and nothing was started.
    NeverStarted,
}

impl Life {
    /// The shim is connected with both lanes. `restarts` is whether a command to start again is on its way, `ready` whether
    /// the process is known to be ready.
    pub(crate) fn reconnected(&mut self, restarts: bool, ready: bool) -> Continuation {
        let (state, incarnation) = self.reported;
        let lives = matches!(state, KernelState::Connecting | KernelState::Running);
        let same = incarnation == self.incarnation;
        let probe = if ready {
            Continuation::AsItIs
        } else {
            Continuation::Probe
        };
        match self.phase {
            Phase::Running if !ready && self.exit.is_none() => Continuation::Probe,
            // The command is given once, also if the death was reported before this.
            Phase::Restarting if state == KernelState::Exited && same && !restarts => Continuation::Restart,
            // A command of a caller who is gone, and it never arrived.
            Phase::Restarting | Phase::Stopping if lives && same => {
                self.phase = Phase::Running;
                self.ordered = None;
                self.reason = None;
                self.stop_deadline = None;
                probe
            }
            Phase::New if lives => Continuation::TakeRunning(incarnation),
            Phase::Dead | Phase::Restarting if state == KernelState::New && self.is_in_unused_sandbox() => {
                Continuation::UnusedSandbox
            }
            Phase::Dead | Phase::Ended => Continuation::StaysDead,
            _ if state == KernelState::New && self.adopted => Continuation::NeverStarted,
            _ => Continuation::AsItIs,
        }
    }

    /// True if this is a new sandbox of an earlier gateway, and the log knows of no process in it.
    fn is_in_unused_sandbox(&self) -> bool {
        self.adopted && self.processes_before > 0 && self.processes_before == self.incarnation
    }

    /// Handles the first hello of an epoch about the kernel with this number on its link.
    pub(crate) fn reported(&mut self, hello: &Hello, kernel: u16) {
        let before = self.processes_before;
        let entry = hello.kernel(kernel);
        self.reported = entry.map_or((KernelState::New, before), |entry| {
            (entry.state, entry.incarnation.saturating_add(before))
        });
    }

    /// A frame of the shim with processes numbered as this log numbers them.
    pub(crate) fn numbered(&self, mut frame: ToGateway) -> ToGateway {
        let before = self.processes_before;
        if before == 0 {
            return frame;
        }
        let incarnation = match &mut frame {
            ToGateway::Message { origin, .. } => &mut origin.incarnation,
            ToGateway::Gap { gap, .. } => &mut gap.incarnation,
            ToGateway::Event { event, .. } => match event {
                ShimEvent::Started(started) => &mut started.incarnation,
                ShimEvent::Exited(exited) => &mut exited.incarnation,
                ShimEvent::Stopped(stopped) => &mut stopped.incarnation,
                ShimEvent::StartFailed(_)
                | ShimEvent::Refused(_)
                | ShimEvent::Bound(_)
                | ShimEvent::Forked(_)
                | ShimEvent::ForkFailed(_)
                | ShimEvent::LinkAdded(_) => return frame,
            },
            ToGateway::Accepted { .. }
            | ToGateway::Heartbeat { .. }
            | ToGateway::Stats { .. }
            | ToGateway::Hello(_) => return frame,
        };
        *incarnation = incarnation.saturating_add(before);
        frame
    }
}
