//! Errors on their way to clients.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use himalia_engine::{EndedSession, Hazard};

/// An error on its way to a client. `render` gives it the body of the dialect that the client speaks.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one error")]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    /// The status in the native API, where it differs.
    pub(crate) native_status: StatusCode,
    /// Stable word for programs.
    pub(crate) code: &'static str,
    /// One line for humans.
    pub(crate) message: String,
    /// Details for the native API only; few errors have them.
    pub(crate) detail: Option<Box<Detail>>,
    /// The Jupyter body's `reason`; the status' own phrase if `None`.
    pub(crate) reason: Option<&'static str>,
    pub(crate) retryable: bool,
    /// The scope of the token is the reason.
    pub(crate) needs_scope: bool,
    /// A limit is the reason: it is held back.
    pub(crate) is_limit: bool,
    /// Seconds.
    pub(crate) retry_after: Option<u32>,
    /// Close the connection after the reply.
    pub(crate) close: bool,
    /// The end of the kernel's standard error, for a failed start.
    pub(crate) stderr: Option<String>,
    /// Jupyter's `short_message`, which `JupyterLab` shows for a session's unknown kernelspec.
    pub(crate) short_message: bool,
}

/// Members of a problem document beside the usual ones.
#[derive(Clone, Debug)]
pub(crate) enum Detail {
    /// The field of the request that is at fault.
    Field(String),
    /// The hazards in a session that prevent a fork.
    Hazards(Vec<Hazard>),
    /// The current kernel process, which is not the expected one.
    Incarnation(u32),
    Ended(EndedSession),
    /// The quota that is exhausted.
    Quota(Quota),
    /// The HTTP status with which the server of a tool refused a call.
    ServerStatus(u16),
}

/// A quota that is exhausted.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
pub(crate) struct Quota {
    /// The key in the configuration: `cpu_seconds_per_day`, `sandbox_memory`.
    pub(crate) name: &'static str,
    pub(crate) limit: u64,
    pub(crate) used: u64,
    /// The unit of both numbers: `seconds`, `bytes`, `characters`.
    pub(crate) unit: &'static str,
    /// When it will be possible again. Null: when less is used.
    #[schemars(extend("format" = "date-time"))]
    pub(crate) resets: Option<String>,
}

impl ApiError {
    /// An error without anything special.
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            native_status: status,
            code,
            message: message.into(),
            detail: None,
            reason: None,
            retryable: false,
            needs_scope: false,
            is_limit: false,
            retry_after: None,
            close: false,
            stderr: None,
            short_message: false,
        }
    }

    /// 400.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// 400 for a field of the request: the message is the field and what is wrong with it.
    pub(crate) fn bad_field(field: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        let field = field.into();
        Self::bad_request(format!("{field}: {reason}")).at(field)
    }

    /// The same error, which is the fault of this field.
    pub(crate) fn at(mut self, field: impl Into<String>) -> Self {
        self.detail = Some(Box::new(Detail::Field(field.into())));
        self
    }

    /// 401.
    pub(crate) fn unauthenticated() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthenticated",
            "a valid token is required",
        )
    }

    /// 401 for the signed address of a file that stands for no token.
    pub(crate) fn wrong_signature() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthenticated",
            "the signature is wrong, or is for a sandbox of another replica; where there are many sandboxes, add &sandbox=<id> \
             to the address",
        )
    }

    /// 401 for a signature that was valid until a time that has passed. Clients compare these words.
    pub(crate) fn expired_signature() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthenticated",
            "signature is already expired",
        )
    }

    /// 429 after too many wrong tokens.
    pub(crate) fn too_many_wrong_tokens(wait: Duration) -> Self {
        Self {
            retry_after: Some(
                u32::try_from(wait.as_secs())
                    .unwrap_or(u32::MAX)
                    .saturating_add(1),
            ),
            close: true,
            ..Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_wrong_tokens",
                "too many wrong tokens",
            )
        }
    }

    /// 403.
    pub(crate) fn forbidden(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// 404: nothing is at this address.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// 404: the session that a path names.
    pub(crate) fn no_session(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "session_not_found", message)
    }

    /// 405.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "this method is not supported here",
        )
    }

    /// 500 whose cause is in the log.
    pub(crate) fn internal(context: &str) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!("internal error: {context}"),
        )
    }

    /// The same error for the sessions API: 501 for an unknown kernelspec.
    pub(crate) fn for_session(mut self) -> Self {
        if self.code == "kernelspec_not_found" || self.code == "template_not_found" {
            self.status = StatusCode::NOT_IMPLEMENTED;
            self.short_message = true;
        }
        self
    }

    /// The same error where the kernelspec itself is asked for: 404.
    pub(crate) fn for_kernelspec(mut self) -> Self {
        if self.code == "kernelspec_not_found" {
            self.status = StatusCode::NOT_FOUND;
        }
        self
    }
}

impl IntoResponse for ApiError {
    /// An empty reply that carries the error to `render`.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(Box::new(self));
        response
    }
}
