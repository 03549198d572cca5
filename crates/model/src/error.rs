//! Errors of commands, in the caller's terms. Each facade maps them to its own codes in one place.

use std::fmt;

use himalia_wire::build::timestamp;
use thiserror::Error;
use time::OffsetDateTime;

use crate::error_codes::not_found_code;
use crate::{FileError, ForkError, Hazard, SessionId, ToolError, ToolErrorCode};

/// Reason why a command failed. The text is safe to show: it contains no token, no host path and no stack trace.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The object does not exist, or the caller may not know that it does.
    #[error("{what} does not exist: {id}")]
    NotFound {
        /// The kind of object, capitalised as it begins a sentence (`Kernel`, `Session`, `Kernelspec file`).
        what: &'static str,
        /// The identifier as the caller gave it.
        id: String,
    },
    /// A field of the request cannot be used.
    #[error("{field}: {reason}")]
    BadRequest {
        /// The field, in the caller's spelling.
        field: &'static str,
        /// One line.
        reason: String,
    },
    /// The request contradicts what exists (a kernel with this id, a second restart at once).
    #[error("{reason}")]
    Conflict {
        /// One line.
        reason: String,
    },
    /// The configured number of kernels is running or starting.
    #[error("the limit of {limit} kernels{} is reached", of_tenant(.tenant.as_deref()))]
    KernelLimit {
        /// `EngineConfig::max_kernels`, or `TenantLimits::max_kernels`.
        limit: u32,
        /// Tenant whose limit is reached; `None`: the limit of the gateway.
        tenant: Option<String>,
    },
    /// No kernelspec has this name.
    #[error("no such kernelspec: {name}")]
    NoSuchKernelspec {
        /// The name that was asked for.
        name: String,
    },
    /// No template and no kernelspec has this name.
    #[error("no such template: {name}{}", listed(.there))]
    NoSuchTemplate {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        there: Vec<String>,
    },
    /// The request is well-formed, but this gateway or template does not support it.
    #[error("{field}: {reason}")]
    NotOffered {
        /// Reason, as a stable code.
        code: NotOffered,
        /// The field, in the caller's spelling.
        field: &'static str,
        /// One line.
        reason: String,
    },
    /// A session could not be forked. Its own state is as it was.
    #[error("the session was not forked: {reason}")]
    Fork {
        /// Reason, as a stable code.
        code: ForkError,
        /// One line.
        reason: String,
        /// State of the parent that a fork would break; not empty for [`ForkError::Hazard`].
        hazards: Vec<Hazard>,
    },
    /// The principal may not do this to the object.
    #[error("not allowed to {action}")]
    Forbidden {
        /// The action, as a verb phrase.
        action: &'static str,
    },
    /// The object's kernel has gone since the object was made (a Jupyter session whose kernel was deleted).
    #[error("{reason}")]
    Gone {
        /// One line.
        reason: String,
    },
    /// It was there, and it is not kept any longer.
    #[error("{reason}")]
    Removed {
        /// Cause of the removal.
        by: RemovedBy,
        /// One line.
        reason: String,
    },
    /// The session has ended: its log can be read, and nothing else can be done with it.
    #[error("this session is over since {} ({})", timestamp(.0.ended), .0.cause)]
    SessionEnded(EndedSession),
    /// No session has this name any more. That of the latest one that had it is kept under its id.
    #[error("Session does not exist: {name}. The last one of this name is over since {} ({}); its id is {}",
        timestamp(.last.ended), .last.cause, .last.id)]
    NameEnded {
        /// The name.
        name: String,
        /// The session that had it.
        last: EndedSession,
    },
    /// Cannot be done now; worth trying again (draining, sandbox not connected, queue full).
    #[error("{reason}")]
    Unavailable {
        /// One line.
        reason: String,
    },
    /// It took longer than its documented bound.
    #[error("{what} took longer than {seconds} s")]
    Timeout {
        /// Operation that timed out.
        what: &'static str,
        /// The bound.
        seconds: u64,
    },
    /// The kernel process could not be started.
    #[error("the kernel did not start: {cause}")]
    KernelStart {
        /// One line: `exit(1)`, `signal(11)`, `argv[0] not found` …
        cause: String,
        /// The last of the kernel's raw standard error, at most 16 KiB, possibly empty.
        stderr_tail: String,
    },
    /// The caller, or its tenant, has as much of something as it may. Worth trying again.
    #[error("{reason}")]
    OverBudget {
        /// Exhausted resource: `memory`, `connections`, `streams`, `turns`, `requests`, `starts` or `disk`.
        what: &'static str,
        /// One line.
        reason: String,
        /// The whole gateway has none left; otherwise the caller has its part.
        gateways: bool,
        /// Seconds after which it may go.
        retry_after: u64,
    },
    /// The owner has used as much of something as it may. The same is refused until it is less, or until the time that is named.
    #[error("{}", exhausted(.quota, .owner, .used, .limit, .unit, .until.as_ref()))]
    QuotaExceeded {
        /// Key in the configuration: `cpu_seconds_per_day`, `sandbox_memory`.
        quota: &'static str,
        /// Tenant whose quota is exhausted.
        owner: String,
        /// In `unit`.
        limit: u64,
        /// In `unit`.
        used: u64,
        /// `seconds`, `bytes`, `characters`.
        unit: &'static str,
        /// When it will be possible again, UTC; `None`: when less is used.
        until: Option<OffsetDateTime>,
        /// Seconds after which to try again.
        retry_after: u64,
    },
    /// The disk has too little room for a new session. Worth trying again: what is not kept any longer goes.
    #[error("{reason}")]
    DiskFull {
        /// One line.
        reason: String,
    },
    /// As many executions wait for the kernel as may.
    #[error("{queued} executions of this session are not over yet")]
    QueueFull {
        /// Number of incomplete executions.
        queued: u32,
    },
    /// The kernel has another process than the caller believes: its variables are gone.
    #[error("the kernel's incarnation is {incarnation}, not {expected}")]
    IncarnationMismatch {
        /// Incarnation that the caller expects.
        expected: u32,
        /// Current incarnation.
        incarnation: u32,
    },
    /// As many executions in a row have failed as the caller allows.
    #[error("the latest {failures} executions of this session have failed, as many as max_failures allows")]
    FailureLimit {
        /// Number of failures.
        failures: u32,
    },
    /// The kernel is dead, and nothing can be run in it any more.
    #[error("the kernel is dead: {cause}")]
    KernelDead {
        /// Cause of death.
        cause: String,
    },
    /// The kernel is occupied and did not come to it in time; the same call may succeed later.
    #[error("{reason}")]
    Busy {
        /// One line.
        reason: String,
    },
    /// This kernel, or this kind of value, cannot do what is asked.
    #[error("{reason}")]
    Unsupported {
        /// One line.
        reason: String,
    },
    /// The kernel is not given code in this language.
    #[error("language: {reason}")]
    LanguageNotSupported {
        /// One line, with the language and the ones that there are.
        reason: String,
    },
    /// Something with the files of a session could not be done.
    #[error("{reason}")]
    Files {
        /// Reason, as a stable code.
        code: FileError,
        /// One line.
        reason: String,
    },
    /// A tool was not found, or a call of it has no reply.
    #[error("{0}")]
    Tool(Box<ToolError>),
    /// The idempotency key was used for another request.
    #[error("idempotency_key: was used for another request")]
    KeyReused,
    /// The disk, the store or an invariant failed. Details are in the log under the same words.
    #[error("internal error: {context}")]
    Internal {
        /// Operation that failed.
        context: String,
    },
}

