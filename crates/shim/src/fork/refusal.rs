//! Reason why a fork was refused.

use himalia_shim_protocol::{ForkFailure, Hazard};

/// Reason why a fork was refused.
pub(super) struct Refusal {
    pub(super) code: ForkFailure,
    pub(super) reason: String,
    pub(super) hazards: Vec<Hazard>,
}

pub(super) fn refusal(code: ForkFailure, reason: impl Into<String>) -> Refusal {
    Refusal {
        code,
        reason: reason.into(),
        hazards: Vec::new(),
    }
}

pub(super) fn not_running() -> Refusal {
    refusal(ForkFailure::NotRunning, "the kernel is not running")
}
