//! Callers that wait for the end of a command.

use himalia_shim_protocol::RequestId;

use crate::event::{Answer, CommandError, Effect};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitCondition {
    /// The next process, started by this request.
    Process(RequestId),
    /// Readiness, to be interrupted then.
    Ready,
    /// The kernel has received the data of its claim, by this request.
    Bound(RequestId),
    /// A branch, made by this request.
    Branch(RequestId),
    /// A link, opened by this request.
    Link(RequestId),
}

impl WaitCondition {
    /// The request whose end is awaited.
    pub(crate) fn request(self) -> Option<RequestId> {
        match self {
            Self::Process(id) | Self::Bound(id) | Self::Branch(id) | Self::Link(id) => Some(id),
            Self::Ready => None,
        }
    }

    pub(super) fn is_process(self) -> bool {
        matches!(self, Self::Process(_))
    }
}

/// Callers by what they wait for, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Vec<(u64, WaitCondition)>);

impl Waiters {
    /// A caller waits from now on.
    pub(crate) fn add(&mut self, token: u64, what: WaitCondition) {
        self.0.push((token, what));
    }

    /// True if no caller waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The request for the process that a caller waits for.
    pub(super) fn awaited_process(&self) -> Option<RequestId> {
        self.0.iter().find_map(|(_, what)| match what {
            WaitCondition::Process(id) => Some(*id),
            _ => None,
        })
    }

    /// True if a caller waits for a condition that `which` selects.
    pub(super) fn any(&self, which: impl Fn(WaitCondition) -> bool) -> bool {
        self.0.iter().any(|(_, what)| which(*what))
    }

    /// Answers the callers that `which` selects. `true` if there were any.
    pub(crate) fn answer(
        &mut self,
        which: impl Fn(WaitCondition) -> bool,
        result: &Result<Answer, CommandError>,
        out: &mut Vec<Effect>,
    ) -> bool {
        let before = self.0.len();
        self.0.retain(|(token, what)| {
            let answered = which(*what);
            if answered {
                out.push(Effect::Done(*token, result.clone()));
            }
            !answered
        });
        self.0.len() < before
    }

    /// There is no process, and none comes for those who wait. `reason` is one line.
    pub(super) fn fail(&mut self, reason: &str, out: &mut Vec<Effect>) {
        if self.is_empty() {
            return;
        }
        let failed = CommandError::StartFailed {
            reason: reason.to_owned(),
            stderr: String::new(),
        };
        self.answer(WaitCondition::is_process, &Err(failed), out);
        self.answer(|_| true, &Err(CommandError::NotRunning), out);
    }
}