/// A session that has ended, whose log is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedSession {
    /// Id of the ended session, which stays valid for reads.
    pub id: SessionId,
    /// When it ended, UTC.
    pub ended: OffsetDateTime,
    /// Cause: `killed_by_user`, `idle_culled`, `ttl` …
    pub cause: String,
}

/// Reason why a request is not supported, as a stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotOffered {
    /// The provisioner gives less isolation than is asked for.
    Isolation,
    /// An open network exists in containers only, on networks that the operator named.
    Network,
    /// The image is not one of the operator's.
    Image,
    /// More than the template's `max` allows.
    Limit,
    /// No such provisioner is configured.
    Provisioner,
    /// The session may not use the credential, or not so.
    Credential,
    /// The session may not use the tool.
    Tool,
}

impl NotOffered {
    /// The word in replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Isolation => "isolation_unavailable",
            Self::Network => "network_unsupported",
            Self::Image => "image_not_allowed",
            Self::Limit => "limit_exceeded",
            Self::Provisioner => "provisioner_unavailable",
            Self::Credential => "credential_not_allowed",
            Self::Tool => "tool_not_allowed",
        }
    }
}

/// Cause of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedBy {
    /// It was too old: [`Retention`](crate::Retention).
    Retention,
    /// The log of its session was too large, and the oldest part of it went.
    Quota,
}

