//! The metadata of an `execute_reply`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::kept::OmittedArtifacts;

/// JSON bytes of one of the notes; larger ones are left out.
const NOTE_BYTES: usize = 64 << 10;

/// Hexadecimal digits of a hash.
const HASH_CHARS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyStatus {
    /// The code ran to its end.
    Ok,
    /// The code raised an exception.
    Error,
    /// It never ran: an earlier request failed, and the kernel dropped what had been queued by then.
    Aborted,
}

impl ReplyStatus {
    /// From the `status` of a reply's content; anything unknown counts as an error.
    pub fn from_status(status: &str) -> Self {
        match status {
            "ok" => Self::Ok,
            // Old kernels say `abort`.
            "aborted" | "abort" => Self::Aborted,
            _ => Self::Error,
        }
    }
}

/// Resources that an execution took, as its kernel reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelUsage {
    /// Processor time in milliseconds, of the kernel's process and of those that it waited for.
    pub cpu_ms: Option<u64>,
    /// The most memory of the kernel's process, bytes.
    pub peak_memory_bytes: Option<u64>,
}

/// Names of the variables that an execution touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VariableChanges {
    /// New ones.
    pub added: Vec<String>,
    /// Names of variables with another value.
    pub changed: Vec<String>,
    /// Names of removed variables.
    pub removed: Vec<String>,
    /// There are more than are named.
    pub truncated: bool,
}

/// Files that an execution wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WrittenFiles {
    /// Paths, relative to the work directory.
    pub written: Vec<String>,
    /// There are more than are named.
    pub truncated: bool,
}

/// Metadata that `himalia_kernel` adds to a reply, under `himalia`. Other kernels add nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Notes {
    /// Added, changed and removed variables.
    pub variables: Option<VariableChanges>,
    pub files: Option<WrittenFiles>,
    /// The exit code of a `%%bash` cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Resources that the execution took.
    pub usage: KernelUsage,
    /// A hash of the packages that there were at its end: hexadecimal digits.
    pub packages: Option<String>,
    /// Files that were to be kept, and are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<OmittedArtifacts>,
    /// `{line, source, hint}` of an exception.
    #[serde(skip)]
    pub(crate) error: Option<Json>,
}

impl Notes {
    pub(crate) fn read(metadata: &mut Map<String, Json>) -> Self {
        let Some(Json::Object(mut notes)) = metadata.remove("himalia") else {
            return Self::default();
        };
        let mut take = |name: &str, right: fn(&Json) -> bool| {
            let small = |note: &Json| note.to_string().len() <= NOTE_BYTES;
            notes.remove(name).filter(|note| right(note) && small(note))
        };
        let usage = take("usage", Json::is_object).unwrap_or_default();
        let number = |name: &str| usage.get(name).and_then(Json::as_u64);
        let packages = take("packages", Json::is_string);
        let packages = packages.as_ref().and_then(Json::as_str).filter(|hash| {
            !hash.is_empty() && hash.len() <= HASH_CHARS && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        Self {
            usage: KernelUsage {
                cpu_ms: number("cpu_ms"),
                peak_memory_bytes: number("peak_memory_bytes"),
            },
            packages: packages.map(str::to_owned),
            variables: take("variables", Json::is_object).and_then(read),
            files: take("files", Json::is_object).and_then(read),
            artifacts: take("artifacts", Json::is_object)
                .and_then(read)
                .map(OmittedArtifacts::cleaned),
            exit_code: take("exit_code", Json::is_i64).and_then(|code| code.as_i64()),
            error: take("error", Json::is_object),
        }
    }
}

/// A note of the right form; the gateway shows no other one.
fn read<T: for<'de> Deserialize<'de>>(note: Json) -> Option<T> {
    serde_json::from_value(note).ok()
}
