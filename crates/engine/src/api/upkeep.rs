//! Commands on the gateway as a whole: its state, the removal of old things, and its stop.

use std::sync::atomic::Ordering;

use crate::access::Object;
use himalia_model::{Action, Collected, EngineError, GatewayStatus, Principal, from_micros};
use himalia_session::WHOLE;

use super::{Commands, Drain};
use crate::access::authorise;

impl Commands {
    pub(crate) async fn collect(
        &self,
        principal: &Principal,
        dry_run: bool,
    ) -> Result<Collected, EngineError> {
        self.allow(principal, Action::Delete, Object::Upkeep)?;
        self.inner.check_open()?;
        self.inner.collect(dry_run, WHOLE).await
    }

    pub(crate) fn status(&self, principal: &Principal) -> Result<GatewayStatus, EngineError> {
        // Asking for the status is no activity.
        authorise(principal, Action::Read, Object::Gateway)?;
        let mut all = self.inner.registry.all_unordered();
        all.retain(|handle| principal.sees(&handle.session().owner));
        let kernels = all
            .iter()
            .map(|handle| handle.last_activity.load(Ordering::Relaxed))
            .max();
        // The commands of a principal are shown to no other one.
        let commands = if principal.is_operator() {
            self.inner.last_command()
        } else {
            u64::try_from(self.inner.started().unix_timestamp_nanos() / 1000).unwrap_or(0)
        };
        let last = commands.max(kernels.unwrap_or(0));
        Ok(GatewayStatus {
            started: self.inner.started(),
            last_activity: from_micros(last),
            kernels: u32::try_from(all.len()).unwrap_or(u32::MAX),
            connections: all
                .iter()
                .map(|handle| handle.connections.load(Ordering::Relaxed))
                .sum(),
        })
    }

    pub(crate) async fn drain(&self, principal: &Principal, drain: Drain) -> Result<(), EngineError> {
        self.allow(principal, Action::Delete, Object::Gateway)?;
        self.inner.stop(drain == Drain::StopKernels).await
    }
}
