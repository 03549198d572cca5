//! Id of an execution: its session and its record.

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
        write_record_id(f, "exe", self.kernel, self.seq)
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
        let (kernel, seq) = read_record_id("exe", text).ok_or_else(|| EngineError::no_execution(text))?;
        Ok(Self { kernel, seq })
    }
}

/// Writes the id of what a record of a kernel's log begins: `<kind>_<kernel's id without hyphens>_<number>`.
pub(crate) fn write_record_id(
    f: &mut fmt::Formatter<'_>,
    kind: &str,
    kernel: KernelId,
    seq: u64,
) -> fmt::Result {
    write!(f, "{kind}_{}_{seq}", kernel.0.simple())
}

/// Reads what [`write_record_id`] writes, and nothing else.
pub(crate) fn read_record_id(kind: &str, text: &str) -> Option<(KernelId, u64)> {
    let (id, seq) = text.strip_prefix(kind)?.strip_prefix('_')?.split_once('_')?;
    let kernel = KernelId(Uuid::try_parse(id).ok()?);
    let number: u64 = seq.parse().ok()?;
    let is_written_so = kernel.0.simple().to_string() == id && number.to_string() == seq;
    (is_written_so && number > 0).then_some((kernel, number))
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
