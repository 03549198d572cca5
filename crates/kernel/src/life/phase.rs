//! Phase of a kernel.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No process was asked for yet.
    New,
    /// The first process was asked for.
    Starting,
    Running,
    /// The next process was asked for.
    Restarting,
    /// The end was asked for.
    Stopping,
    /// It ended without having been asked to. It can be restarted while its sandbox lives.
    Dead,
    #[serde(rename = "over")]
    Ended,
}
