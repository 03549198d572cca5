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
use himalia_engine::{EngineError, FileError, ForkError};
use himalia_wire::build::timestamp;

use crate::error::{ApiError, Detail, Quota};

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        let (code, retryable, is_limit) = (error.code(), error.retryable(), error.is_limit());
        let retry_after = error.retry_after_s();
        let retry_after = retry_after.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX));
        let made = match error {
            EngineError::NotFound { .. } => Self::new(StatusCode::NOT_FOUND, code, message),
            EngineError::NameEnded { last, .. } => Self {
                detail: Some(Box::new(Detail::Ended(last))),
                ..Self::new(StatusCode::NOT_FOUND, code, message)
            },
            // A Jupyter client takes a kernel that is not found for one that has ended.
            EngineError::SessionEnded(ended) => Self {
                native_status: StatusCode::GONE,
                detail: Some(Box::new(Detail::Ended(ended))),
                ..Self::new(StatusCode::NOT_FOUND, code, message)
            },
            EngineError::BadRequest { field, .. } => Self::bad_request(message).at(field),
            EngineError::NoSuchTemplate { .. } => Self {
                native_status: StatusCode::NOT_FOUND,
                ..Self::new(StatusCode::BAD_REQUEST, code, message).at("template")
            },
            EngineError::NotOffered { field, .. } => Self {
                native_status: StatusCode::UNPROCESSABLE_ENTITY,
                ..Self::new(StatusCode::BAD_REQUEST, code, message).at(field)
            },
            EngineError::Fork {
                code: why, hazards, ..
            } => Self {
                detail: Some(Box::new(Detail::Hazards(hazards))),
                ..Self::new(fork_status(why), code, message)
            },
            EngineError::NoSuchKernelspec { .. } => Self {
                native_status: StatusCode::NOT_FOUND,
                ..Self::new(StatusCode::BAD_REQUEST, code, message)
            },
            EngineError::Forbidden { .. } => Self::forbidden(&message),
            EngineError::KernelLimit { .. } => Self {
                native_status: StatusCode::TOO_MANY_REQUESTS,
                reason: Some("Resource Limit"),
                ..Self::new(StatusCode::FORBIDDEN, code, message)
            },
            EngineError::Conflict { .. }
            | EngineError::KernelDead { .. }
            | EngineError::FailureLimit { .. } => Self::new(StatusCode::CONFLICT, code, message),
            EngineError::Gone { .. } => Self::new(StatusCode::GONE, code, message),
            EngineError::Removed { .. } => Self {
                native_status: StatusCode::GONE,
                ..Self::new(StatusCode::NOT_FOUND, code, message)
            },
            EngineError::Unavailable { .. } | EngineError::Busy { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
            }
            EngineError::Timeout { .. } => Self::new(StatusCode::GATEWAY_TIMEOUT, code, message),
            EngineError::KernelStart { stderr_tail, .. } => Self {
                stderr: (!stderr_tail.is_empty()).then_some(stderr_tail),
                ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, code, message)
            },
            EngineError::OverBudget { .. } | EngineError::QueueFull { .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, code, message)
            }
            EngineError::QuotaExceeded {
                quota,
                limit,
                used,
                unit,
                until,
                ..
            } => Self {
                detail: Some(Box::new(Detail::Quota(Quota {
                    name: quota,
                    limit,
                    used,
                    unit,
                    resets: until.map(timestamp),
                }))),
                ..Self::new(StatusCode::TOO_MANY_REQUESTS, code, message)
            },
            EngineError::DiskFull { .. } => Self::new(StatusCode::INSUFFICIENT_STORAGE, code, message),
            EngineError::IncarnationMismatch { incarnation, .. } => Self {
                detail: Some(Box::new(Detail::Incarnation(incarnation))),
                ..Self::new(StatusCode::CONFLICT, code, message)
            },
            EngineError::Unsupported { .. } => Self::new(StatusCode::NOT_IMPLEMENTED, code, message),
            EngineError::LanguageNotSupported { .. } => {
                Self::new(StatusCode::BAD_REQUEST, code, message).at("language")
            }
            EngineError::Files { code: why, .. } => Self::new(file_status(why), code, message),
            EngineError::Tool(error) => {
                let status = StatusCode::from_u16(error.code.status());
                Self {
                    detail: error
                        .server_status
                        .map(|status| Box::new(Detail::ServerStatus(status))),
                    ..Self::new(status.unwrap_or(StatusCode::BAD_GATEWAY), code, message)
                }
            }
            EngineError::KeyReused => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message).at("idempotency_key")
            }
            EngineError::Internal { .. } => Self::new(StatusCode::INTERNAL_SERVER_ERROR, code, message),
            other => {
                tracing::error!(error = %other, "an engine error without a status code");
                Self::internal("unexpected")
            }
        };
        Self {
            retryable,
            is_limit,
            retry_after,
            ..made
        }
    }
}

fn fork_status(code: ForkError) -> StatusCode {
    match code {
        ForkError::Busy | ForkError::Hazard | ForkError::Undone => StatusCode::CONFLICT,
        ForkError::Unsupported => StatusCode::NOT_IMPLEMENTED,
        ForkError::FilesTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn file_status(code: FileError) -> StatusCode {
    match code {
        FileError::NotFound => StatusCode::NOT_FOUND,
        FileError::BadPath | FileError::Outside => StatusCode::BAD_REQUEST,
        FileError::Permission => StatusCode::FORBIDDEN,
        FileError::IsADirectory | FileError::NotADirectory | FileError::NotAFile | FileError::NotEmpty => {
            StatusCode::CONFLICT
        }
        FileError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        FileError::Range => StatusCode::RANGE_NOT_SATISFIABLE,
        FileError::BadArchive => StatusCode::UNPROCESSABLE_ENTITY,
        FileError::TooMany => StatusCode::TOO_MANY_REQUESTS,
        FileError::NoSpace | FileError::Quota => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
