//! Errors of the engine as errors of the Jupyter and the native API. [`EngineError::status`] is the status in the native API.
//!
//! `JupyterLab` knows no templates, so their errors are a kernelspec's there: 400; 501 for sessions; 404 where the kernelspec itself is asked
//! for. It also expects 410 for the vanished kernel of a session. `Retry-After` goes with every error that is retryable.

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
        match error {
            EngineError::KernelLimit { .. } => made.reason = Some("Resource Limit"),
            EngineError::KernelStart { stderr_tail, .. } => {
                made.stderr = Some(stderr_tail).filter(|tail| !tail.is_empty());
            }
            other => made.detail = detail(other).map(Box::new),
        }
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
