//! Tools as a session finds and calls them: what is asked, what is answered, and why not.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Caller of a tool: the model or code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolCaller {
    /// A client of the gateway, such as an agent that calls the tool itself.
    Model,
    /// Code in a sandbox.
    Code,
}

impl ToolCaller {
    /// The spelling in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Code => "code",
        }
    }
}

impl fmt::Display for ToolCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A server of tools, as a session sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ApiServer {
    /// Name of the server.
    pub name: String,
    /// Purpose, for a model.
    pub description: String,
    /// Number of tools that the session may use.
    pub tools: usize,
    /// True if the server can be called now.
    pub ready: bool,
    /// Reason why the server cannot be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The servers of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ApiServers {
    /// By name.
    pub servers: Vec<ApiServer>,
    /// The same for a model: one line for each, within a budget of characters.
    pub text: String,
}

/// A tool that was found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FoundTool {
    /// Id: `server.tool`.
    pub id: String,
    /// Description, for a model.
    pub description: String,
    /// True for a tool that changes nothing.
    pub read_only: bool,
}

/// Result of a search for tools.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FoundTools {
    /// The best first.
    pub tools: Vec<FoundTool>,
    /// The same for a model, with parameters: one line for each, within a budget of characters.
    pub text: String,
}

/// Details of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one tool")]
pub struct ToolInfo {
    /// Id: `server.tool`.
    pub id: String,
    /// Description, for a model.
    pub description: String,
    /// JSON Schema of its arguments, which are an object.
    pub input_schema: Value,
    /// JSON Schema of its result, if its server publishes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Arguments that show the form of a call.
    pub example: Value,
    /// True if the tool only reads.
    pub read_only: bool,
    /// True if the tool may delete or overwrite data.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// Allowed callers: `model`, `code`.
    pub callers: Vec<ToolCaller>,
    /// True if the policy of the session allows the tool, possibly after an approval.
    pub permitted: bool,
    /// True if a person has to approve each call, or the tool for the session.
    pub approval: bool,
    /// All of it for a model, within a budget of characters.
    pub text: String,
}

/// A tool with its schemas, as generated modules need it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolSchema {
    /// Name of the tool on its server.
    pub name: String,
    /// Description, for a model.
    pub description: String,
    /// JSON Schema of its arguments, which are an object.
    pub input_schema: Value,
    /// JSON Schema of its result, if its server publishes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// True if the tool only reads.
    pub read_only: bool,
}

/// Tools of one server, by name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerToolsPage {
    /// The tools of this page.
    pub tools: Vec<ToolSchema>,
    /// The name after which the next page begins. None: this is the last one.
    pub next: Option<String>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct CallTool {
    /// `server.tool`.
    pub tool: String,
    /// Arguments of the call.
    pub arguments: Map<String, Value>,
    /// Seconds that the call may take, if that is less than its server's.
    pub timeout_s: Option<f64>,
    /// The prompt by which a person has approved it, if one has to.
    pub approval: Option<String>,
    /// Names the prompt that asks for its approval: the same key is the same prompt.
    pub approval_key: Option<String>,
    /// The line of the cell from which code calls it, if code says it.
    pub line: Option<u32>,
}

/// A file in a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ToolFile {
    /// MIME type that the server reports. Not checked.
    pub mime_type: String,
    /// Content, in base64.
    pub data: String,
}

/// Result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ToolReply {
    /// The number of the call in its session.
    pub call: u64,
    /// Structured content; otherwise the text, as JSON if it parses.
    pub content: Value,
    /// Images and other files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ToolFile>,
    /// Bytes of the reply of the server.
    pub bytes: usize,
    /// Milliseconds from the call to the reply.
    pub duration_ms: u64,
}

/// Violation of a tool's schema by one argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArgumentViolation {
    /// Position as a JSON Pointer. Empty: all arguments.
    pub path: String,
    /// The keyword of the schema: `required`, `type`, `enum`.
    pub rule: String,
    /// Expected value, in words.
    pub text: String,
}

