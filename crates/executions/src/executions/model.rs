//! Requests and results of executions.

use std::collections::BTreeMap;
use std::time::Duration;

use himalia_kernel::{Brief, End, Language, LostVariables, OnTimeout, ReplacedExecution, Submission};
use himalia_model::{EngineError, KernelId, Principal, Spend, TraceContext, from_micros};
use himalia_outcome::{
    ArtifactFile, Failure, Input, OmittedArtifacts, Output, Sight, VariableChanges, WrittenFiles,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::{ExecutionId, PromptInfo};

/// Bytes of code of one execution.
pub const MAX_CODE_BYTES: usize = 1 << 20;
/// Characters of text that a result may hold.
pub const MAX_TEXT_CHARS: usize = 1_000_000;
/// Approximate memory of one output in a result, in bytes.
const OUTPUT_BYTES: usize = 8 << 10;
/// Bytes of an idempotency key.
pub const MAX_KEY_BYTES: usize = 256;
/// Failures in a row that a caller may allow.
pub const MAX_FAILURES: u32 = 100;
/// The longest timeout, in milliseconds: 30 days.
pub const MAX_TIMEOUT_MS: u64 = 30 * 24 * 3_600_000;

/// Bytes of the environment variables of one execution, names and values.
pub const MAX_EXECUTION_ENV: usize = 64 << 10;
/// Bytes of the directory of an execution.
pub const MAX_CWD_BYTES: usize = 4096;
/// Bytes of the metadata of an execution, as JSON.
pub const MAX_METADATA_BYTES: usize = 4096;

/// Characters of what a client calls itself.
pub const MAX_CLIENT_CHARS: usize = 64;

/// Name of a client, as it is shown: without control characters and those that are not seen, and cut. `None` if nothing is left.
fn client_name(told: &str) -> Option<String> {
    let mut sight = Sight::default();
    let shown = told.chars().filter(|char| sight.shows(*char));
    let name: String = shown.take(MAX_CLIENT_CHARS).collect();
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// An execution that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execute {
    /// At most [`MAX_CODE_BYTES`].
    pub code: String,
    /// Language by name: the kernel's own, or `bash` where the kernel is one of ours. `None` is the kernel's.
    pub language: Option<String>,
    /// Counts while the code runs and does not wait for input; `None` = for ever.
    pub timeout: Option<Duration>,
    /// Action at the timeout.
    pub on_timeout: OnTimeout,
    /// Characters of text in the result: of what is printed, and as many of all results' plain texts together.
    pub text_chars: usize,
    /// True if the code may ask for input.
    pub allow_stdin: bool,
    /// True if the kernel counts the execution and remembers it in its history.
    pub store_history: bool,
    /// The kernel process that it is meant for; in another one it does not run.
    pub expect_incarnation: Option<u32>,
    /// A request with the same key is this execution, if it is the same request, and runs once.
    pub key: Option<String>,
    /// It is refused if so many executions of the session in a row have failed, whatever their code; at most [`MAX_FAILURES`].
    pub max_failures: Option<u32>,
    /// Name of the client, at most [`MAX_CLIENT_CHARS`]: shown as that, and not verified.
    pub client: Option<String>,
    /// Environment variables while it runs, [`MAX_EXECUTION_ENV`] bytes at most; kernels of ours restore them.
    pub env: BTreeMap<String, String>,
    /// Working directory while it runs: absolute, or relative to that of the session.
    pub cwd: Option<String>,
    /// Data by which the caller finds the execution again, at most [`MAX_METADATA_BYTES`] as JSON.
    pub metadata: Map<String, Value>,
}

impl Default for Execute {
    fn default() -> Self {
        Self {
            code: String::new(),
            language: None,
            timeout: None,
            on_timeout: OnTimeout::Interrupt,
            text_chars: 8000,
            allow_stdin: false,
            store_history: true,
            expect_incarnation: None,
            key: None,
            max_failures: None,
            client: None,
            env: BTreeMap::new(),
            cwd: None,
            metadata: Map::new(),
        }
    }
}

impl Execute {
    /// True if it needs a kernel of ours: others know no environment of one execution.
    pub fn is_scoped(&self) -> bool {
        !self.env.is_empty() || self.cwd.is_some()
    }
}

/// An execution that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmittedExecution {
    pub id: ExecutionId,
    /// It was there already, under the same idempotency key.
    pub repeated: bool,
}

