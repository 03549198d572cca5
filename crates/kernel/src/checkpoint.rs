//! A kernel's state as a segment of its journal begins with it, so that recovery reads one segment.

use himalia_model::ExecutionState;
use himalia_shim_protocol::{Lane, PerLane};
use serde::{Deserialize, Serialize};

use super::activity::Activity;
use super::core::Core;
use super::executions::names::Names;
use super::executions::queue::Executions;
use super::life::LifeCheckpoint;
use super::messages::word;
use super::network::NetworkTotals;
use super::prompts::open::Prompts;
use super::requests::checkpoint::RequestsCheckpoint;
use super::returned::ReturnedText;
use super::time_limit::stopwatch::RunningExecution;
use super::tool_calls::ToolCalls;

/// The state as of a place in the journal. JSON; unknown fields of later versions are ignored.
#[derive(Debug, Serialize, Deserialize)]
struct Checkpoint {
    #[serde(flatten)]
    life: LifeCheckpoint,
    #[serde(flatten)]
    requests: RequestsCheckpoint,
    state: u32,
    last_activity: u64,
    kernel_session: String,
    replied: bool,
    heard: bool,
    stored: PerLane<u64>,
    /// The execution under way in the main shell.
    executing: Option<RunningExecution>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    executing_in_subshells: Vec<RunningExecution>,
    executions: Executions,
    names: Names,
    #[serde(default, skip_serializing_if = "NetworkTotals::is_empty")]
    network: NetworkTotals,
    #[serde(default, skip_serializing_if = "Prompts::is_empty")]
    prompts: Prompts,
    #[serde(default, skip_serializing_if = "ToolCalls::is_empty")]
    tool_calls: ToolCalls,
    #[serde(default, skip_serializing_if = "ReturnedText::is_empty")]
    returned: ReturnedText,
}

impl Core {
    /// The state for [`himalia_journal::Journal::roll`]. Only while [`Core::is_written`].
    pub(crate) fn checkpoint(&self) -> Vec<u8> {
        let (replied, heard) = self.readiness.checkpoint();
        let (executing, executing_in_subshells) = self.stopwatch.checkpoint();
        let checkpoint = Checkpoint {
            life: self.life.checkpoint(),
            requests: self.requests.checkpoint(&self.outbox),
            state: word::of_state(self.activity.state),
            last_activity: self.activity.last_micros,
            kernel_session: self.kernel_session.to_string(),
            replied,
            heard,
            stored: PerLane {
                now: self.outbox.position(Lane::Now),
                data: self.outbox.position(Lane::Data),
            },
            executing,
            executing_in_subshells,
            executions: self.executions.for_checkpoint(self.now.mono, self.now.wall),
            names: self.names.clone(),
            network: self.network,
            prompts: self.prompts.for_checkpoint(),
            tool_calls: self.tool_calls.clone(),
            returned: (*self.returned).clone(),
        };
        serde_json::to_vec(&checkpoint).unwrap_or_default()
    }

    /// Takes over the state of a checkpoint, of a core without any. Returns up to which message each lane is in the journal.
    /// One that cannot be read is an error: the journal is from a later version, or not ours.
    pub(super) fn restore(&mut self, checkpoint: &[u8]) -> Result<PerLane<u64>, String> {
        let checkpoint: Checkpoint = serde_json::from_slice(checkpoint).map_err(|error| error.to_string())?;
        let stop_deadline = self.stop_deadline();
        self.life.restore(checkpoint.life, self.now.mono, stop_deadline);
        self.activity = Activity {
            state: word::to_state(checkpoint.state).unwrap_or(ExecutionState::Starting),
            last_micros: checkpoint.last_activity,
        };
        self.kernel_session = checkpoint.kernel_session.into();
        self.names = checkpoint.names;
        self.network = checkpoint.network;
        self.prompts = checkpoint.prompts;
        self.tool_calls = checkpoint.tool_calls;
        self.returned = checkpoint.returned.into();
        let executing = checkpoint.executing.into_iter();
        self.stopwatch
            .restore(executing.chain(checkpoint.executing_in_subshells));
        self.executions = checkpoint.executions;
        self.readiness.restore(checkpoint.replied, checkpoint.heard);
        self.requests.restore(checkpoint.requests);
        Ok(checkpoint.stored)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::bench::settings;
    use crate::core::Core;
    use crate::event::Timestamp;

    #[test]
    fn names_of_a_checkpoint_stay() {
        let exit = json!({
            "incarnation": 2, "pid": 7, "cause": {"kind": "signal", "signal": 9}, "asked": false, "detail": "",
            "stderr_tail": "", "last_data": 3,
        });
        let checkpoint = json!({
            "phase": "running", "incarnation": 2, "crashes": 1, "asked_to_end": true, "reason": "restarted after exit(3)",
            "exit": exit, "stopped": true, "stopped_from_outside": true, "moving": true, "processes_before": 1,
            "loss": {"files": true, "secrets": [], "kernels": [], "branches": []},
            "state": 512, "last_activity": 5, "kernel_session": "s", "replied": true, "heard": false,
            "stored": {"now": 1, "data": 2}, "executing": {"id": {"epoch": 1, "number": 4}, "began": 6},
            "executing_in_subshells": [{"id": {"epoch": 1, "number": 5}, "began": 7, "subshell": "s"}], "open": [],
            "unaccepted": [], "secret_asked": true, "executions": {
                "queue": [], "current": null, "recent": [], "last_incarnation": 1, "served": 2,
            },
            "names": {
                "now": {"incarnation": 0, "names": [], "truncated": false},
                "before": {"incarnation": 0, "names": [], "truncated": false},
            },
            "network": {"connections": 3, "sent_bytes": 5, "received_bytes": 7},
            "tool_calls": {
                "totals": {"calls": 4, "refused": 1, "failed": 1, "unknown": 0, "reply_bytes": 9}, "number": 3,
                "open": {"3": {"tool": "a.b", "owner": 8, "began": 6}},
            },
        });
        let mut core = Core::new(settings(1), Timestamp::default());
        let stored = core.restore(&serde_json::to_vec(&checkpoint).unwrap()).unwrap();
        core.outbox = crate::shim::outbox::Outbox::new(1, 1, stored);
        let again: Value = serde_json::from_slice(&core.checkpoint()).unwrap();
        assert_eq!(again, checkpoint);
    }
}
