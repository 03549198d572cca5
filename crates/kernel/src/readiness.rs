//! When a kernel process can be used: it has answered a `kernel_info_request`, and one of its iopub messages has
//! arrived, so that nothing published later can be missed (JEP 65, or the older nudge).

/// Interval of repeated probes while a reply has come but no iopub message, microseconds.
const NUDGE: u64 = 500_000;
/// Interval while nothing has come, and how often at most: a slow kernel finds them all when it wakes.
const PATIENT: u64 = 5_000_000;
const PATIENT_TIMES: u8 = 12;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Readiness {
    pub(super) replied: bool,
    pub(super) heard: bool,
    pub(super) next_nudge: Option<u64>,
    probes: u8,
}

impl Readiness {
    pub(super) fn is_ready(self) -> bool {
        self.replied && self.heard
    }

    /// It was asked as often as it is, and has never replied.
    pub(super) fn gave_up(self) -> bool {
        !self.replied && self.probes >= PATIENT_TIMES
    }

    /// A probe is sent.
    pub(super) fn probed(&mut self, mono: u64) {
        self.probes = self.probes.saturating_add(1);
        self.next_nudge = match (self.is_ready(), self.replied) {
            (true, _) => None,
            (false, true) => Some(mono + NUDGE),
            (false, false) => (self.probes < PATIENT_TIMES).then_some(mono + PATIENT),
        };
    }

    /// A reply to a probe came. `true` when that makes the kernel ready.
    pub(super) fn replied(&mut self, mono: u64) -> bool {
        let before = self.is_ready();
        self.replied = true;
        self.next_nudge = (!self.heard).then_some(mono + NUDGE);
        !before && self.is_ready()
    }

    /// An iopub message came. `true` when that makes the kernel ready.
    pub(super) fn heard(&mut self) -> bool {
        let before = self.is_ready();
        self.heard = true;
        if self.replied {
            self.next_nudge = None;
        }
        !before && self.is_ready()
    }

    /// Whether to probe again now.
    pub(super) fn nudge_due(&self, mono: u64) -> bool {
        self.next_nudge.is_some_and(|at| at <= mono)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_reply_and_iopub_in_either_order() {
        let mut readiness = Readiness::default();
        assert!(!readiness.heard());
        assert!(readiness.replied(0));
        assert!(!readiness.replied(0));
        let mut readiness = Readiness::default();
        assert!(!readiness.replied(0));
        assert!(readiness.heard());
    }

    #[test]
    fn nudges_repeat_until_iopub_is_heard() {
        let mut readiness = Readiness::default();
        readiness.probed(0);
        assert!(!readiness.nudge_due(PATIENT - 1) && readiness.nudge_due(PATIENT));
        readiness.replied(0);
        assert!(!readiness.nudge_due(NUDGE - 1) && readiness.nudge_due(NUDGE));
        readiness.probed(NUDGE);
        assert!(!readiness.nudge_due(NUDGE) && readiness.nudge_due(2 * NUDGE));
        readiness.heard();
        assert!(!readiness.nudge_due(u64::MAX));
    }

    #[test]
    fn a_kernel_that_never_answers_is_left_alone_in_the_end() {
        let mut readiness = Readiness::default();
        for _ in 0..PATIENT_TIMES {
            readiness.probed(0);
        }
        assert!(!readiness.nudge_due(u64::MAX) && readiness.gave_up());
        readiness.replied(0);
        assert!(!readiness.gave_up());
    }
}
