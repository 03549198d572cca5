//! Daily quotas of tenants, counted here and read from the store for all replicas.
//!
//! What is in progress counts with what it may take, so that many calls at once do not exceed a quota together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use himalia_model::{Clock, DayLimits, EngineError, Spend, exhausted, from_micros};
use parking_lot::Mutex;
use time::OffsetDateTime;

use crate::cpu::{begin_of, day_of};

/// Quantities with a daily quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DailyQuantity {
    /// Calls of tools by code and models.
    ToolCalls,
    /// Tokens that models read and write.
    ModelTokens,
    /// Cost of the tokens, in thousand-millionths of the currency unit.
    ModelSpend,
    /// Characters that tools of MCP return.
    ReturnedChars,
}

impl DailyQuantity {
    pub const ALL: [Self; 4] = [
        Self::ToolCalls,
        Self::ModelTokens,
        Self::ModelSpend,
        Self::ReturnedChars,
    ];

    /// The key of the tenant.
    pub fn quota(self) -> &'static str {
        match self {
            Self::ToolCalls => "tool_calls_per_day",
            Self::ModelTokens => "model_tokens_per_day",
            Self::ModelSpend => "model_spend_per_day",
            Self::ReturnedChars => "returned_chars_per_day",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::ToolCalls => "calls",
            Self::ModelTokens => "tokens",
            Self::ModelSpend => "thousand-millionths",
            Self::ReturnedChars => "characters",
        }
    }

    fn limit(self, limits: &DayLimits) -> Option<u64> {
        match self {
            Self::ToolCalls => limits.tool_calls,
            Self::ModelTokens => limits.model_tokens,
            Self::ModelSpend => limits.model_spend.map(Spend::nanos),
            Self::ReturnedChars => limits.returned_chars,
        }
    }
}

/// Amounts by owner and by what is counted.
pub type DayAmounts = BTreeMap<(String, DailyQuantity), u64>;

/// The tenants that have a limit.
#[derive(Debug)]
pub(super) struct DayQuotas {
    gates: BTreeMap<(String, DailyQuantity), DayGate>,
}

/// Daily quota of a tenant for one quantity. Clones name the same.
#[derive(Clone, Debug)]
pub struct DayGate(Arc<Tenant>);

#[derive(Debug)]
struct Tenant {
    owner: String,
    what: DailyQuantity,
    limit: u64,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Day of the usage over all replicas.
    day: i64,
    known: u64,
    /// Used here, and not a part of that yet.
    since: u64,
    /// Amount that is reserved for calls in progress here.
    held: u64,
}

/// A quota of a day that has too little left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayOver {
    pub what: DailyQuantity,
    pub owner: String,
    pub limit: u64,
    /// Usage, with the reservations of calls in progress.
    pub used: u64,
    /// When the next day begins, UTC.
    pub until: OffsetDateTime,
    /// Seconds until then.
    pub retry_after: u64,
}

impl DayOver {
    fn amount(&self, amount: u64) -> String {
        match self.what {
            DailyQuantity::ModelSpend => Spend::of_nanos(amount).to_string(),
            _ => amount.to_string(),
        }
    }
}

impl fmt::Display for DayOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.what {
            DailyQuantity::ModelSpend => "",
            _ => self.what.unit(),
        };
        let (used, limit) = (self.amount(self.used), self.amount(self.limit));
        let text = exhausted(
            self.what.quota(),
            &self.owner,
            &used,
            &limit,
            unit,
            Some(&self.until),
        );
        f.write_str(&text)
    }
}

impl From<DayOver> for EngineError {
    fn from(over: DayOver) -> Self {
        Self::QuotaExceeded {
            quota: over.what.quota(),
            owner: over.owner,
            limit: over.limit,
            used: over.used,
            unit: over.what.unit(),
            until: Some(over.until),
            retry_after: over.retry_after,
        }
    }
}

/// A part of a day that something in progress may use. When it is dropped before it is settled, all of it is used.
#[derive(Debug)]
pub struct DayHeld {
    gate: DayGate,
    amount: u64,
    settled: bool,
}

impl DayQuotas {
    pub(super) fn new<'a>(clock: &Clock, limits: impl Iterator<Item = (&'a String, &'a DayLimits)>) -> Self {
        let mut gates = BTreeMap::new();
        for (owner, limits) in limits {
            for what in DailyQuantity::ALL {
                let Some(limit) = what.limit(limits) else {
                    continue;
                };
                let tenant = Tenant {
                    owner: owner.clone(),
                    what,
                    limit,
                    clock: clock.clone(),
                    state: Mutex::default(),
                };
                gates.insert((owner.clone(), what), DayGate(Arc::new(tenant)));
            }
        }
        Self { gates }
    }

    pub(super) fn of(&self, owner: &str, what: DailyQuantity) -> Option<&DayGate> {
        self.gates.get(&(owner.to_owned(), what))
    }

    /// Sets the usage of a day over all replicas, and the part of the usage counted here that was stored since the last time. Missing entries are
    /// zero.
    pub(super) fn set(&self, day: i64, used: &DayAmounts, stored: &DayAmounts) {
        for (key, gate) in &self.gates {
            let mut state = gate.0.state.lock();
            state.day = day;
            state.known = used.get(key).copied().unwrap_or_default();
            let stored = stored.get(key).copied().unwrap_or_default();
            state.since = state.since.saturating_sub(stored);
        }
    }
}