/// Progress of an execution, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// It waits for its turn or for the kernel.
    Queued,
    /// The kernel works on it.
    Running,
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

impl ExecutionStatus {
    /// True if it has ended.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

impl From<End> for ExecutionStatus {
    fn from(end: End) -> Self {
        match end {
            End::Ok => Self::Ok,
            End::Error => Self::Error,
            End::Timeout => Self::Timeout,
            End::Interrupted => Self::Interrupted,
            End::KernelDied => Self::KernelDied,
            End::OomKilled => Self::OomKilled,
        }
    }
}

/// The kernel process of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExecutionKernel {
    /// Number of the kernel process. If it differs from the number of the previous execution, the variables are gone.
    pub incarnation: u32,
    /// The process before, and the reason of its end. Only in the first execution in a new process.
    pub replaced: Option<ReplacedExecution>,
}

/// The death of a kernel under an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Death {
    /// `oom`, `exit(3)`, `signal(11)`, `restart`, `killed_by_user`, `execution_timeout` …
    pub cause: String,
    /// The process that ended.
    pub incarnation: u32,
    /// The number that the next process has.
    pub next_incarnation: u32,
    /// Variables of the process at the end of its latest execution before, from kernels that report them.
    pub variables_lost: Option<LostVariables>,
}

/// An execution that ignores interrupts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StuckExecution {
    /// Id of the execution.
    pub execution: ExecutionId,
    /// Command that stops it.
    pub hint: String,
}

impl StuckExecution {
    /// `own`: the result is that execution's, not one of an execution that waits for it.
    pub(crate) fn new(execution: ExecutionId, own: bool) -> Self {
        let what = if own {
            "The code ignores interrupts: three were sent, and it still runs.".to_owned()
        } else {
            format!("This execution waits for {execution}, whose code ignores interrupts.")
        };
        let hint = format!("{what} A restart of the kernel ends it, and all variables are lost.");
        Self { execution, hint }
    }
}

/// Size of the shown text, and where to read the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TextTruncated {
    /// UTF-8 bytes of all text.
    pub bytes_total: u64,
    /// Bytes of the text in the result.
    pub bytes_shown: u64,
    /// Offset of the first byte that is left out.
    pub from: u64,
    /// Offset after the last byte that is left out.
    pub to: u64,
}

/// Losses of an execution since the log of its session had reached its quota (`output_bytes`): the oldest part of a log goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct QuotaLoss {
    /// Removed records of the session log since the beginning of the execution, including records of other executions.
    pub records_removed: u64,
}

/// Resources that an execution took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExecutionUsage {
    /// Processor time in milliseconds, of the kernel's process and of those of its processes that ended meanwhile. From kernels that
    /// tell, when it has come to its end.
    pub cpu_ms: Option<u64>,
    /// The most memory of the kernel's process meanwhile, in bytes. From kernels and systems that tell, when it has come to its end.
    pub peak_memory_bytes: Option<u64>,
    /// Bytes of the messages that the kernel sent for it, so far.
    pub bytes_out: u64,
    /// Bytes that its network connections sent to hosts. Only ended connections are counted.
    pub network_sent_bytes: u64,
    /// Bytes that hosts sent to its network connections. Only ended connections are counted.
    pub network_received_bytes: u64,
    /// Calls of tools by its code, including refused calls.
    pub tool_calls: u64,
    /// Number of refused tool calls, which were not sent.
    pub tool_calls_refused: u64,
    /// Number of failed tool calls.
    pub tool_calls_failed: u64,
    /// Number of tool calls with an unknown outcome.
    pub tool_calls_unknown: u64,
    /// Bytes that tools have returned.
    pub tool_reply_bytes: u64,
    /// Calls of models by its code, including refused calls and answers from the cache.
    pub model_calls: u64,
    /// Number of refused model calls, which were not sent.
    pub model_calls_refused: u64,
    /// Number of failed model calls.
    pub model_calls_failed: u64,
    /// Number of model calls with an unknown outcome.
    pub model_calls_unknown: u64,
    /// Number of model calls that were answered from the cache.
    pub model_calls_cached: u64,
    /// Tokens that models have read for it.
    pub model_input_tokens: u64,
    /// Tokens that models have written for it.
    pub model_output_tokens: u64,
    /// Cost by the prices of the configuration, in its currency unit.
    pub model_spend: Spend,
}