impl RemovedBy {
    /// The word in replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retention => "removed_by_retention",
            Self::Quota => "removed_by_quota",
        }
    }
}

/// Text for an exhausted quota of a tenant. `until`: time of the next reset; `None`: the quota is free again as soon as less is used.
pub fn exhausted(
    quota: &str,
    owner: &str,
    used: &impl fmt::Display,
    limit: &impl fmt::Display,
    unit: &str,
    until: Option<&OffsetDateTime>,
) -> String {
    let (space, until) = (if unit.is_empty() { "" } else { " " }, until_text(until));
    format!(
        "the quota {quota} of the tenant {owner} is exhausted: {used} of {limit}{space}{unit} are used{until}"
    )
}

fn until_text(until: Option<&OffsetDateTime>) -> String {
    match until {
        Some(until) => format!("; it is possible again at {}", timestamp(*until)),
        None => "; it is possible again when its sessions use less".to_owned(),
    }
}

fn of_tenant(tenant: Option<&str>) -> String {
    tenant.map_or_else(String::new, |name| format!(" of the tenant {name}"))
}

impl EngineError {
    /// Shorthand for [`EngineError::NotOffered`].
    pub fn not_offered(code: NotOffered, field: &'static str, reason: impl Into<String>) -> Self {
        Self::NotOffered {
            code,
            field,
            reason: reason.into(),
        }
    }

    /// Shorthand for [`EngineError::BadRequest`].
    pub fn bad_request(field: &'static str, reason: impl Into<String>) -> Self {
        Self::BadRequest {
            field,
            reason: reason.into(),
        }
    }

    /// Shorthand for [`EngineError::Internal`]; the cause goes to the log only.
    pub fn internal(context: impl Into<String>, cause: impl std::fmt::Display) -> Self {
        let context = context.into();
        tracing::error!(%cause, "{context}");
        Self::Internal { context }
    }

