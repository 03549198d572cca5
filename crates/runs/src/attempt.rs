//! One attempt to run a skill in a session of its own, whatever has asked for it: a step of a workflow, a schedule or a webhook.
//!
//! Pure: the driver says how far the attempt is and which error it met, and the attempt says what follows. After a kill, the next process
//! reads the stage from what is stored and from the log of the session ([`Attempt::found`]). Code that may have been sent is not sent again
//! unless it is certain that it never ran.

use std::time::Duration;

use himalia_model::EngineError;

/// Time for which an attempt waits for limits, for a session that cannot be reached, or for a log that cannot be read.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);
/// Sessions that an attempt may lose before its code runs.
pub(crate) const MAX_RESTARTS: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// No session is known.
    Start,
    /// The session was started, and the code was not sent.
    Session,
    /// It is written that its code may have been sent.
    Sent,
    /// The execution is known.
    Executing,
}

/// The action after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The same is tried again after a pause.
    Wait,
    /// The code did not run: another session is started, after a pause.
    Restart,
    /// The attempt fails. `again`: another attempt may succeed.
    Fail { again: bool },
    /// The attempt fails: its log is gone, so that its result is unknown.
    Unknown,
}

/// The meaning of an error for an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// A limit, or something that cannot be reached now.
    Busy,
    /// The kernel could not be started, or has died.
    Broken,
    /// A defect of the gateway or its host, such as a disk that cannot be read.
    Defect,
    /// There is no such session, or it has ended.
    Gone,
    /// The log was removed.
    Removed,
    /// The id or the name is taken, by a session that ends.
    Taken,
    /// Anything else: the request itself is wrong, or not allowed.
    Wrong,
}

/// The one table of errors of runs. Which errors a client may repeat is decided by [`EngineError::retryable`].
fn class(error: &EngineError) -> Class {
    match error {
        error if error.retryable() => Class::Busy,
        EngineError::KernelStart { .. } | EngineError::KernelDead { .. } => Class::Broken,
        EngineError::Internal { .. } => Class::Defect,
        EngineError::SessionEnded(_)
        | EngineError::NotFound {
            what: "Kernel" | "Session" | "Execution",
            ..
        } => Class::Gone,
        EngineError::Removed { .. } => Class::Removed,
        EngineError::Conflict { .. } => Class::Taken,
        _ => Class::Wrong,
    }
}

/// The action after an error of this class at this stage, while sessions may be lost.
fn next(class: Class, stage: Stage) -> Next {
    use Stage::{Executing, Sent, Session, Start};
    match (class, stage) {
        (Class::Busy, _) | (Class::Defect, Sent | Executing) => Next::Wait,
        (Class::Broken | Class::Defect | Class::Gone, Start | Session) | (Class::Taken, Start) => {
            Next::Restart
        }
        (Class::Broken, Sent | Executing) => Next::Fail { again: true },
        (Class::Gone | Class::Removed, Sent | Executing) => Next::Unknown,
        (Class::Removed, Start | Session) | (Class::Taken | Class::Wrong, _) => Next::Fail { again: false },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    stage: Stage,
    restarts: u32,
}

impl Attempt {
    /// An attempt that has lost so many sessions.
    pub(crate) fn new(restarts: u32) -> Self {
        Self {
            stage: Stage::Start,
            restarts,
        }
    }

    /// An attempt that another process may have begun. `sent`: it is written that its code may have been sent; `execution`: its execution
    /// is written, or is in the log of its session.
    pub(crate) fn found(restarts: u32, sent: bool, execution: bool) -> Self {
        let stage = match (sent, execution) {
            (_, true) => Stage::Executing,
            (true, false) => Stage::Sent,
            (false, false) => Stage::Start,
        };
        Self { stage, restarts }
    }

    pub(crate) fn stage(self) -> Stage {
        self.stage
    }

    /// Sessions that it has lost.
    pub(crate) fn restarts(self) -> u32 {
        self.restarts
    }

    pub(crate) fn reached(&mut self, stage: Stage) {
        self.stage = self.stage.max(stage);
    }

    /// It is certain that its code did not run: the log of its session has no execution, or the session never had a process.
    pub(crate) fn never_ran(&mut self) {
        self.stage = self.stage.min(Stage::Session);
    }

    /// The action after an error. `waited`: the time that the attempt has waited so far.
    pub(crate) fn failed(&mut self, error: &EngineError, waited: Duration) -> Next {
        let class = class(error);
        let again = !matches!(class, Class::Gone | Class::Removed | Class::Taken | Class::Wrong);
        match next(class, self.stage) {
            Next::Wait if waited >= PATIENCE => Next::Fail { again },
            Next::Restart if self.restarts >= MAX_RESTARTS => Next::Fail { again },
            Next::Restart => {
                *self = Self::new(self.restarts.saturating_add(1));
                Next::Restart
            }
            next => next,
        }
    }
}

#[cfg(test)]
mod sim;

#[cfg(test)]
mod tests {
    use super::*;

    fn not_found(what: &'static str) -> EngineError {
        EngineError::NotFound {
            what,
            id: "x".to_owned(),
        }
    }

    fn conflict() -> EngineError {
        EngineError::Conflict {
            reason: "taken".to_owned(),
        }
    }

    fn dead() -> EngineError {
        EngineError::KernelDead {
            cause: "signal(9)".to_owned(),
        }
    }

    #[test]
    fn the_table_says_what_follows_an_error() {
        use Stage::{Executing, Sent, Session, Start};
        let wait = [Next::Wait; 4];
        let (again, not_again) = (Next::Fail { again: true }, Next::Fail { again: false });
        let (restart, unknown) = (Next::Restart, Next::Unknown);
        for (error, expected) in [
            (EngineError::unavailable("later"), wait),
            (dead(), [restart, restart, again, again]),
            (
                EngineError::internal("reading", "a defect"),
                [restart, restart, Next::Wait, Next::Wait],
            ),
            (not_found("Kernel"), [restart, restart, unknown, unknown]),
            (not_found("Skill"), [not_again; 4]),
            (conflict(), [restart, not_again, not_again, not_again]),
            (EngineError::bad_request("inputs", "wrong"), [not_again; 4]),
        ] {
            for (stage, expected) in [Start, Session, Sent, Executing].into_iter().zip(expected) {
                let mut attempt = Attempt::new(0);
                attempt.reached(stage);
                let next = attempt.failed(&error, Duration::ZERO);
                assert_eq!(next, expected, "{error} at {stage:?}");
                if next == Next::Restart {
                    assert_eq!(attempt, Attempt::new(1));
                }
            }
        }
    }

    #[test]
    fn an_attempt_has_a_bounded_patience() {
        let mut attempt = Attempt::new(MAX_RESTARTS);
        assert_eq!(
            attempt.failed(&dead(), Duration::ZERO),
            Next::Fail { again: true }
        );
        assert_eq!(
            attempt.failed(&not_found("Session"), Duration::ZERO),
            Next::Fail { again: false }
        );
        let busy = EngineError::unavailable("later");
        assert_eq!(attempt.failed(&busy, PATIENCE / 2), Next::Wait);
        assert_eq!(attempt.failed(&busy, PATIENCE), Next::Fail { again: true });
    }
}
