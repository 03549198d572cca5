//! Models that a session may use, and limits of their use.

use serde::{Deserialize, Serialize};

use super::spend::{MAX_SPEND, Spend};

/// Caps of a tree, unless the template says otherwise, and the most that it may say.
const CALLS: u64 = 1000;
const MAX_CALLS: u64 = 1_000_000_000;
const TOKENS: u64 = 10_000_000;
const MAX_TOKENS: u64 = 1_000_000_000_000;
const PARALLEL: u32 = 16;
const MAX_PARALLEL: u32 = 64;

/// Limits of all model calls of one execution together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LlmLimits {
    /// Calls.
    pub calls: u64,
    /// Tokens, those that are read and those that are written.
    pub tokens: u64,
    /// Cost; `None`: no limit.
    pub spend: Option<Spend>,
    /// Calls at once. The next ones wait.
    pub parallel: u32,
}

impl Default for LlmLimits {
    fn default() -> Self {
        Self {
            calls: CALLS,
            tokens: TOKENS,
            spend: None,
            parallel: PARALLEL,
        }
    }
}

/// [`LlmLimits`] as they are written in the configuration; `None`: the default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LlmLimitFields {
    /// `model_calls`.
    pub calls: Option<u64>,
    /// `model_tokens`.
    pub tokens: Option<u64>,
    /// `model_spend`.
    pub spend: Option<f64>,
    /// `model_parallel`.
    pub parallel: Option<u32>,
}

impl LlmLimits {
    /// Checks what is written.
    ///
    /// # Errors
    /// What is wrong, beginning with the name of the member.
    pub fn new(fields: LlmLimitFields) -> Result<Self, String> {
        let usual = Self::default();
        let spend = fields
            .spend
            .map(|units| {
                Spend::of_units(units).ok_or_else(|| format!("model_spend: is not 0 to {MAX_SPEND}"))
            })
            .transpose()?;
        let made = Self {
            calls: fields.calls.unwrap_or(usual.calls),
            tokens: fields.tokens.unwrap_or(usual.tokens),
            spend,
            parallel: fields.parallel.unwrap_or(usual.parallel),
        };
        if !(1..=MAX_CALLS).contains(&made.calls) {
            return Err(format!("model_calls: is not 1 to {MAX_CALLS}"));
        }
        if !(1..=MAX_TOKENS).contains(&made.tokens) {
            return Err(format!("model_tokens: is not 1 to {MAX_TOKENS}"));
        }
        if !(1..=MAX_PARALLEL).contains(&made.parallel) {
            return Err(format!("model_parallel: is not 1 to {MAX_PARALLEL}"));
        }
        Ok(made)
    }
}

/// Models that a session may use, and limits of their use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LlmPolicy {
    /// The models that it may use. The first one is for requests that name none.
    pub models: Vec<String>,
    /// Limits per execution.
    pub limits: LlmLimits,
}

impl LlmPolicy {
    /// Returns true if no model is allowed.
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// Intersection of two policies.
    #[must_use]
    pub fn within(mut self, other: &Self) -> Self {
        self.models.retain(|name| other.models.contains(name));
        let (own, others) = (self.limits, other.limits);
        self.limits = LlmLimits {
            calls: own.calls.min(others.calls),
            tokens: own.tokens.min(others.tokens),
            spend: match (own.spend, others.spend) {
                (Some(own), Some(other)) => Some(own.min(other)),
                (own, other) => own.or(other),
            },
            parallel: own.parallel.min(others.parallel),
        };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let limits = LlmLimits::new(LlmLimitFields::default()).unwrap();
        assert_eq!(limits, LlmLimits::default());
        assert_eq!(
            (limits.calls, limits.tokens, limits.parallel),
            (1000, 10_000_000, 16)
        );
    }

    #[test]
    fn an_error_names_its_member() {
        for (member, fields) in [
            (
                "model_calls",
                LlmLimitFields {
                    calls: Some(0),
                    ..LlmLimitFields::default()
                },
            ),
            (
                "model_tokens",
                LlmLimitFields {
                    tokens: Some(0),
                    ..LlmLimitFields::default()
                },
            ),
            (
                "model_spend",
                LlmLimitFields {
                    spend: Some(-1.0),
                    ..LlmLimitFields::default()
                },
            ),
            (
                "model_spend",
                LlmLimitFields {
                    spend: Some(f64::NAN),
                    ..LlmLimitFields::default()
                },
            ),
            (
                "model_parallel",
                LlmLimitFields {
                    parallel: Some(65),
                    ..LlmLimitFields::default()
                },
            ),
        ] {
            let error = LlmLimits::new(fields).unwrap_err();
            assert!(error.starts_with(&format!("{member}: ")), "{member}: {error}");
        }
    }

    #[test]
    fn what_two_policies_permit_is_what_both_do() {
        let policy = |models: &[&str], tokens, spend: Option<u64>| LlmPolicy {
            models: models.iter().map(|name| (*name).to_owned()).collect(),
            limits: LlmLimits {
                tokens,
                spend: spend.map(Spend::of_nanos),
                ..LlmLimits::default()
            },
        };
        let both = policy(&["a", "b"], 10, None).within(&policy(&["b", "c"], 20, Some(5)));
        assert_eq!(both, policy(&["b"], 10, Some(5)));
        let both = policy(&["b"], 10, Some(3)).within(&both);
        assert_eq!(both, policy(&["b"], 10, Some(3)));
    }
}
