//! Numbers and texts with bounds that are checked where they are described.

use std::borrow::Cow;
use std::time::Duration;

use himalia_engine::KernelId;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error};

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole<const MIN: u64, const MAX: u64>(pub(in crate::v1) u64);

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        if (MIN..=MAX).contains(&number) {
            return Ok(Self(number));
        }
        Err(D::Error::custom(if MAX == u64::MAX {
            format!("must be at least {MIN}")
        } else {
            format!("must be {MIN} to {MAX}")
        }))
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Whole<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Whole_{MIN}_to_{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

/// Ten years.
const LONGEST_S: u64 = 10 * 366 * 86_400;

/// A time in seconds.
pub(crate) type Seconds = Whole<1, LONGEST_S>;

/// Converts a time in seconds.
pub(crate) fn seconds(Whole(seconds): Seconds) -> Duration {
    Duration::from_secs(seconds)
}

/// A text of `MIN` to `MAX` bytes. Described by its characters, of which there are no more than bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<const MIN: usize, const MAX: usize>(pub(in crate::v1) String);

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Text<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if (MIN..=MAX).contains(&text.len()) {
            return Ok(Self(text));
        }
        Err(D::Error::custom(if MIN == 0 {
            format!("is longer than {MAX} bytes")
        } else {
            format!("must have {MIN} to {MAX} bytes")
        }))
    }
}

impl<const MIN: usize, const MAX: usize> JsonSchema for Text<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Text_{MIN}_to_{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        if MIN == 0 {
            json_schema!({ "type": "string", "maxLength": MAX })
        } else {
            json_schema!({ "type": "string", "minLength": MIN, "maxLength": MAX })
        }
    }
}

/// Seconds from 0 to `MAX`, with a fraction if need be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait<const MAX: u64>(pub(in crate::v1) Duration);

impl<'de, const MAX: u64> Deserialize<'de> for Wait<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let most = Duration::from_secs(MAX);
        let seconds = f64::deserialize(deserializer)?;
        let time = Duration::try_from_secs_f64(seconds).ok();
        let time = time.filter(|time| *time <= most);
        time.map(Self)
            .ok_or_else(|| D::Error::custom(format!("must be 0 to {MAX} seconds")))
    }
}

impl<const MAX: u64> JsonSchema for Wait<MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Wait_to_{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": MAX })
    }
}

/// An id with its hyphens, as it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HyphenatedId(pub(in crate::v1) KernelId);

impl<'de> Deserialize<'de> for HyphenatedId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let id = text.parse().map_err(|_| D::Error::custom("not a UUID"))?;
        Ok(Self(id))
    }
}

impl JsonSchema for HyphenatedId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Id".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "format": "uuid",
            "pattern": "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
        })
    }
}
