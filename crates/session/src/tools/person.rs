//! Questions of tool servers within a call, as prompts of the session.

use std::fmt::{self, Write as _};
use std::time::Duration;

use futures_util::future::BoxFuture;
use himalia_executions::{Ask, MAX_PROMPT_TIME};
use himalia_kernel::{Answer, Command, PromptEnd};
use himalia_outcome::escape_unseen;
use himalia_tool_servers::{Person, Question};
use serde_json::json;

use super::shown::cut;
use crate::SessionKernel;

/// Characters of the text of a server.
const TEXT_CHARS: usize = 1000;

/// A person who answers the prompts of a session. The prompt names the tool, so that it cannot pass for a question of the code.
pub(super) struct Prompts<'a> {
    pub(super) kernel: &'a SessionKernel,
    pub(super) tool: &'a str,
}

impl Person for Prompts<'_> {
    fn ask(&self, question: Question, time: Duration) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            let mut text = format!("The tool {} asks: {}", self.tool, cut(&question.text, TEXT_CHARS));
            if let Some(values) = question.values {
                let values = escape_unseen(&json!(values).to_string());
                // A person accepts nothing that is not shown.
                if values.chars().count() > TEXT_CHARS {
                    return None;
                }
                let _ = write!(text, "\nValues: {values}");
            }
            let ask = Ask {
                text,
                options: question.options,
                time: time.min(MAX_PROMPT_TIME),
                key: None,
            };
            let prompt = Command::Prompt(Box::new(ask.prompt().ok()?));
            let Some(Ok(Answer::Prompt(asked))) = self.kernel.order(prompt).await else {
                return None;
            };
            let wait = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            let wait = Command::AwaitPrompt { seq: asked.seq, wait };
            let Some(Ok(Answer::Prompt(asked))) = self.kernel.order(wait).await else {
                return None;
            };
            match asked.end {
                Some(PromptEnd::Answered { value, .. }) => Some(value),
                _ => None,
            }
        })
    }
}

impl fmt::Debug for Prompts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompts")
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}