    /// Shorthand for [`EngineError::Unavailable`].
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable {
            reason: reason.into(),
        }
    }

    /// Shorthand for a kernel that does not exist.
    pub fn no_kernel(id: crate::KernelId) -> Self {
        Self::NotFound {
            what: "Kernel",
            id: id.to_string(),
        }
    }

    /// Shorthand for a session that does not exist, by its id or name.
    pub fn no_session(text: &str) -> Self {
        Self::NotFound {
            what: "Session",
            id: text.chars().take(64).flat_map(char::escape_debug).collect(),
        }
    }

    /// Shorthand for an execution that does not exist.
    pub fn no_execution(id: &str) -> Self {
        Self::NotFound {
            what: "Execution",
            id: id.chars().take(80).flat_map(char::escape_debug).collect(),
        }
    }

    /// Shorthand for a prompt that does not exist.
    pub fn no_prompt(id: &str) -> Self {
        Self::NotFound {
            what: "Prompt",
            id: id.chars().take(80).flat_map(char::escape_debug).collect(),
        }
    }

    /// Shorthand for an error of tools.
    pub fn tool(error: ToolError) -> Self {
        Self::Tool(Box::new(error))
    }

    /// Returns true if the object never existed or has ended.
    pub fn is_absent(&self) -> bool {
        matches!(
            self,
            Self::NotFound { .. }
                | Self::NameEnded { .. }
                | Self::SessionEnded(_)
                | Self::Removed {
                    by: RemovedBy::Retention,
                    ..
                }
        )
    }

    /// The stable word for programs, the same in every interface that has one.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { what: "Step", .. } => "workflow_step_not_found",
            Self::NotFound { what, .. } => not_found_code(what),
            Self::NameEnded { .. } => "session_not_found",
            Self::SessionEnded(_) => "session_ended",
            Self::BadRequest { .. } => "bad_request",
            Self::Conflict { .. } => "conflict",
            Self::KernelLimit { .. } => "kernel_limit",
            Self::NoSuchKernelspec { .. } => "kernelspec_not_found",
            Self::NoSuchTemplate { .. } => "template_not_found",
            Self::NotOffered { code, .. } => code.as_str(),
            Self::Fork { code, .. } => code.as_str(),
            Self::Forbidden { .. } => "forbidden",
            Self::Gone { .. } => "gone",
            Self::Removed { by, .. } => by.as_str(),
            Self::Unavailable { .. } => "unavailable",
            Self::Timeout { .. } => "timeout",
            Self::KernelStart { .. } => "kernel_start_failed",
            Self::OverBudget { .. } => "over_budget",
            Self::QuotaExceeded { .. } => "quota_exceeded",
            Self::DiskFull { .. } => "disk_full",
            Self::QueueFull { .. } => "queue_full",
            Self::IncarnationMismatch { .. } => "kernel_restarted",
            Self::FailureLimit { .. } => "failure_limit",
            Self::KernelDead { .. } => "kernel_dead",
            Self::Busy { .. } => "busy",
            Self::Unsupported { .. } => "unsupported",
            Self::LanguageNotSupported { .. } => "language_not_supported",
            Self::Files { code, .. } => code.as_str(),
            Self::Tool(error) => error.code.as_str(),
            Self::KeyReused => "idempotency_key_reused",
            Self::Internal { .. } => "internal",
        }
    }

    /// Seconds after which to try again, where that may help: for every error that is [`Self::retryable`].
    pub fn retry_after_s(&self) -> Option<u64> {
        match self {
            Self::OverBudget { retry_after, .. } | Self::QuotaExceeded { retry_after, .. } => {
                Some(*retry_after)
            }
            // Until a session ends, or data that is not kept any longer is removed.
            Self::KernelLimit { .. } => Some(5),
            Self::DiskFull { .. } => Some(10),
            // By the tool's server, also for a call that the gateway does not say to be retryable.
            Self::Tool(error) if error.retry_after.is_some() => error.retry_after,
            other => other.retryable().then_some(1),
        }
    }

    /// Returns true if a limit of the caller or of the gateway is reached. Facades call `Engine::hold_back` before they send such a
    /// response.
    pub fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::KernelLimit { .. }
                | Self::OverBudget { .. }
                | Self::QuotaExceeded { .. }
                | Self::DiskFull { .. }
                | Self::QueueFull { .. }
                | Self::Files {
                    code: FileError::TooMany | FileError::Quota,
                    ..
                }
        )
    }

    /// Returns true if the same call can succeed later without a change by the caller.
    pub fn retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::Timeout { .. }
                | Self::KernelLimit { .. }
                | Self::OverBudget { .. }
                | Self::QuotaExceeded { .. }
                | Self::DiskFull { .. }
                | Self::QueueFull { .. }
                | Self::Busy { .. }
                | Self::Files {
                    code: FileError::TooMany,
                    ..
                }
        ) || matches!(self, Self::Tool(error) if error.code == ToolErrorCode::Unavailable)
            || matches!(
                self,
                Self::Fork {
                    code: ForkError::Busy,
                    ..
                }
            )
    }
}

/// Names that an error shows.
const LISTED: usize = 20;

/// The names that there are, as the end of a message.
fn listed(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
    let more = names.len().saturating_sub(shown.len());
    match (shown.as_slice(), more) {
        ([], _) => String::new(),
        (shown, 0) => format!("; there are: {}", shown.join(", ")),
        (shown, more) => format!("; there are: {} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_template_is_answered_with_those_that_there_are() {
        let text = |count: usize| {
            let there = (0..count).map(|n| format!("t{n}")).collect();
            let name = "x".to_owned();
            EngineError::NoSuchTemplate { name, there }.to_string()
        };
        assert_eq!(text(0), "no such template: x");
        assert_eq!(text(2), "no such template: x; there are: t0, t1");
        assert!(text(23).ends_with("t18, t19 and 3 more"), "{}", text(23));
    }
}
