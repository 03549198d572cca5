//! Errors of tools.
//!
//! A refusal is a result with `isError`, so that the model reads it: one line of text, and for programs `{code, retryable, detail}` with
//! the words of the native API.

use std::fmt::Write as _;

use himalia_engine::{EngineError, Hazard};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use crate::result::for_programs;

/// Errors of tools.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments cannot be used.
    Arguments(String),
    /// The engine refused.
    Engine(EngineError),
    /// The message itself is wrong: the client reads it, and not the model.
    Protocol(ErrorData),
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        // Tools name sessions, whose ids are those of their first kernels.
        Self::Engine(match error {
            EngineError::NotFound { what: "Kernel", id } => EngineError::no_session(&id),
            other => other,
        })
    }
}

impl From<ErrorData> for Failure {
    fn from(error: ErrorData) -> Self {
        Self::Protocol(error)
    }
}

impl Failure {
    /// An argument that cannot be used, by its name.
    pub(crate) fn argument(name: &str, reason: impl std::fmt::Display) -> Self {
        Self::Arguments(format!("{name}: {reason}"))
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Arguments(_) | Self::Protocol(_) => "bad_request",
            Self::Engine(error) => error.code(),
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Arguments(text) => text.clone(),
            Self::Protocol(error) => error.message.to_string(),
            Self::Engine(error @ EngineError::NotFound { what: "Session", .. }) => {
                format!(
                    "{error}. Create one with session(op=\"create\", name=…), or list them with session(op=\"list\")"
                )
            }
            Self::Engine(error @ (EngineError::SessionEnded(_) | EngineError::NameEnded { .. })) => {
                format!("{error}. Create one with session(op=\"create\", name=…)")
            }
            Self::Engine(error) => error.to_string(),
        }
    }

    /// As programs find it.
    pub(crate) fn to_json(&self) -> Value {
        let retryable = matches!(self, Self::Engine(error) if error.retryable());
        let mut shown = json!({ "code": self.code(), "retryable": retryable, "detail": self.detail() });
        if let Self::Engine(error) = self
            && let Some(seconds) = error.retry_after_s()
        {
            shown["retry_after_s"] = seconds.into();
        }
        match self {
            Self::Engine(EngineError::SessionEnded(last) | EngineError::NameEnded { last, .. }) => {
                shown["session"] = last.id.to_string().into();
                shown["ended"] = last.ended.format(&Rfc3339).ok().into();
                shown["reason"] = last.cause.clone().into();
            }
            Self::Engine(EngineError::IncarnationMismatch { incarnation, .. }) => {
                shown["incarnation"] = (*incarnation).into();
            }
            Self::Engine(EngineError::Fork { hazards, .. }) if !hazards.is_empty() => {
                shown["hazards"] = hazards.iter().map(hazard).collect();
            }
            Self::Engine(EngineError::KernelStart { stderr_tail, .. }) if !stderr_tail.is_empty() => {
                shown["stderr"] = stderr_tail.clone().into();
            }
            Self::Engine(EngineError::Tool(error)) if error.server_status.is_some() => {
                shown["server_status"] = error.server_status.into();
            }
            _ => {}
        }
        shown
    }

    /// For the model: everything that the structured content has.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{} ({})", self.detail(), self.code());
        let Self::Engine(error) = self else {
            return text;
        };
        if error.retryable() {
            text.push_str("; the same call may succeed later");
        }
        match error {
            EngineError::Fork { hazards, .. } => {
                for one in hazards {
                    let _ = write!(text, "\n{} {}: {}", one.kind, one.name, one.detail);
                }
            }
            EngineError::KernelStart { stderr_tail, .. } if !stderr_tail.is_empty() => {
                let _ = write!(text, "\n{stderr_tail}");
            }
            _ => {}
        }
        text
    }

    /// # Errors
    /// The error of the protocol, if it is one.
    pub(crate) fn into_result(self) -> Result<CallToolResult, ErrorData> {
        if let Self::Protocol(error) = self {
            return Err(error);
        }
        let mut result = CallToolResult::error(vec![ContentBlock::text(self.to_text())]);
        for_programs(&mut result, self.to_json());
        Ok(result)
    }
}

/// Something in a session that a fork may break, as the native API shows it.
pub(crate) fn hazard(hazard: &Hazard) -> Value {
    json!({
        "kind": hazard.kind,
        "name": hazard.name,
        "detail": hazard.detail,
        "severity": if hazard.refuses { "refuse" } else { "warn" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::RESULT;
    use himalia_engine::EndedSession;

    #[test]
    fn a_refusal_has_its_code_and_says_whether_to_try_again() {
        let full = Failure::from(EngineError::QueueFull { queued: 64 });
        assert_eq!(
            full.to_json(),
            json!({"code": "queue_full", "retryable": true, "retry_after_s": 1, "detail": "64 executions of this session are not over yet"})
        );
        assert!(
            full.to_text().ends_with("may succeed later"),
            "{}",
            full.to_text()
        );
        let other = Failure::from(EngineError::IncarnationMismatch {
            expected: 1,
            incarnation: 2,
        });
        assert_eq!(
            (&other.to_json()["incarnation"], &other.to_json()["code"]),
            (&json!(2), &json!("kernel_restarted"))
        );
        let last = EndedSession {
            id: "00000000-0000-0000-0000-000000000001".parse().unwrap(),
            ended: time::OffsetDateTime::UNIX_EPOCH,
            cause: "ttl".into(),
        };
        let ended = Failure::from(EngineError::SessionEnded(last)).to_json();
        assert_eq!(
            (&ended["session"], &ended["ended"], &ended["reason"]),
            (
                &json!("00000000-0000-0000-0000-000000000001"),
                &json!("1970-01-01T00:00:00Z"),
                &json!("ttl")
            )
        );
        let unknown = Failure::from(EngineError::no_session("titanic"));
        assert!(
            unknown.to_text().contains("session(op=\"create\""),
            "{}",
            unknown.to_text()
        );
        let result = Failure::argument("op", "is missing").into_result().unwrap();
        assert_eq!(result.is_error, Some(true));
        assert_eq!(result.structured_content, None);
        assert_eq!(result.meta.unwrap()[RESULT]["detail"], "op: is missing");
    }
}