/// Result of an execution so far: the same for every interface.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExecutionResult {
    /// Id of the execution.
    pub id: ExecutionId,
    /// Id of the session.
    pub session: KernelId,
    /// `bash`; left out where it is the kernel's own.
    #[serde(skip_serializing_if = "Language::is_kernels")]
    pub language: Language,
    /// Caller: `operator`, or tenant and caller as `tenant/caller`.
    pub caller: String,
    /// Name that the client gave itself, if it did. It is not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Data that the caller stored with the execution.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Progress of the execution.
    pub status: ExecutionStatus,
    /// True if the kernel has begun with the code. If not, the code can be sent again safely. One that never ran can be sent again without a thought.
    pub ran: bool,
    /// The process that it ran in; before that, the one that there was when it was taken.
    pub kernel: ExecutionKernel,
    /// The kernel's own count.
    pub execution_count: Option<u64>,
    /// Time at which the gateway accepted it, UTC.
    #[serde(serialize_with = "as_timestamp")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created: OffsetDateTime,
    /// Milliseconds from its acceptance until the kernel began with it.
    pub queued_ms: u64,
    /// Milliseconds from then until its end.
    pub duration_ms: u64,
    /// Executions that have to end before it, while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// The execution that the kernel has, while this one waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<ExecutionId>,
    /// The execution that ignores interrupts: this one, or the running one that it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<StuckExecution>,
    /// Printed text, as a terminal shows it: head and tail within the budget.
    pub text: String,
    /// Size of the text, if a part of it is left out.
    pub truncated: Option<TextTruncated>,
    /// Displays and results.
    pub outputs: Vec<Output>,
    /// Outputs in the middle that were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub outputs_omitted: u64,
    /// Files that it wrote below `/session/artifacts` or `/tmp/artifacts`, which are kept with the log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactFile>,
    /// Files that are not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts_omitted: Option<OmittedArtifacts>,
    /// Exception that the code raised.
    pub error: Option<Failure>,
    /// With which code a script in Bash ended: 0, or one that is an error; 128 and its number after a signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Earlier executions of the very same code that failed, among the latest thousand of the session.
    pub failed_before: u32,
    /// Executions of the session in a row that failed, up to this one and whatever their code.
    #[serde(skip_serializing_if = "is_none")]
    pub failures_in_a_row: u32,
    /// Variables that it changed. Null if the kernel does not report variables.
    pub variables: Option<VariableChanges>,
    /// Files that the code wrote. Null if the kernel does not report files.
    pub files: Option<WrittenFiles>,
    /// Resources that the execution took.
    pub usage: ExecutionUsage,
    /// The question that it waits with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
    /// Open prompts on its behalf.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<PromptInfo>,
    /// Reason of its end, if it did not end by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub death: Option<Death>,
    /// True if its timeout had passed, and it continued.
    pub detached: bool,
    /// Records of it that are missing: dropped by the sandbox, or no longer kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub gaps: u64,
    /// Parts that the quota of the session's log has removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaLoss>,
    /// Number of the latest record that is in here: where its events continue.
    pub seq: u64,
}

impl ExecutionResult {
    /// True if it waits for a person: in `input()`, or for the answer to a prompt.
    pub fn asks(&self) -> bool {
        self.input.is_some() || !self.prompts.is_empty()
    }

    /// Approximate size as JSON, in bytes.
    pub fn about_bytes(&self) -> usize {
        self.text.len() + self.outputs.len() * OUTPUT_BYTES
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Serialises a time as the API and Jupyter's messages write it.
pub(crate) fn as_timestamp<S: serde::Serializer>(
    at: &OffsetDateTime,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&himalia_wire::build::timestamp(*at))
}

/// One execution in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExecutionBrief {
    /// Id of the execution.
    pub id: ExecutionId,
    /// Progress of the execution.
    pub status: ExecutionStatus,
    /// Time at which the gateway accepted it, UTC.
    #[serde(serialize_with = "as_timestamp")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created: OffsetDateTime,
    /// Caller: `operator`, or tenant and caller as `tenant/caller`.
    pub caller: String,
    /// Name that the client gave itself, if it did. It is not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Data that the caller stored with the execution.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The beginning of its first line of code.
    pub title: String,
    /// `bash`; left out where it is the kernel's own.
    #[serde(skip_serializing_if = "Language::is_kernels")]
    pub language: Language,
}

