//! Prompts on behalf of a session, for callers.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use himalia_kernel::{Prompt, PromptEnd, PromptStatus};
use himalia_model::{EngineError, KernelId, from_micros};
use himalia_outcome::{MAX_PROMPT_CHARS, Sight, shown_prompt};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::Value;
use time::OffsetDateTime;

use crate::ExecutionId;
use crate::executions::{as_timestamp, read_record_id, write_record_id};

/// Options of a prompt, and characters of each.
pub const MAX_PROMPT_OPTIONS: usize = 16;
/// See [`MAX_PROMPT_OPTIONS`].
pub const MAX_OPTION_CHARS: usize = 200;
pub const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Longest time that a prompt may stay open.
pub const MAX_PROMPT_TIME: Duration = Duration::from_hours(7 * 24);
/// Default time that a prompt stays open.
pub const DEFAULT_PROMPT_TIME: Duration = Duration::from_hours(24);
/// Bytes of the key of a prompt.
const MAX_KEY_BYTES: usize = 200;

/// Identifies a prompt: its kernel, and the number of its first record in the kernel's log. On the wire
/// `prm_<kernel's id without hyphens>_<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PromptId {
    /// The kernel in whose log it is.
    pub kernel: KernelId,
    /// The number of its first record.
    pub seq: u64,
}

impl fmt::Display for PromptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_record_id(f, "prm", self.kernel, self.seq)
    }
}

impl FromStr for PromptId {
    type Err = EngineError;

    /// Accepts what `Display` writes and nothing else; otherwise [`EngineError::NotFound`].
    fn from_str(text: &str) -> Result<Self, EngineError> {
        let (kernel, seq) = read_record_id("prm", text).ok_or_else(|| EngineError::no_prompt(text))?;
        Ok(Self { kernel, seq })
    }
}

/// Identifies a step of a run of a workflow that asks a person. On the wire `prs_<id of the run, of which `run_` is left out>_<step>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepPromptId {
    pub run: String,
    pub step: String,
}

/// Identifies whatever a person is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PromptName {
    Kernel(PromptId),
    /// A step of a workflow.
    Step(StepPromptId),
}

impl fmt::Display for PromptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(id) => id.fmt(f),
            Self::Step(StepPromptId { run, step }) => {
                write!(f, "prs_{}_{step}", run.strip_prefix("run_").unwrap_or(run))
            }
        }
    }
}

impl FromStr for PromptName {
    type Err = EngineError;

    /// Accepts what `Display` writes and nothing else; otherwise [`EngineError::NotFound`].
    fn from_str(text: &str) -> Result<Self, EngineError> {
        let Some(rest) = text.strip_prefix("prs_") else {
            return text.parse().map(Self::Kernel);
        };
        let is_run =
            |run: &str| run.len() == 32 && run.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match rest.split_once('_') {
            Some((run, step)) if is_run(run) && !step.is_empty() => Ok(Self::Step(StepPromptId {
                run: format!("run_{run}"),
                step: step.to_owned(),
            })),
            _ => Err(EngineError::no_prompt(text)),
        }
    }
}

impl Serialize for PromptName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for PromptName {
    fn schema_name() -> Cow<'static, str> {
        "PromptId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^(prm_[0-9a-f]{32}_[1-9][0-9]*|prs_[0-9a-f]{32}_.+)$",
        })
    }
}

/// Reason for a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptKind {
    /// Code asks a question of its own.
    Question,
    /// A call of a tool has to be approved.
    Approval,
    /// `input()` or `getpass()` waits.
    Input,
    /// A step of a workflow has to be approved.
    Step,
}

impl From<himalia_kernel::PromptKind> for PromptKind {
    fn from(kind: himalia_kernel::PromptKind) -> Self {
        match kind {
            himalia_kernel::PromptKind::Question => Self::Question,
            himalia_kernel::PromptKind::Approval => Self::Approval,
            himalia_kernel::PromptKind::Input => Self::Input,
        }
    }
}

impl PromptKind {
    /// True if the answer permits an action that code requests. Callers that run code may not give it.
    pub fn is_approval(self) -> bool {
        matches!(self, Self::Approval | Self::Step)
    }
}

/// New prompt.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Text for the person, 1 to [`MAX_PROMPT_CHARS`] characters. Control characters but line ends are left out.
    pub text: String,
    /// The possible answers. Without any, the answer is a text.
    pub options: Vec<String>,
    /// Time that it may stay open, at most [`MAX_PROMPT_TIME`].
    pub time: Duration,
    /// The same key of one session is the same prompt.
    pub key: Option<String>,
}

impl Ask {
    /// Checks it. [`EngineError::BadRequest`] names the field.
    pub fn prompt(self) -> Result<Prompt, EngineError> {
        let refuse = |field, reason: String| Err(EngineError::bad_request(field, reason));
        let text = shown_prompt(self.text.trim());
        if text.trim().is_empty() || text.chars().count() > MAX_PROMPT_CHARS {
            return refuse(
                "text",
                format!("must have 1 to {MAX_PROMPT_CHARS} characters that can be shown"),
            );
        }
        let is_bad = |option: &String| {
            let chars = option.chars().count();
            let mut sight = Sight::default();
            chars == 0 || chars > MAX_OPTION_CHARS || !option.chars().all(|c| sight.shows(c))
        };
        if self.options.len() > MAX_PROMPT_OPTIONS || self.options.iter().any(is_bad) {
            return refuse(
                "options",
                format!(
                    "at most {MAX_PROMPT_OPTIONS} of 1 to {MAX_OPTION_CHARS} characters, without control characters and those that are not \
                     seen (such as U+200B)"
                ),
            );
        }
        if self.time.is_zero() || self.time > MAX_PROMPT_TIME {
            return refuse("timeout_s", "expected more than 0 and at most 7 days".into());
        }
        if let Some(key) = &self.key
            && (key.is_empty() || key.len() > MAX_KEY_BYTES)
        {
            return refuse("key", format!("must have 1 to {MAX_KEY_BYTES} bytes"));
        }
        Ok(Prompt {
            kind: himalia_kernel::PromptKind::Question,
            text,
            options: self.options,
            tool: None,
            definition: None,
            digest: None,
            arguments: None,
            key: self.key,
            password: false,
            wait_ms: Some(u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX).max(1)),
        })
    }
}

