//! Maps errors of the engine to status codes.
//!
//! | engine | Jupyter API | native API |
//! |---|---|---|
//! | `NotFound` | 404 | 404 `session_not_found`, `kernel_not_found`, `execution_not_found`, `prompt_not_found`, `variable_not_found`, `artifact_not_found`, `token_not_found`, `tool_approval_not_found`, `prompt_webhook_not_found`, `credential_not_found`, `skill_not_found`, `schedule_not_found` |
//! | `BadRequest` | 400 | 400 `bad_request` |
//! | `NoSuchTemplate` | as the next | 404 `template_not_found` |
//! | `NoSuchKernelspec` | 400; 501 for sessions; 404 where the kernelspec itself is asked for | 404 `kernelspec_not_found` |
//! | `Forbidden` | 403 | 403 `forbidden` |
//! | `KernelLimit` | 403, reason `Resource Limit` | 429 `kernel_limit` |
//! | `NotOffered` | 400 | 422 `isolation_unavailable`, `network_unsupported`, `image_not_allowed`, `limit_exceeded`, `provisioner_unavailable`, `credential_not_allowed`, `tool_not_allowed` |
//! | `Fork` | | 409 `session_busy`, `fork_hazard`, `fork_undone`; 501 `unsupported`; 413 `files_too_large`; 500 `fork_probe_failed`, `fork_failed` |
//! | `OverBudget` | 429 | 429 `over_budget` |
//! | `DiskFull` | 507 | 507 `disk_full` |
//! | `QueueFull` | | 429 `queue_full` |
//! | `IncarnationMismatch`, `KernelDead` | | 409 `kernel_restarted`, `kernel_dead` |
//! | `FailureLimit` | | 409 `failure_limit` |
//! | `Busy` | | 503 `busy` |
//! | `Unsupported` | | 501 `unsupported` |
//! | `LanguageNotSupported` | | 400 `language_not_supported` |
//! | `Files` | | 404 `file_not_found`; 400 `bad_path`, `path_outside`; 403 `permission_denied`; 409 `is_a_directory`, `not_a_directory`, `not_a_file`, `directory_not_empty`; 413 `file_too_large`; 416 `range_not_satisfiable`; 422 `bad_archive`; 429 `too_many_transfers`; 507 `no_space`, `disk_quota_exceeded`; 500 `file_failed` |
//! | `Tool` | | 400 `invalid_arguments`; 403 `tool_denied`; 409 `approval_needed`; 404 `unknown_server`, `unknown_tool`; 422 `tool_failed`; 429 `tool_limit`; 502 `reply_too_large`; 503 `tool_unavailable`; 504 `outcome_unknown`, `tool_timeout` |
//! | `KeyReused` | | 422 `idempotency_key_reused` |
//! | `Conflict` | 409 | 409 `conflict` |
//! | `Gone` | 410 | none: Jupyter sessions alone |
//! | `SessionEnded` | 404 | 410 `session_ended` |
//! | `NameEnded` | 404 | 404 `session_not_found` |
//! | `Removed` | 404 | 410 `removed_by_retention`, `removed_by_quota` |
//! | `Unavailable` | 503 | 503 `unavailable` |
//! | `Timeout` | 504 | 504 `timeout` |
//! | `KernelStart` | 500 | 500 `kernel_start_failed` |
//! | `Internal` | 500 | 500 `internal` |
//!
//! `JupyterLab` knows no templates, so their errors are a kernelspec's there. 501 for a session's unknown kernelspec and 410 for its vanished kernel are what `JupyterLab` expects. `Retry-After` goes
//! with every error that is retryable.

use axum::http::StatusCode;
use himalia_engine::EngineError;
use himalia_wire::build::timestamp;

use crate::error::{ApiError, Detail, Quota};

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let native = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = error.retry_after_s();
        let mut made = Self {
            native_status: native,
            retryable: error.retryable(),
            is_limit: error.is_limit(),
            retry_after: retry_after.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX)),
            ..Self::new(
                jupyter_status(&error).unwrap_or(native),
                error.code(),
                error.to_string(),
            )
        };
        if let EngineError::KernelLimit { .. } = error {
            made.reason = Some("Resource Limit");
        }
        if let EngineError::KernelStart { stderr_tail, .. } = &error
            && !stderr_tail.is_empty()
        {
            made.stderr = Some(stderr_tail.clone());
        }
        made.detail = detail(error).map(Box::new);
        made
    }
}

/// Status in the Jupyter API, where it differs.
fn jupyter_status(error: &EngineError) -> Option<StatusCode> {
    match error {
        // A Jupyter client takes a kernel that is not found for one that has ended.
        EngineError::SessionEnded(_) | EngineError::Removed { .. } => Some(StatusCode::NOT_FOUND),
        EngineError::NoSuchTemplate { .. }
        | EngineError::NoSuchKernelspec { .. }
        | EngineError::NotOffered { .. } => Some(StatusCode::BAD_REQUEST),
        EngineError::KernelLimit { .. } => Some(StatusCode::FORBIDDEN),
        _ => None,
    }
}

fn detail(error: EngineError) -> Option<Detail> {
    let field = |name: &str| Some(Detail::Field(name.to_owned()));
    match error {
        EngineError::BadRequest { field: name, .. } | EngineError::NotOffered { field: name, .. } => {
            field(name)
        }
        EngineError::NoSuchTemplate { .. } => field("template"),
        EngineError::LanguageNotSupported { .. } => field("language"),
        EngineError::KeyReused => field("idempotency_key"),
        EngineError::NameEnded { last, .. } | EngineError::SessionEnded(last) => Some(Detail::Ended(last)),
        EngineError::Fork { hazards, .. } => Some(Detail::Hazards(hazards)),
        EngineError::IncarnationMismatch { incarnation, .. } => Some(Detail::Incarnation(incarnation)),
        EngineError::Tool(error) => error.server_status.map(Detail::ServerStatus),
        EngineError::QuotaExceeded {
            quota,
            limit,
            used,
            unit,
            until,
            ..
        } => Some(Detail::Quota(Quota {
            name: quota,
            limit,
            used,
            unit,
            resets: until.map(timestamp),
        })),
        _ => None,
    }
}
