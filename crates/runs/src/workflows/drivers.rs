//! The state that commands on workflows share with the tasks of their runs.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::definitions::Definitions;
use super::starter::Starter;

/// The runs that continue at this replica.
#[derive(Debug, Default)]
pub(crate) struct Drivers {
    pub(super) open: Mutex<HashMap<String, Driver>>,
    pub(super) definitions: Definitions,
}

/// The task of a run.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) wake: Arc<Notify>,
    pub(super) changed: watch::Sender<()>,
    /// The caller who started it, once it was read.
    pub(super) starter: Option<Starter>,
}

impl Drivers {
    /// Tells the task of a run to look at the store, if it is here.
    pub(super) fn wake(&self, id: &str) {
        if let Some(driver) = self.open.lock().get(id) {
            driver.wake.notify_one();
        }
    }

    /// Tells when something of a run has changed, if its task is here. It ends with the task.
    pub(super) fn changed(&self, id: &str) -> Option<watch::Receiver<()>> {
        self.open.lock().get(id).map(|driver| driver.changed.subscribe())
    }

    pub(super) fn set_starter(&self, id: &str, starter: &Starter) {
        if let Some(driver) = self.open.lock().get_mut(id) {
            driver.starter = Some(starter.clone());
        }
    }

    /// Tells the tasks of runs of these starters to look.
    pub(super) fn wake_of(&self, has_ended: impl Fn(&Starter) -> bool) {
        for driver in self.open.lock().values() {
            if driver.starter.as_ref().is_some_and(&has_ended) {
                driver.wake.notify_one();
            }
        }
    }

    pub(super) fn tell(&self, id: &str) {
        if let Some(driver) = self.open.lock().get(id) {
            driver.changed.send_replace(());
        }
    }
}
