//! Translates errors of provisioners for callers. Their text may name paths of the host, so most of it goes to the log.

use himalia_model::{EngineError, KernelId, NotOffered};
use himalia_provisioner::{SandboxError, SandboxId};

/// Causes of a start that fails while the cluster is full.
const NO_ROOM: &str = "unschedulable";
const NO_QUOTA: &str = "quota";

/// Error for a sandbox that could not be started.
pub(crate) fn not_started(id: KernelId, error: SandboxError) -> EngineError {
    match error {
        SandboxError::Isolation { .. } => {
            EngineError::not_offered(NotOffered::Isolation, "isolation", error.to_string())
        }
        SandboxError::NetworkUnsupported { .. } => {
            EngineError::not_offered(NotOffered::Network, "network", error.to_string())
        }
        // It passes by itself: other sessions end, and nodes are added.
        SandboxError::NotPlaced {
            code: NO_ROOM | NO_QUOTA,
            ..
        } => EngineError::unavailable(format!("the cluster has no room for the session now: {error}")),
        // Names the image only, and how to get it.
        // The cluster's reason names no more than the kind of resource or image, which is what a caller can change.
        SandboxError::ImageMissing { .. } | SandboxError::NotPlaced { .. } => EngineError::KernelStart {
            cause: error.to_string(),
            stderr_tail: String::new(),
        },
        SandboxError::BadSpec { field, reason } => EngineError::bad_request(field, reason),
        other => {
            tracing::error!(kernel = %id, error = %other, "cannot start a sandbox");
            away(&other).unwrap_or_else(|| EngineError::KernelStart {
                cause: "its sandbox could not be started".to_owned(),
                stderr_tail: String::new(),
            })
        }
    }
}

/// Error for an operation on a sandbox that failed.
pub fn not_done(id: SandboxId, context: &str, error: &SandboxError) -> EngineError {
    match away(error) {
        Some(away) => {
            tracing::warn!(sandbox = %id, %error, "{context}");
            away
        }
        None => EngineError::internal(context, error),
    }
}

/// While the container engine or the cluster is away the same call may succeed later, whatever it is.
fn away(error: &SandboxError) -> Option<EngineError> {
    match error {
        SandboxError::Engine { away: true, .. } => {
            Some(EngineError::unavailable("the container engine does not answer"))
        }
        SandboxError::Cluster { away: true, .. } => Some(EngineError::unavailable(
            "the cluster's API server does not answer",
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_without_room_may_have_some_later() {
        for (code, retryable) in [
            ("unschedulable", true),
            ("quota", true),
            ("image", false),
            ("container_config", false),
            ("slow", false),
        ] {
            let reason = "2 Insufficient cpu".to_owned();
            let error = not_started(KernelId::random(), SandboxError::NotPlaced { code, reason });
            assert_eq!(error.retryable(), retryable, "{code}");
            assert_eq!(
                matches!(error, EngineError::KernelStart { .. }),
                !retryable,
                "{code}"
            );
            let text = error.to_string();
            assert!(
                text.contains(code) && text.contains("2 Insufficient cpu"),
                "{text}"
            );
        }
    }
}
