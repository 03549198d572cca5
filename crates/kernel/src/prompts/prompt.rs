//! Prompts: questions to a person, their ends, and their records.

use himalia_outcome::shown_prompt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::meta::event_body;

/// Question to a person, from the code of a session or from the gateway on its behalf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    pub kind: PromptKind,
    /// Text for the person.
    pub text: String,
    /// The possible answers. Without any, the answer is a text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The tool that wants to be called: `server.tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// A digest of the tool as it is defined: an approval for the session is of that alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// Digest of the call's arguments. The shown arguments may be cut and masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The arguments of that call, as they are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Names it for the one who asks: the same key is the same prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The answer is kept nowhere: it is that of `getpass()`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub password: bool,
    /// Time that it may stay open, in milliseconds. `None`: as long as the code waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

impl Prompt {
    /// Prompt from the message of `input()` or `getpass()`.
    pub(crate) fn of_input(content: &[u8]) -> Self {
        let content: Value = serde_json::from_slice(content).unwrap_or_default();
        Self {
            kind: PromptKind::Input,
            text: shown_prompt(content["prompt"].as_str().unwrap_or_default()),
            options: Vec::new(),
            tool: None,
            definition: None,
            digest: None,
            arguments: None,
            key: None,
            password: content["password"] == true,
            wait_ms: None,
        }
    }

    /// True if both ask the same, whatever arguments are remembered.
    pub(super) fn asks_the_same(&self, other: &Self) -> bool {
        // What may be answered to an approval is the gateway's.
        let options = self.kind == PromptKind::Approval || self.options == other.options;
        options && (self.kind, &self.text, &self.tool) == (other.kind, &other.text, &other.tool)
    }
}

/// The answers to an approval: this call alone, ...
pub const APPROVE_ONCE: &str = "once";
/// ... this tool for as long as the session lives, ...
pub const APPROVE_SESSION: &str = "session";
/// ... this tool in later sessions of the same caller and template too, which is kept outside of the kernel: for the kernel it is this call
/// alone, ...
pub const APPROVE_ALWAYS: &str = "always";
/// ... or not at all.
pub const APPROVE_DENY: &str = "deny";

/// Reason for a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptKind {
    /// Code asks a question of its own.
    Question,
    /// A call of a tool has to be approved.
    Approval,
    /// `input()` or `getpass()` waits. Its records are those of the question and of its answer, as messages of Jupyter.
    Input,
}

/// A prompt that is open, for lists of the prompts of many kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenPrompt {
    /// Number of its first record, which names it.
    pub seq: u64,
    /// The time of the question, in microseconds since 1970, UTC.
    pub at_micros: u64,
}

/// A prompt and what has become of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptStatus {
    /// Number of its first record, which names it.
    pub seq: u64,
    /// The time of the question, in microseconds since 1970, UTC.
    pub at_micros: u64,
    /// The native execution that waits for it, if one runs.
    pub execution: Option<u64>,
    pub prompt: Prompt,
    /// End of the prompt. `None`: it is open.
    pub end: Option<PromptEnd>,
    /// True if its call was made.
    pub used: bool,
}

impl PromptStatus {
    /// Until when it may stay open, microseconds since 1970, if that is limited.
    pub fn until(&self) -> Option<u64> {
        let wait = self.prompt.wait_ms?.saturating_mul(1000);
        Some(self.at_micros.saturating_add(wait))
    }

    /// One that is open: asked by the record `seq`, at this time.
    pub fn open(seq: u64, at_micros: u64, execution: Option<u64>, prompt: Prompt) -> Self {
        Self {
            seq,
            at_micros,
            execution,
            prompt,
            end: None,
            used: false,
        }
    }
}

/// End of a prompt. A prompt ends once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptEnd {
    /// A person has answered.
    Answered {
        /// The answer: one of the options, if there are some.
        value: String,
        /// Answering caller: `operator`, or tenant and caller as `tenant/caller`. Answers to `input()` have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// No answer is of use any more. One line says why.
    Withdrawn { reason: String },
}

/// The body of a record of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum PromptRecord {
    /// The first one, whose number is the prompt's.
    Asked {
        #[serde(flatten)]
        prompt: Prompt,
    },
    /// The last one.
    Ended {
        /// Number of the first one.
        prompt: u64,
        #[serde(flatten)]
        end: PromptEnd,
    },
    /// The call that was approved is being made.
    Used {
        /// Number of the first one.
        prompt: u64,
    },
    /// A record of a later version.
    #[serde(other)]
    Unknown,
}

impl PromptRecord {
    pub(super) fn to_body(&self) -> bytes::Bytes {
        event_body(self)
    }
}
