//! Execution state and last activity, as `jupyter_server` derives them (`MappingKernelManager.start_watching_activity`), with one
//! difference: a kernel is idle when it works on none of its requests. Subshells and the control channel finish requests while a cell
//! runs.

use himalia_model::ExecutionState;

/// Message types that do not count as activity (`untracked_message_types`).
const UNTRACKED: &[&str] = &[
    "comm_info_request",
    "comm_info_reply",
    "kernel_info_request",
    "kernel_info_reply",
    "shutdown_request",
    "shutdown_reply",
    "interrupt_request",
    "interrupt_reply",
    "debug_request",
    "debug_reply",
    "stream",
    "display_data",
    "update_display_data",
    "execute_input",
    "execute_result",
    "error",
    "status",
    "clear_output",
    "debug_event",
    "input_request",
    "input_reply",
];

/// True if messages of this type, or answers to it, are activity.
pub(crate) fn tracked(msg_type: &str) -> bool {
    !UNTRACKED.contains(&msg_type)
}

/// State and time of the latest activity, both in the kernel's own terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Activity {
    pub(crate) state: ExecutionState,
    /// Microseconds since 1970, UTC.
    pub(crate) last_micros: u64,
}

impl Activity {
    pub(crate) fn new(now_micros: u64) -> Self {
        Self {
            state: ExecutionState::Starting,
            last_micros: now_micros,
        }
    }

    /// One iopub message.
    ///
    /// `parent_tracked` is whether the parent's type is tracked; a message without parent counts as tracked, as in
    /// `jupyter_server`, where `None` is not in the list. `status` is the content's `execution_state` of a `status`. `works` is
    /// whether the kernel works on a request after it.
    pub(crate) fn iopub(
        &mut self,
        msg_type: &str,
        parent_tracked: bool,
        status: Option<&str>,
        works: bool,
        now_micros: u64,
    ) {
        if parent_tracked || tracked(msg_type) || self.state == ExecutionState::Busy {
            self.touch(now_micros);
        }
        let Some(status) = status else { return };
        if parent_tracked {
            if let Some(state) = from_wire(status).filter(|state| !works || *state != ExecutionState::Idle) {
                self.state = state;
            }
        } else if self.state == ExecutionState::Starting && status != "starting" {
            // What follows a start is idle, unless a tracked message says otherwise.
            self.state = ExecutionState::Idle;
        }
    }

    /// Something happened now. Time never goes back.
    pub(crate) fn touch(&mut self, now_micros: u64) {
        self.last_micros = self.last_micros.max(now_micros);
    }
}

/// The states that a kernel may announce. Others are ignored: clients refuse them too.
fn from_wire(status: &str) -> Option<ExecutionState> {
    match status {
        "starting" => Some(ExecutionState::Starting),
        "idle" => Some(ExecutionState::Idle),
        "busy" => Some(ExecutionState::Busy),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity() -> Activity {
        Activity::new(1)
    }

    #[test]
    fn a_debug_idle_does_not_flip_a_busy_kernel() {
        let mut activity = activity();
        activity.iopub("status", true, Some("busy"), false, 10);
        activity.iopub("status", tracked("debug_request"), Some("busy"), false, 11);
        activity.iopub("status", tracked("debug_request"), Some("idle"), false, 12);
        assert_eq!(activity.state, ExecutionState::Busy);
        activity.iopub("status", tracked("execute_request"), Some("idle"), false, 13);
        assert_eq!(activity.state, ExecutionState::Idle);
    }

    #[test]
    fn an_untracked_status_ends_starting_as_idle() {
        let mut activity = activity();
        activity.iopub("status", true, Some("starting"), false, 2);
        assert_eq!(activity.state, ExecutionState::Starting);
        activity.iopub("status", tracked("kernel_info_request"), Some("busy"), false, 3);
        assert_eq!(activity.state, ExecutionState::Idle);
    }

    #[test]
    fn polls_are_no_activity_and_cells_are() {
        let mut activity = activity();
        activity.state = ExecutionState::Idle;
        activity.iopub("status", tracked("kernel_info_request"), Some("idle"), false, 50);
        activity.iopub("stream", tracked("debug_request"), None, false, 60);
        assert_eq!(activity.last_micros, 1);
        activity.iopub("stream", tracked("execute_request"), None, false, 70);
        assert_eq!(activity.last_micros, 70);
        activity.iopub("comm_msg", tracked("debug_request"), None, false, 80);
        assert_eq!(activity.last_micros, 80);
    }

    #[test]
    fn everything_counts_while_busy() {
        let mut activity = activity();
        activity.state = ExecutionState::Busy;
        activity.iopub("stream", false, None, false, 9);
        assert_eq!(activity.last_micros, 9);
    }
}
