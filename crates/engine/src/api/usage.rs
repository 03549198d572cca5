//! What owners and callers use, beside what they may.

use std::collections::BTreeMap;

use crate::access::Object;
use himalia_budget::{DailyQuantity, DayGate, TrafficGate, begin_of, day_of};
use himalia_model::{
    Action, CallerUsage, EngineError, OwnerUsage, Principal, Scope, Share, Spend, Used, UsedSpend,
    from_micros,
};
use himalia_store::UsageRecord;

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
        let positive = |value: i64| u64::try_from(value).unwrap_or(0);
        let mut sum = UsageRecord::default();
        for row in rows.iter().filter(|row| row.owner == owner) {
            sum = sum.plus(row);
            if !row.caller.is_empty() {
                let caller = callers.entry(row.caller.clone()).or_default();
                (caller.executions, caller.execution_ms) =
                    (positive(row.executions), positive(row.execution_ms));
                caller.returned_chars = positive(row.returned_chars);
            }
        }
        let (sent, received) = (
            positive(sum.network_sent_bytes),
            positive(sum.network_received_bytes),
        );
        let (input_tokens, output_tokens) = (
            positive(sum.model_input_tokens),
            positive(sum.model_output_tokens),
        );
        let a_day = |what| inner.budget.day(&owner, what).map(DayGate::limit);
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
        let disk = inner.disk_of(&owner).await?;
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
                used: positive(sum.cpu_ms),
                limit: inner
                    .budget
                    .cpu(&owner)
                    .map(|cpu| u64::try_from(cpu.limit().as_millis()).unwrap_or(u64::MAX)),
            },
            network_bytes: Used {
                used: sent + received,
                limit: inner.budget.traffic(&owner).map(TrafficGate::limit),
            },
            tool_calls: Used {
                used: positive(sum.tool_calls),
                limit: a_day(DailyQuantity::ToolCalls),
            },
            model_tokens: Used {
                used: input_tokens.saturating_add(output_tokens),
                limit: a_day(DailyQuantity::ModelTokens),
            },
            model_input_tokens: input_tokens,
            model_output_tokens: output_tokens,
            model_spend: UsedSpend {
                used: Spend::of_nanos(positive(sum.model_spend_nanos)),
                limit: a_day(DailyQuantity::ModelSpend).map(Spend::of_nanos),
            },
            returned_chars: Used {
                used: positive(sum.returned_chars),
                limit: a_day(DailyQuantity::ReturnedChars),
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
            disk_live_bytes: disk.live,
            disk_ended_bytes: disk.ended,
            disk_rows_bytes: disk.rows,
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
            executions: positive(sum.executions),
            execution_ms: positive(sum.execution_ms),
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
