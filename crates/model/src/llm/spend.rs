//! Tokens and cost of model calls.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The highest price of a million tokens, and the highest spend.
const MAX_PRICE: f64 = 1e6;
pub(super) const MAX_SPEND: f64 = 1e9;
const NANOS: f64 = 1e9;

/// An amount in the operator's currency unit. As JSON it is a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spend(u64);

impl Spend {
    /// So many thousand-millionths of the unit.
    pub fn of_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// In thousand-millionths of the unit.
    pub fn nanos(self) -> u64 {
        self.0
    }

    /// From units; `None`: it must be an amount from 0 to 1,000,000,000.
    pub fn of_units(units: f64) -> Option<Self> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked"
        )]
        (0.0..=MAX_SPEND)
            .contains(&units)
            .then(|| Self((units * NANOS).round() as u64))
    }

    /// In units.
    #[expect(clippy::cast_precision_loss, reason = "an amount is shown, not counted with")]
    pub fn units(self) -> f64 {
        self.0 as f64 / NANOS
    }

    /// Sum of two amounts; saturates.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Difference of two amounts; at least zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Spend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.units())
    }
}

impl Serialize for Spend {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.units())
    }
}

impl<'de> Deserialize<'de> for Spend {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let units = f64::deserialize(deserializer)?;
        Self::of_units(units)
            .ok_or_else(|| serde::de::Error::custom("must be an amount from 0 to 1,000,000,000"))
    }
}

impl JsonSchema for Spend {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        f64::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        f64::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

/// Tokens and cost of a model call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelUse {
    /// Tokens that the model has read.
    pub input_tokens: u64,
    /// Tokens that it has written.
    pub output_tokens: u64,
    /// Cost of the tokens.
    pub spend: Spend,
    /// The answer was in the cache.
    #[serde(skip_serializing_if = "is_false")]
    pub cached: bool,
    /// The server did not say the numbers of tokens: they are estimates.
    #[serde(skip_serializing_if = "is_false")]
    pub estimated: bool,
}

impl ModelUse {
    /// Adds what another call took.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.spend = self.spend.plus(other.spend);
    }

    /// Tokens that it has read and written.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Prices of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// Price of one input token, in thousand-millionths of the currency unit.
    input: u64,
    /// Price of one output token, in the same unit.
    output: u64,
}

impl Prices {
    /// Prices of a million input tokens and of a million output tokens, in the currency unit.
    ///
    /// # Errors
    /// The invalid value; the text begins with the name of the member.
    pub(super) fn of_a_million(input: f64, output: f64) -> Result<Self, String> {
        Ok(Self {
            input: price("input_price", input)?,
            output: price("output_price", output)?,
        })
    }

    /// Cost of a number of tokens.
    pub fn spend(self, input_tokens: u64, output_tokens: u64) -> Spend {
        let input = self.input.saturating_mul(input_tokens);
        Spend(input.saturating_add(self.output.saturating_mul(output_tokens)))
    }
}

/// The price of one token, in thousand-millionths of the unit.
fn price(member: &str, of_a_million: f64) -> Result<u64, String> {
    if !(0.0..=MAX_PRICE).contains(&of_a_million) {
        return Err(format!("{member}: is not 0 to {MAX_PRICE}"));
    }
    // A millionth of the unit is a thousand of these.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    Ok((of_a_million * 1000.0).round() as u64)
}