impl ExecutionBrief {
    /// One of the list of this kernel.
    pub fn new(kernel: KernelId, brief: Brief) -> Self {
        let running = if brief.running {
            ExecutionStatus::Running
        } else {
            ExecutionStatus::Queued
        };
        Self {
            id: ExecutionId {
                kernel,
                seq: brief.seq,
            },
            status: brief.end.map_or(running, ExecutionStatus::from),
            created: from_micros(brief.at_micros),
            caller: brief.caller,
            client: brief.client,
            metadata: brief.metadata,
            title: brief.title,
            language: brief.language,
        }
    }
}

/// A part of an execution's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutputPage {
    /// The part, whole characters.
    pub text: String,
    /// UTF-8 bytes before it.
    pub offset: u64,
    /// Offset of the next part; equal to `bytes_total` when this is the last one.
    pub next: u64,
    /// UTF-8 bytes of all text so far.
    pub bytes_total: u64,
    /// No more text will come.
    pub complete: bool,
}

/// Checks what is asked for. `language` is what the name of its language means for the kernel.
pub fn submission(
    principal: &Principal,
    wanted: Execute,
    language: Language,
) -> Result<Submission, EngineError> {
    let refuse = |field, reason: String| Err(EngineError::bad_request(field, reason));
    if wanted.code.len() > MAX_CODE_BYTES {
        return refuse("code", format!("is longer than {MAX_CODE_BYTES} bytes"));
    }
    if wanted.text_chars > MAX_TEXT_CHARS {
        return refuse("text_chars", format!("is more than {MAX_TEXT_CHARS}"));
    }
    if wanted
        .timeout
        .is_some_and(|timeout| timeout.is_zero() || timeout > Duration::from_millis(MAX_TIMEOUT_MS))
    {
        return refuse("timeout_s", "expected 1 ms to 30 days".into());
    }
    if wanted
        .key
        .as_ref()
        .is_some_and(|key| key.is_empty() || key.len() > MAX_KEY_BYTES)
    {
        return refuse("idempotency_key", format!("must have 1 to {MAX_KEY_BYTES} bytes"));
    }
    if wanted
        .max_failures
        .is_some_and(|most| !(1..=MAX_FAILURES).contains(&most))
    {
        return refuse("max_failures", format!("expected 1 to {MAX_FAILURES}"));
    }
    let env: usize = wanted
        .env
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if env > MAX_EXECUTION_ENV {
        return refuse("env", format!("has more than {MAX_EXECUTION_ENV} bytes"));
    }
    let is_bad = |(name, value): (&String, &String)| {
        name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
    };
    if wanted.env.iter().any(is_bad) {
        return refuse("env", "has what no variable can have".into());
    }
    if wanted
        .cwd
        .as_ref()
        .is_some_and(|cwd| cwd.is_empty() || cwd.len() > MAX_CWD_BYTES || cwd.contains('\0'))
    {
        return refuse("cwd", format!("must have 1 to {MAX_CWD_BYTES} bytes, and no NUL"));
    }
    if serde_json::to_string(&wanted.metadata).map_or(usize::MAX, |text| text.len()) > MAX_METADATA_BYTES {
        return refuse(
            "metadata",
            format!("has more than {MAX_METADATA_BYTES} bytes as JSON"),
        );
    }
    let timeout_ms = wanted
        .timeout
        .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    Ok(Submission {
        code: wanted.code,
        language,
        timeout_ms,
        on_timeout: wanted.on_timeout,
        text_chars: wanted.text_chars as u64,
        allow_stdin: wanted.allow_stdin,
        store_history: wanted.store_history,
        expect_incarnation: wanted.expect_incarnation,
        key: wanted.key,
        max_failures: wanted.max_failures,
        caller: principal.name().to_owned(),
        client: wanted.client.as_deref().and_then(client_name),
        trace: principal.trace().filter(TraceContext::is_sampled),
        env: wanted.env,
        cwd: wanted.cwd,
        metadata: wanted.metadata,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clients_are_cleaned() {
        let name = |told: &str| client_name(told);
        assert_eq!(name(" ada's agent "), Some("ada's agent".into()));
        assert_eq!(name("a\u{1b}[31m\u{202e}b\n"), Some("a[31mb".into()));
        assert_eq!((name(""), name(" \u{7}\u{202e} ")), (None, None));
        assert_eq!(name(&"x".repeat(100)).unwrap().len(), MAX_CLIENT_CHARS);
    }
}