/// Reason why a tool was not found or a call failed, as a stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolErrorCode {
    /// The session has no server of this name.
    UnknownServer,
    /// The server has no tool of this name that the session may use.
    UnknownTool,
    /// The session has no skill of this name.
    UnknownSkill,
    /// The arguments do not fit the schema. Nothing was sent.
    InvalidArguments,
    /// The policy does not let it be called. Nothing was sent.
    Denied,
    /// A person has to approve it. Nothing was sent.
    ApprovalNeeded,
    /// The session, or what runs in it, has made as many calls as it may. Nothing was sent.
    Limit,
    /// The server cannot be called now. Nothing was done.
    Unavailable,
    /// The tool, or its server, says that it did not do it.
    Failed,
    /// The reply is longer than it may be. The tool has done it.
    ReplyTooLarge,
    /// No reply in time. Whether the tool has done it is unknown.
    Timeout,
    /// The connection ended before the reply. Whether the tool has done it is unknown.
    OutcomeUnknown,
}

impl ToolErrorCode {
    /// Code as callers see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownServer => "unknown_server",
            Self::UnknownTool => "unknown_tool",
            Self::UnknownSkill => "unknown_skill",
            Self::InvalidArguments => "invalid_arguments",
            Self::Denied => "tool_denied",
            Self::ApprovalNeeded => "approval_needed",
            Self::Limit => "tool_limit",
            Self::Unavailable => "tool_unavailable",
            Self::Failed => "tool_failed",
            Self::ReplyTooLarge => "reply_too_large",
            Self::Timeout => "tool_timeout",
            Self::OutcomeUnknown => "outcome_unknown",
        }
    }

    /// The status of an HTTP response with it.
    pub fn status(self) -> u16 {
        match self {
            Self::UnknownServer | Self::UnknownTool | Self::UnknownSkill => 404,
            Self::InvalidArguments => 400,
            Self::Denied => 403,
            Self::ApprovalNeeded => 409,
            Self::Limit => 429,
            Self::Unavailable => 503,
            Self::Failed => 422,
            Self::ReplyTooLarge => 502,
            Self::Timeout | Self::OutcomeUnknown => 504,
        }
    }
}

/// Reason why a tool was not found or a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    /// In a word.
    pub code: ToolErrorCode,
    /// One line.
    pub message: String,
    /// Remedy, if there is one.
    pub hint: Option<String>,
    /// Violations; only for [`ToolErrorCode::InvalidArguments`].
    pub violations: Vec<ArgumentViolation>,
    /// The number of the call in its session, if it was begun.
    pub call: Option<u64>,
    /// Id of the prompt to a person; only for [`ToolErrorCode::ApprovalNeeded`].
    pub prompt: Option<String>,
    /// The HTTP status, for [`ToolErrorCode::Failed`], with which the server of the tool answered, if it did not do it.
    pub server_status: Option<u16>,
    /// Seconds after which that server may be asked again, as it says.
    pub retry_after: Option<u64>,
}

impl ToolError {
    /// One without anything beside.
    pub fn new(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            violations: Vec::new(),
            call: None,
            prompt: None,
            server_status: None,
            retry_after: None,
        }
    }

    /// The same with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// As programs read it: `{code, message, hint, violations, call, prompt, server_status, retry_after_s}`.
    pub fn to_json(&self) -> Value {
        let mut made = Map::new();
        made.insert("code".to_owned(), self.code.as_str().into());
        made.insert("message".to_owned(), self.message.clone().into());
        if let Some(hint) = &self.hint {
            made.insert("hint".to_owned(), hint.clone().into());
        }
        if !self.violations.is_empty() {
            let all = self.violations.iter();
            let shown = all.map(|one| serde_json::to_value(one).unwrap_or_default());
            made.insert("violations".to_owned(), shown.collect());
        }
        if let Some(call) = self.call {
            made.insert("call".to_owned(), call.into());
        }
        if let Some(prompt) = &self.prompt {
            made.insert("prompt".to_owned(), prompt.clone().into());
        }
        if let Some(status) = self.server_status {
            made.insert("server_status".to_owned(), status.into());
        }
        if let Some(seconds) = self.retry_after {
            made.insert("retry_after_s".to_owned(), seconds.into());
        }
        Value::Object(made)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for one in self.violations.iter().filter(|_| !self.violations.is_empty()) {
            let path = if one.path.is_empty() {
                "arguments"
            } else {
                &one.path
            };
            write!(f, "; {path}: {}", one.text)?;
        }
        match &self.hint {
            Some(hint) => write!(f, ". {hint}"),
            None => Ok(()),
        }
    }
}
