//! Reservation of a call in progress, of its tree and of its tenant's day, and its usage.

use std::sync::Arc;

use himalia_budget::{Budget, DailyQuantity, DayHeld, DayOver};
use himalia_llm::{Estimate, TreeReservation};
use himalia_model::{ModelUse, Prices, Spend};

use crate::meter::Meter;

/// The place of a call that is in progress. When it is dropped before it is settled, the call has taken what it might.
pub(super) struct Hold {
    tree: TreeReservation,
    day: Day,
}

/// The part of a tenant's day.
pub(super) struct Day {
    meter: Arc<Meter>,
    owner: String,
    /// Reserved amount; `None` when that is settled.
    may: Option<ModelUse>,
    tokens: Option<DayHeld>,
    spend: Option<DayHeld>,
}

impl Hold {
    pub(super) fn new(tree: TreeReservation, day: Day) -> Self {
        Self { tree, day }
    }

    /// Replaces the reservation by the usage.
    pub(super) fn settle(self, took: &ModelUse) {
        self.tree.settle(took);
        self.day.settle(took);
    }
}

impl Day {
    /// A part of the day of an owner for a call that may take so much.
    ///
    /// # Errors
    /// There is less. Nothing of it counts.
    pub(super) fn hold(
        budget: &Budget,
        meter: &Arc<Meter>,
        owner: &str,
        estimate: Estimate,
        prices: Option<Prices>,
    ) -> Result<Self, DayOver> {
        let (input_tokens, output_tokens) = (estimate.input_tokens, estimate.output_tokens);
        let spend = prices.map_or_else(Spend::default, |prices| prices.spend(input_tokens, output_tokens));
        let may = ModelUse {
            input_tokens,
            output_tokens,
            spend,
            ..ModelUse::default()
        };
        let held = |what, amount| {
            let gate = budget.day(owner, what);
            gate.map(|gate| gate.hold(amount)).transpose()
        };
        let tokens = held(DailyQuantity::ModelTokens, may.tokens())?;
        let spend = match held(DailyQuantity::ModelSpend, spend.nanos()) {
            Ok(spend) => spend,
            Err(over) => {
                if let Some(tokens) = tokens {
                    tokens.settle(0);
                }
                return Err(over);
            }
        };
        Ok(Self {
            meter: Arc::clone(meter),
            owner: owner.to_owned(),
            may: Some(may),
            tokens,
            spend,
        })
    }

    fn settle(mut self, took: &ModelUse) {
        self.may = None;
        self.count(took);
    }

    fn count(&mut self, took: &ModelUse) {
        if let Some(tokens) = self.tokens.take() {
            tokens.settle(took.tokens());
        }
        if let Some(spend) = self.spend.take() {
            spend.settle(took.spend.nanos());
        }
        self.meter.model_called(&self.owner, took);
    }
}

impl Drop for Day {
    fn drop(&mut self) {
        if let Some(may) = self.may.take() {
            self.count(&may);
        }
    }
}

#[cfg(test)]
mod tests {
    use himalia_model::{DayLimits, EngineConfig, LlmConfig, TenantLimits};
    use serde_json::json;

    use super::*;

    #[test]
    fn both_quotas_count_what_was_taken_or_what_might_have_been() {
        let mut config = EngineConfig::new("/nowhere");
        let day = DayLimits {
            model_tokens: Some(100),
            model_spend: Some(Spend::of_nanos(1000)),
            ..DayLimits::default()
        };
        let limits = TenantLimits {
            day,
            ..TenantLimits::default()
        };
        config.tenants.insert("acme".into(), limits);
        let (budget, meter) = (Budget::of(&config), Arc::new(Meter::default()));
        let hold = |input_tokens: u64, input: f64| {
            let estimate = Estimate {
                input_tokens,
                output_tokens: 0,
            };
            let fields = json!({"url": "https://a.test/v1", "input_price": input, "output_price": 0});
            let model = LlmConfig::new("a", serde_json::from_value(fields).unwrap()).unwrap();
            Day::hold(&budget, &meter, "acme", estimate, model.prices).map_err(|over| over.what.quota())
        };
        let first = hold(60, 0.0).unwrap();
        assert_eq!(hold(60, 0.0).err(), Some("model_tokens_per_day"));
        // Refused for the spend: the tokens are free again.
        assert_eq!(hold(40, 1000.0).err(), Some("model_spend_per_day"));
        let took = |input_tokens| ModelUse {
            input_tokens,
            ..ModelUse::default()
        };
        first.settle(&took(10));
        drop(hold(80, 0.0).unwrap());
        assert_eq!(hold(11, 0.0).err(), Some("model_tokens_per_day"));
        hold(10, 0.0).unwrap().settle(&took(0));
        // Another owner has no limit.
        let estimate = Estimate {
            input_tokens: 1_000_000,
            output_tokens: 0,
        };
        drop(Day::hold(&budget, &meter, "other", estimate, None).unwrap());
    }
}
