//! Errors of forks.

/// Reason why a fork failed, as a stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForkError {
    /// The parent is working on a request, or has requests waiting.
    Busy,
    /// The parent holds something that a fork would break.
    Hazard,
    /// This kernel, or its shim, cannot be forked.
    Unsupported,
    /// The files are larger than the caller's bound for a copy.
    FilesTooLarge,
    /// The branch did not answer.
    ProbeFailed,
    /// Another branch of the same atomic call failed.
    Undone,
    /// Anything else.
    Failed,
}

impl ForkError {
    /// The word in replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "session_busy",
            Self::Hazard => "fork_hazard",
            Self::Unsupported => "unsupported",
            Self::FilesTooLarge => "files_too_large",
            Self::ProbeFailed => "fork_probe_failed",
            Self::Undone => "fork_undone",
            Self::Failed => "fork_failed",
        }
    }
}

/// Something in a process that a fork may break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hazard {
    /// `native-thread`, `process-pool`, `cuda` …
    pub kind: String,
    /// Name of the hazard.
    pub name: String,
    /// For people, one line.
    pub detail: String,
    /// True if it prevents a fork under every policy.
    pub refuses: bool,
}
