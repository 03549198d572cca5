//! What an operator watches: metrics and readiness.

use std::sync::Arc;

use crate::access::Object;
use himalia_journal::may_block;
use himalia_metrics::{Clients, Metrics, PoolLevel};
use himalia_model::{Action, EngineError, ExecutionState, Principal, Role};
use himalia_session::{Pool, free};
use himalia_traces::Traces;

use super::Commands;
use crate::Engine;
use crate::access::authorise;

/// Names of what a budget refuses, in the order of [`BudgetUse::refused`](himalia_budget::BudgetUse::refused).
const RESOURCES: [&str; 6] = ["memory", "connections", "streams", "turns", "requests", "starts"];

impl Engine {
    /// Where a facade counts what clients send and receive.
    pub fn clients(&self) -> &Arc<Clients> {
        self.commands.inner.metrics.clients()
    }

    /// What this gateway counts.
    pub fn counted(&self) -> &Metrics {
        &self.commands.inner.metrics
    }

    /// Where spans are recorded: [`Traces::open`] begins that.
    pub fn traces(&self) -> &Traces {
        &self.commands.inner.traces
    }

    /// Why no new work can be taken, in single words; empty if it can. For `/readyz`; needs no principal. Costs at most one check of
    /// store and provisioners each second.
    pub async fn not_ready(&self) -> Vec<String> {
        let mut reasons = self.commands.inner.not_ready().await;
        if self.audit.is_failing() {
            reasons.push("audit".to_owned());
        }
        reasons
    }
}

impl Commands {
    pub(crate) fn metrics(&self, principal: &Principal) -> Result<String, EngineError> {
        authorise(principal, Action::Read, Object::Upkeep)?;
        self.set_gauges();
        Ok(may_block(|| self.inner.metrics.encode()))
    }

    fn set_gauges(&self) {
        let inner = &self.inner;
        let state = inner.metrics.state();
        let mut all = inner.registry.all_unordered();
        all.retain(|handle| !handle.is_over());
        let states: Vec<ExecutionState> = all.iter().map(|handle| handle.snapshot.borrow().state).collect();
        state.set_kernels(|name| states.iter().filter(|state| state.as_str() == name).count());
        let sessions = all.iter().zip(&states);
        let sessions = sessions.filter(|(handle, _)| handle.session().role != Role::Additional);
        let (dead, live): (Vec<_>, Vec<_>) = sessions.partition(|(_, state)| **state == ExecutionState::Dead);
        state.set_sessions(live.len(), dead.len());
        let pools = inner.pools().into_iter().flat_map(|pools| pools.values());
        let levels: Vec<PoolLevel> = pools.map(level).collect();
        state.set_pools(&levels);
        let uses = inner.budget.uses();
        let sum = |of: fn(&himalia_budget::BudgetUse) -> u64| as_f64(uses.iter().map(of).sum());
        state.connections.set(sum(|one| one.connections));
        state.streams.set(sum(|one| one.streams));
        state.response_bytes.set(sum(|one| one.memory_bytes));
        for (at, resource) in RESOURCES.into_iter().enumerate() {
            state.set_refused(resource, uses.iter().map(|one| one.refused[at]).sum());
        }
        state
            .ended_sessions
            .set(as_f64(inner.ended.kept_of(|_| true).len() as u64));
        state.ready.set(f64::from(u8::from(
            inner.check_open().is_ok() && inner.store().lease().is_valid(),
        )));
        let replicas = inner.metrics.replicas();
        replicas
            .lease_left
            .set(inner.store().lease().left().as_secs_f64());
        replicas.log_waiting.set(as_f64(inner.log_bytes_waiting()));
        if let Some(bytes) = may_block(|| free(&inner.config.data_dir)) {
            state.disk_free.set(as_f64(bytes));
        }
    }
}

fn level(pool: &Pool) -> PoolLevel {
    let status = pool.status();
    PoolLevel {
        template: status.template,
        ready: status.ready,
        starting: status.starting,
        target: status.target,
        failures: status.failures,
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts and sizes are far below 2^52")]
fn as_f64(count: u64) -> f64 {
    count as f64
}
