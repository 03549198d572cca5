//! What owners and callers use, beside what they may.

use std::collections::BTreeMap;

use himalia_budget::{TrafficGate, begin_of, day_of};
use himalia_model::{
    Action, CallerUsage, EngineError, Object, OwnerUsage, Principal, Scope, Share, Used, from_micros,
};

use super::Commands;

impl Commands {
    pub(crate) async fn usage(
        &self,
        principal: &Principal,
        tenant: Option<&str>,
    ) -> Result<OwnerUsage, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        let owner = self.owner_to_show(principal, tenant)?;
        let inner = &self.inner;
        let rows = inner.usage_today().await?;
        let today = day_of(inner.config.clock.stored_micros());
        let resets = u64::try_from(begin_of(today + 1)).unwrap_or(0);
        let mut callers: BTreeMap<String, CallerUsage> = BTreeMap::new();
        let (mut cpu_ms, mut executions, mut execution_ms) = (0, 0, 0);
        let (mut sent, mut received) = (0, 0);
        for row in rows.iter().filter(|row| row.owner == owner) {
            let positive = |value: i64| u64::try_from(value).unwrap_or(0);
            cpu_ms += positive(row.cpu_ms);
            executions += positive(row.executions);
            execution_ms += positive(row.execution_ms);
            sent += positive(row.network_sent_bytes);
            received += positive(row.network_received_bytes);
            if !row.caller.is_empty() {
                let caller = callers.entry(row.caller.clone()).or_default();
                (caller.executions, caller.execution_ms) =
                    (positive(row.executions), positive(row.execution_ms));
            }
        }
        for (name, (connections, bytes)) in inner.budget.callers(&owner) {
            let caller = callers.entry(name).or_default();
            (caller.connections, caller.buffered_bytes) = (connections, bytes);
        }
        let sees_all = principal.is_operator() || principal.scope() == Scope::Admin;
        let callers = callers
            .into_iter()
            .map(|(caller, used)| CallerUsage { caller, ..used });
        let callers = callers
            .filter(|used| sees_all || used.caller == principal.name())
            .collect();
        let now = inner.budget.uses().into_iter().find(|now| now.owner == owner);
        let now = now.unwrap_or_default();
        let (live, ended) = inner.disk_of(&owner).await?;
        let limits = inner.config.tenants.get(&owner);
        // The operator has no part of its own.
        let share = (owner != Principal::operator().owner())
            .then(|| limits.map_or_else(Share::default, |limits| limits.share));
        let at_most = |of: fn(&Share) -> u64| share.as_ref().map(of);
        Ok(OwnerUsage {
            resets: from_micros(resets),
            kernels: Used {
                used: inner.kernels_of(&owner).await? as u64,
                limit: limits.and_then(|limits| limits.max_kernels).map(u64::from),
            },
            cpu_ms: Used {
                used: cpu_ms,
                limit: inner
                    .budget
                    .cpu(&owner)
                    .map(|cpu| u64::try_from(cpu.limit().as_millis()).unwrap_or(u64::MAX)),
            },
            network_bytes: Used {
                used: sent + received,
                limit: inner.budget.traffic(&owner).map(TrafficGate::limit),
            },
            network_sent_bytes: sent,
            network_received_bytes: received,
            network_connections: Used {
                used: now.network_connections,
                limit: at_most(|share| u64::from(share.network_connections)),
            },
            sandbox_memory_bytes: Used {
                used: inner.memory_of(&owner).await,
                limit: limits.and_then(|limits| limits.sandbox_memory_bytes),
            },
            disk_live_bytes: live,
            disk_ended_bytes: ended,
            disk_limit_bytes: at_most(|share| share.disk_bytes),
            connections: Used {
                used: now.connections,
                limit: at_most(|share| u64::from(share.connections)),
            },
            streams: Used {
                used: now.streams,
                limit: at_most(|share| u64::from(share.streams)),
            },
            buffered_bytes: Used {
                used: now.memory_bytes,
                limit: at_most(|share| share.memory_bytes),
            },
            requests_per_second: at_most(|share| u64::from(share.requests_per_second)),
            starts_per_second: at_most(|share| u64::from(share.starts_per_second)),
            executions,
            execution_ms,
            callers,
            owner,
        })
    }

    fn owner_to_show(&self, principal: &Principal, tenant: Option<&str>) -> Result<String, EngineError> {
        let Some(tenant) = tenant.filter(|tenant| *tenant != principal.owner()) else {
            return Ok(principal.owner().to_owned());
        };
        // Whether or not there is such a tenant.
        if !principal.is_operator() {
            return Err(EngineError::Forbidden {
                action: "see what another tenant uses",
            });
        }
        if !self.inner.config.tenants.contains_key(tenant) {
            return Err(EngineError::bad_request("tenant", "there is no such tenant"));
        }
        Ok(tenant.to_owned())
    }
}
