//! Where an execution is.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use himalia_model::{EngineError, KernelId};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use uuid::Uuid;

/// Identifies one execution: its kernel, and the number of its first record in the kernel's log. On the wire
/// `exe_<kernel's id without hyphens>_<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExecutionId {
    /// The kernel in whose log it is.
    pub kernel: KernelId,
    /// The number of its first record.
    pub seq: u64,
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exe_{}_{}", self.kernel.0.simple(), self.seq)
    }
}

impl Serialize for ExecutionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for ExecutionId {
    fn schema_name() -> Cow<'static, str> {
        "ExecutionId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^exe_[0-9a-f]{32}_[1-9][0-9]*$" })
    }
}

impl FromStr for ExecutionId {
    type Err = EngineError;

    /// Accepts what `Display` writes and nothing else; otherwise [`EngineError::NotFound`].
    fn from_str(text: &str) -> Result<Self, EngineError> {
        let read = || {
            let (kernel, seq) = text.strip_prefix("exe_")?.split_once('_')?;
            let id = Self {
                kernel: KernelId(Uuid::try_parse(kernel).ok()?),
                seq: seq.parse().ok()?,
            };
            (id.to_string() == text && id.seq > 0).then_some(id)
        };
        read().ok_or_else(|| EngineError::no_execution(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_written_is_read() {
        let id = ExecutionId {
            kernel: KernelId::random(),
            seq: 17,
        };
        let text = id.to_string();
        assert_eq!(text.parse::<ExecutionId>().unwrap(), id);
        for bad in [
            "",
            "exe_",
            "exe__1",
            &text.to_uppercase(),
            &text.replace("_17", "_017"),
            &text.replace("_17", "_0"),
            &format!("{text}x"),
        ] {
            assert!(bad.parse::<ExecutionId>().is_err(), "{bad}");
        }
    }
}
