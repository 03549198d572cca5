//! Records of a native execution in the log, and the owner that they carry.

use std::borrow::Cow;
use std::collections::BTreeMap;

use himalia_model::{MAX_LOST_NAMES, TraceContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::names::LostVariables;
use crate::meta::event_body;

/// Marks the owner of an execution's records, in place of the hash of a client's wire session.
const NATIVE: u64 = 1 << 63;

/// The owner of the records of an execution.
pub fn owner_of(seq: u64) -> u64 {
    NATIVE | seq
}

/// The execution that an owner stands for.
pub fn execution_of(owner: u64) -> Option<u64> {
    (owner & NATIVE != 0).then_some(owner & !NATIVE)
}

/// An owner that stands for a client, from any hash: never 0, never an execution's.
pub fn owner_of_client(hash: u64) -> u64 {
    (hash & !NATIVE).max(1)
}

/// Action when an execution takes longer than its timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// It is interrupted.
    #[default]
    Interrupt,
    /// It continues; callers that wait for it are answered.
    Detach,
    /// It is interrupted. If it still runs 10 s later, the kernel gets another process: all variables are lost.
    Restart,
    /// The process is stopped at once: all variables are lost. The next use of the kernel starts another process.
    Kill,
}

/// Language of an execution's code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// The kernel's own language.
    #[default]
    Kernel,
    /// Bash, run by a kernel of ours as a `%%bash` cell.
    Bash,
}

impl Language {
    /// True for the kernel's own language. Records and replies leave it out then.
    pub fn is_kernels(&self) -> bool {
        *self == Self::Kernel
    }

    /// Code for the kernel, and for a notebook's cell but for the line break at the end. An empty script needs that: a cell magic without a body is
    /// refused.
    pub fn cell(self, code: &str) -> Cow<'_, str> {
        match self {
            Self::Kernel => Cow::Borrowed(code),
            Self::Bash => Cow::Owned(format!("%%bash\n{code}\n")),
        }
    }
}

/// Request for an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// As the caller wrote it.
    pub code: String,
    /// Language of the code.
    #[serde(default, skip_serializing_if = "Language::is_kernels")]
    pub language: Language,
    /// Counts while the code runs and does not wait for input.
    pub timeout_ms: Option<u64>,
    /// Action when that time has expired.
    pub on_timeout: OnTimeout,
    /// Characters of text in its result.
    pub text_chars: u64,
    /// True if the code may ask for input.
    pub allow_stdin: bool,
    /// True if the kernel counts the execution and remembers it in its history.
    pub store_history: bool,
    /// The process that it is meant for; in another one it does not run.
    pub expect_incarnation: Option<u32>,
    /// A submission with the same key is this one.
    pub key: Option<String>,
    /// Executions in a row that may have failed before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_failures: Option<u32>,
    /// The principal's name.
    pub caller: String,
    /// Name of the client, not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The span of the caller, if it is traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// Environment variables of this execution, from kernels of ours; they are what they were before when it has ended.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The working directory of this execution, as `env`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Data that the caller stored with the execution. It means nothing here.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The code completed.
    Ok,
    /// The code raised an exception.
    Error,
    /// It was interrupted because it took too long.
    Timeout,
    /// It was interrupted, or taken back before it ran.
    Interrupted,
    /// The kernel's process ended.
    KernelDied,
    /// The kernel's process was killed because it ran out of memory.
    OomKilled,
}

impl End {
    /// The spelling in records and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
            Self::KernelDied => "kernel_died",
            Self::OomKilled => "oom_killed",
        }
    }
}

/// Reason why an execution is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The caller, or another one, interrupted the kernel.
    Interrupt,
    /// The timeout of the execution, or the limit of the session, has passed.
    Timeout,
}