/// State of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptState {
    /// It waits for an answer.
    Open,
    /// It was answered.
    Answered,
    /// No answer is of use any more.
    Withdrawn,
}

/// Prompt to a person, and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Prompt")]
pub struct PromptInfo {
    /// Id of the prompt.
    pub id: PromptName,
    /// Id of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<KernelId>,
    /// Id of the workflow run, if the prompt belongs to a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The step of that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The execution that waits for the answer, if any. Its time limit is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// Reason for the prompt.
    pub kind: PromptKind,
    /// Text for the person. It comes from the code of the session, a tool or a workflow, and is not the gateway's.
    pub text: String,
    /// The possible answers. Without any, the answer is a text.
    pub options: Vec<String>,
    /// The tool that wants to be called: `server.tool`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The arguments of that call, as long as it is open; of a step its inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// The answer is a secret, which is kept nowhere.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub password: bool,
    /// When it was asked, UTC.
    #[serde(serialize_with = "as_timestamp")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created: OffsetDateTime,
    /// Until when it may stay open, UTC. Without it: as long as its code waits.
    #[serde(
        serialize_with = "as_optional_timestamp",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub expires: Option<OffsetDateTime>,
    /// State of the prompt.
    pub state: PromptState,
    /// The answer, if there is one and it is not secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Caller that answered: `operator`, or tenant and caller as `tenant/caller`. Of `input()` it is not known after the end of its gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// Reason why the prompt ended without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[allow(clippy::ref_option, reason = "as serde calls it")]
fn as_optional_timestamp<S: Serializer>(
    at: &Option<OffsetDateTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => as_timestamp(at, serializer),
        None => serializer.serialize_none(),
    }
}

impl PromptInfo {
    /// One of the list of this kernel.
    pub fn new(kernel: KernelId, status: PromptStatus) -> Self {
        let until = status.until();
        let PromptStatus {
            seq,
            at_micros,
            execution,
            prompt,
            end,
            used: _,
        } = status;
        let (state, answer, answered_by, reason) = match end {
            None => (PromptState::Open, None, None, None),
            Some(PromptEnd::Answered { value, by }) => {
                let value = (!prompt.password).then_some(value);
                (PromptState::Answered, value, by, None)
            }
            Some(PromptEnd::Withdrawn { reason }) => (PromptState::Withdrawn, None, None, Some(reason)),
        };
        Self {
            id: PromptName::Kernel(PromptId { kernel, seq }),
            session: Some(kernel),
            run: None,
            step: None,
            execution: execution.map(|seq| ExecutionId { kernel, seq }),
            kind: prompt.kind.into(),
            text: prompt.text,
            options: prompt.options,
            tool: prompt.tool,
            arguments: prompt.arguments,
            password: prompt.password,
            created: from_micros(at_micros),
            expires: until.map(from_micros),
            state,
            answer,
            answered_by,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str) -> Ask {
        Ask {
            text: text.into(),
            options: vec!["yes".into(), "no".into()],
            time: Duration::from_mins(1),
            key: None,
        }
    }

    #[test]
    fn only_what_is_written_is_read() {
        let id = PromptId {
            kernel: KernelId::random(),
            seq: 17,
        };
        assert_eq!(id.to_string().parse::<PromptId>().unwrap(), id);
        let execution = id.to_string().replace("prm", "exe");
        for bad in ["", "prm_", &execution, &id.to_string().replace("_17", "_017")] {
            assert!(bad.parse::<PromptId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn steps_have_names_of_their_own() {
        let step = PromptName::Step(StepPromptId {
            run: "run_0123456789abcdef0123456789abcdef".into(),
            step: "sign_it-2".into(),
        });
        let text = step.to_string();
        assert_eq!(text, "prs_0123456789abcdef0123456789abcdef_sign_it-2");
        assert_eq!(text.parse::<PromptName>().unwrap(), step);
        for bad in [
            "prs_",
            "prs_0123_sign",
            &text.to_uppercase(),
            &text[..37],
            "prm_x",
        ] {
            assert!(bad.parse::<PromptName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn texts_hide_nothing() {
        let prompt = ask("Delete\u{1b}[2K all?\n\u{202e}yes\u{7} ").prompt().unwrap();
        assert_eq!(prompt.text, "Delete[2K all?\nyes");
        assert_eq!(prompt.wait_ms, Some(60_000));
    }

    #[test]
    fn refusals_name_the_field() {
        let field = |ask: Ask| match ask.prompt() {
            Err(EngineError::BadRequest { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field(ask(" \u{7} ")), "text");
        assert_eq!(field(ask(&"x".repeat(MAX_PROMPT_CHARS + 1))), "text");
        let options = |options: Vec<String>| Ask { options, ..ask("?") };
        for bad in [vec![String::new()], vec!["a\nb".into()], vec!["a".into(); 17]] {
            assert_eq!(field(options(bad)), "options");
        }
        for time in [Duration::ZERO, MAX_PROMPT_TIME + Duration::from_secs(1)] {
            assert_eq!(field(Ask { time, ..ask("?") }), "timeout_s");
        }
        let key = Some("k".repeat(201));
        assert_eq!(field(Ask { key, ..ask("?") }), "key");
    }
}
