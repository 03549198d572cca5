//! HTTP status of each error in the native API (`/v1`). Other interfaces say where they differ.

use crate::{EngineError, FileError, ForkError};

impl EngineError {
    /// HTTP status in the native API, the same for all that have this [`code`](Self::code).
    pub fn status(&self) -> u16 {
        match self {
            Self::BadRequest { .. } | Self::LanguageNotSupported { .. } => 400,
            Self::Forbidden { .. } => 403,
            Self::NotFound { .. }
            | Self::NameEnded { .. }
            | Self::NoSuchKernelspec { .. }
            | Self::NoSuchTemplate { .. } => 404,
            Self::Conflict { .. }
            | Self::KernelDead { .. }
            | Self::FailureLimit { .. }
            | Self::IncarnationMismatch { .. } => 409,
            Self::SessionEnded(_) | Self::Removed { .. } | Self::Gone { .. } => 410,
            Self::NotOffered { .. } | Self::KeyReused => 422,
            Self::KernelLimit { .. }
            | Self::OverBudget { .. }
            | Self::QueueFull { .. }
            | Self::QuotaExceeded { .. } => 429,
            Self::KernelStart { .. } | Self::Internal { .. } => 500,
            Self::Unsupported { .. } => 501,
            Self::Unavailable { .. } | Self::Busy { .. } => 503,
            Self::Timeout { .. } => 504,
            Self::DiskFull { .. } => 507,
            Self::Fork { code, .. } => code.status(),
            Self::Files { code, .. } => code.status(),
            Self::Tool(error) => error.code.status(),
        }
    }
}

impl ForkError {
    /// HTTP status in the native API.
    pub fn status(self) -> u16 {
        match self {
            Self::Busy | Self::Hazard | Self::Undone => 409,
            Self::FilesTooLarge => 413,
            Self::ProbeFailed | Self::Failed => 500,
            Self::Unsupported => 501,
        }
    }
}

impl FileError {
    /// HTTP status in the native API.
    pub fn status(self) -> u16 {
        match self {
            Self::BadPath | Self::Outside => 400,
            Self::Permission => 403,
            Self::NotFound => 404,
            Self::IsADirectory | Self::NotADirectory | Self::NotAFile | Self::NotEmpty => 409,
            Self::TooLarge => 413,
            Self::Range => 416,
            Self::BadArchive => 422,
            Self::TooMany => 429,
            Self::Failed => 500,
            Self::NoSpace | Self::Quota => 507,
        }
    }
}