/// Losses with a sandbox, in addition to the variables, that cannot be restored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxLoss {
    /// The files of its work directory, which were not kept.
    pub files: bool,
    /// Names of secrets that the session was started with: their values are stored nowhere. At most 16.
    pub secrets: Vec<String>,
    /// Ids of the session's additional kernels. At most 16.
    pub kernels: Vec<String>,
    /// Ids of sessions that were forks in the same sandbox. At most 16.
    pub branches: Vec<String>,
}

impl SandboxLoss {
    pub fn add(&mut self, later: Self) {
        self.files |= later.files;
        let lists = [
            (&mut self.secrets, later.secrets),
            (&mut self.kernels, later.kernels),
            (&mut self.branches, later.branches),
        ];
        for (names, more) in lists {
            for name in more {
                if names.len() < MAX_LOST_NAMES && !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }
}

/// The previous kernel process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplacedExecution {
    /// Number of the process. Variables of executions in it are gone.
    pub incarnation: u32,
    /// Reason of its end, if that is known.
    pub cause: Option<String>,
    /// Variables of the process, from kernels that report them.
    pub variables_lost: Option<LostVariables>,
    /// Further losses, if the session has another sandbox since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_lost: Option<SandboxLoss>,
}

/// The body of an execution's records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ExecutionRecord {
    /// The first one, whose number is the execution's.
    Submitted {
        #[serde(flatten)]
        submission: Submission,
        /// Executions that have to end before.
        ahead: u32,
        /// Place in the queue.
        turn: u64,
        /// The execution that the kernel has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        behind: Option<u64>,
        /// True if that execution ignores interrupts.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stuck: bool,
    },
    /// It goes to the kernel, for the first time or again. Its request record follows.
    Sent {
        /// Times that it was sent, this one included.
        attempt: u32,
        /// The process before, if this is the first execution in a new one.
        replaced: Option<ReplacedExecution>,
    },
    /// It is being interrupted.
    Stopping { reason: StopReason },
    /// The time has expired and the execution continues.
    Detached,
    /// All interrupts were sent, and it continues.
    Stuck,
    /// The last one.
    Ended {
        status: End,
        /// A cause of death, or another reason.
        cause: Option<String>,
        /// The kernel has begun with it.
        ran: bool,
        /// Earlier executions of the very same code that failed, as far as they are remembered.
        failed_before: u32,
        /// Variables of the ended process, from kernels that report them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        variables_lost: Option<LostVariables>,
        /// Executions in a row that failed up to this one, whatever their code.
        failures: u32,
        /// The place that it had in the queue.
        turn: u64,
    },
    /// A record of a later version.
    #[serde(other)]
    Unknown,
}

impl ExecutionRecord {
    pub fn to_body(&self) -> bytes::Bytes {
        event_body(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_without_a_language_are_the_kernels() {
        let record = r#"{"event":"submitted","code":"x","timeout_ms":null,"on_timeout":"interrupt","text_chars":1,
            "allow_stdin":false,"store_history":true,"expect_incarnation":null,"key":null,"caller":"a","ahead":0,"turn":1}"#;
        let read: ExecutionRecord = serde_json::from_str(record).unwrap();
        let ExecutionRecord::Submitted { mut submission, .. } = read else {
            panic!("{read:?}");
        };
        assert_eq!(submission.language, Language::Kernel);
        // The fingerprints of idempotency keys stay what they are.
        assert!(!serde_json::to_string(&submission).unwrap().contains("language"));
        submission.language = Language::Bash;
        assert_eq!(serde_json::to_value(&submission).unwrap()["language"], "bash");
    }

    #[test]
    fn bash_is_a_cell_with_a_body() {
        assert_eq!(Language::Kernel.cell("x"), "x");
        assert_eq!(Language::Bash.cell("ls -l"), "%%bash\nls -l\n");
    }

    #[test]
    fn owners_are_told_apart() {
        assert_eq!(execution_of(owner_of(7)), Some(7));
        for hash in [0, 1, 7, u64::MAX, NATIVE] {
            let owner = owner_of_client(hash);
            assert!(owner != 0 && execution_of(owner).is_none());
        }
    }
}