impl DayGate {
    /// A part of the day for something that may use so much; of 0, only whether there is something left.
    ///
    /// # Errors
    /// There is less. Nothing of it counts.
    pub fn hold(&self, amount: u64) -> Result<DayHeld, DayOver> {
        let tenant = &*self.0;
        let now = tenant.clock.stored_micros();
        let today = day_of(now);
        let mut state = tenant.state.lock();
        let known = if state.day == today { state.known } else { 0 };
        let used = known.saturating_add(state.since).saturating_add(state.held);
        if used >= tenant.limit || used.saturating_add(amount) > tenant.limit {
            let ends = begin_of(today + 1);
            let left = u64::try_from(ends.saturating_sub(now)).unwrap_or(0);
            return Err(DayOver {
                what: tenant.what,
                owner: tenant.owner.clone(),
                limit: tenant.limit,
                used,
                until: from_micros(u64::try_from(ends).unwrap_or(0)),
                retry_after: left.div_ceil(1_000_000).max(1),
            });
        }
        state.held += amount;
        Ok(DayHeld {
            gate: self.clone(),
            amount,
            settled: false,
        })
    }

    /// So much was used.
    pub fn count(&self, amount: u64) {
        let mut state = self.0.state.lock();
        state.since = state.since.saturating_add(amount);
    }

    /// Amount per day.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }
}

impl DayHeld {
    /// Replaces the reservation by the usage.
    pub fn settle(mut self, used: u64) {
        self.settled = true;
        self.end(used);
    }

    fn end(&self, used: u64) {
        let mut state = self.gate.0.state.lock();
        state.held = state.held.saturating_sub(self.amount);
        state.since = state.since.saturating_add(used);
    }
}

impl Drop for DayHeld {
    fn drop(&mut self) {
        if !self.settled {
            self.end(self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas(clock: &Clock) -> DayQuotas {
        let limits = DayLimits {
            tool_calls: Some(10),
            model_spend: Spend::of_units(0.5),
            ..DayLimits::default()
        };
        DayQuotas::new(clock, [(&"acme".to_owned(), &limits)].into_iter())
    }

    fn calls(amount: u64) -> DayAmounts {
        BTreeMap::from([(("acme".to_owned(), DailyQuantity::ToolCalls), amount)])
    }

    #[test]
    fn what_is_in_progress_counts_with_what_it_may_take() {
        let quotas = quotas(&Clock::default());
        assert!(quotas.of("other", DailyQuantity::ToolCalls).is_none());
        assert!(quotas.of("acme", DailyQuantity::ModelTokens).is_none());
        let gate = quotas.of("acme", DailyQuantity::ToolCalls).unwrap();
        let first = gate.hold(7).unwrap();
        assert_eq!(gate.hold(4).unwrap_err().used, 7);
        let second = gate.hold(3).unwrap();
        assert!(gate.hold(0).is_err(), "nothing is left");
        first.settle(2);
        gate.hold(5).unwrap().settle(0);
        // Of what ends in an unknown way, all is used.
        drop(second);
        assert_eq!(gate.hold(6).unwrap_err().used, 5);
        gate.count(5);
        assert_eq!(gate.hold(1).unwrap_err().used, 10);
    }

    #[test]
    fn what_is_stored_counts_once_and_a_day_ends() {
        let clock = Clock::default();
        let today = day_of(clock.stored_micros());
        let quotas = quotas(&clock);
        let gate = quotas.of("acme", DailyQuantity::ToolCalls).unwrap();
        let used = || gate.hold(100).unwrap_err().used;
        gate.count(4);
        quotas.set(today, &calls(0), &DayAmounts::new());
        assert_eq!(used(), 4, "it could not be stored");
        // Three of them, and two of another replica.
        quotas.set(today, &calls(5), &calls(3));
        assert_eq!(used(), 6);
        quotas.set(today, &calls(6), &calls(1));
        assert_eq!(used(), 6);
        quotas.set(today - 1, &calls(10), &DayAmounts::new());
        assert_eq!(used(), 0);
    }

    #[test]
    fn a_refusal_says_how_much_and_until_when() {
        let quotas = quotas(&Clock::default());
        let spend = quotas.of("acme", DailyQuantity::ModelSpend).unwrap();
        spend.count(Spend::of_units(0.25).unwrap().nanos());
        let over = spend.hold(Spend::of_units(0.3).unwrap().nanos()).unwrap_err();
        let begins = "the quota model_spend_per_day of the tenant acme is exhausted: 0.25 of 0.5 are used; it is possible again at 2";
        let text = over.to_string();
        assert!(
            text.starts_with(begins) && text.ends_with("T00:00:00.000000Z"),
            "{text}"
        );
        let gate = quotas.of("acme", DailyQuantity::ToolCalls).unwrap();
        gate.count(10);
        let over = gate.hold(1).unwrap_err();
        let text = over.to_string();
        assert!(
            text.contains("tool_calls_per_day of the tenant acme is exhausted: 10 of 10 calls are used"),
            "{text}"
        );
        let error = EngineError::from(over);
        assert_eq!((error.code(), error.is_limit()), ("quota_exceeded", true));
        assert!(error.retry_after_s().unwrap() <= 86_400);
        assert_eq!(error.to_string(), text);
    }
}
