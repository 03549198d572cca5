//! Bounds and order of starts.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use himalia_link::UnprovenBudget;
use himalia_model::{EngineConfig, KernelId};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::{KernelLimits, Pool};
use crate::Gate;

/// Sessions that wait for a sandbox; a request that finds no room asks again with the next one.
const WANTS: usize = 256;

/// State that starts share: their turns, their limits, and the kernels that were started in advance.
pub(crate) struct StartControl {
    /// One start at a time for each name of a session, one change at a time for each session.
    pub(crate) gate: Arc<Gate>,
    /// Limits of running kernels.
    pub(crate) limits: KernelLimits,
    /// Bounds for connections that have not proven the key of a sandbox.
    pub(crate) unproven: Arc<UnprovenBudget>,
    /// Sessions without a sandbox that a request waits for.
    pub(crate) wants: mpsc::Sender<KernelId>,
    /// By template; filled once the engine is open.
    pub(crate) pools: OnceLock<BTreeMap<String, Pool>>,
    /// Starts under way, and ends of claimed kernels that are not used. A stop waits for them, so that it sees the sandboxes that they make.
    pub(crate) tasks: TaskTracker,
    /// Latest result of the check if new work can be accepted.
    pub(crate) last_check: Mutex<Option<(Instant, Vec<String>)>>,
}

impl StartControl {
    /// The state, and the receiver of sessions that need a sandbox.
    pub(crate) fn new(config: &EngineConfig) -> (Self, mpsc::Receiver<KernelId>) {
        let (wants, wanted) = mpsc::channel(WANTS);
        let control = Self {
            gate: Arc::default(),
            limits: KernelLimits::of(config),
            unproven: Arc::default(),
            wants,
            pools: OnceLock::new(),
            tasks: TaskTracker::new(),
            last_check: Mutex::default(),
        };
        (control, wanted)
    }
}
