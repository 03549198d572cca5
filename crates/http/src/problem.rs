//! Problem documents (RFC 9457): the bodies of errors of the native API.

use himalia_engine::{Hazard, KernelId, explain_code};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{ApiError, Detail, Quota};
use crate::openapi::codes;
use crate::request_id::RequestId;

/// A problem document (RFC 9457).
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Problem {
    r#type: &'static str,
    title: Option<&'static str>,
    status: u16,
    /// One line for humans.
    detail: String,
    /// A stable code for programs.
    code: &'static str,
    /// True if the same call may succeed later.
    retryable: bool,
    /// Seconds after which to try again, as in the header `Retry-After`: for every retryable problem, and for a failed call of a tool
    /// whose server named them.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_s: Option<u32>,
    /// The invalid member or parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The hazards in a session that prevent a fork.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hazards: Vec<ForkHazard>,
    /// The current kernel process, which is not the expected one.
    #[serde(skip_serializing_if = "Option::is_none")]
    incarnation: Option<u32>,
    /// The ended session.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<KernelId>,
    /// Time of its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    ended: Option<String>,
    /// The reason of the end: `killed_by_user`, `idle_culled`, `ttl` …
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The quota that is exhausted.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<Quota>,
    /// The HTTP status with which the server of a tool refused the call: 300 to 599.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_status: Option<u16>,
    /// The end of the kernel's standard error, for a failed start.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    /// The id of the request, as in the header `X-Request-Id` and in the gateway's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

impl From<&ApiError> for Problem {
    fn from(error: &ApiError) -> Self {
        let (status, detail) = (error.native_status, error.detail.as_deref());
        let over = match detail {
            Some(Detail::Ended(over)) => Some(over),
            _ => None,
        };
        debug_assert!(
            codes::known(status.as_u16(), error.code),
            "{status} {} is in no group of codes",
            error.code
        );
        debug_assert!(
            explain_code(error.code).is_some_and(|row| row.may_be(error.retryable)),
            "{} is retryable: {}, and docs/reference/errors.md has something else",
            error.code,
            error.retryable
        );
        Self {
            r#type: "about:blank",
            title: status.canonical_reason(),
            status: status.as_u16(),
            detail: error.message.clone(),
            code: error.code,
            retryable: error.retryable,
            retry_after_s: error.retry_after,
            field: match detail {
                Some(Detail::Field(field)) => Some(field.clone()),
                _ => None,
            },
            hazards: match detail {
                Some(Detail::Hazards(hazards)) => hazards.iter().cloned().map(ForkHazard::from).collect(),
                _ => Vec::new(),
            },
            incarnation: match detail {
                Some(Detail::Incarnation(incarnation)) => Some(*incarnation),
                _ => None,
            },
            session: over.map(|over| over.id.first_kernel()),
            ended: over.map(|over| timestamp(over.ended)),
            reason: over.map(|over| over.cause.clone()),
            quota: match detail {
                Some(Detail::Quota(quota)) => Some(quota.clone()),
                _ => None,
            },
            server_status: match detail {
                Some(Detail::ServerStatus(status)) => Some(*status),
                _ => None,
            },
            stderr: error.stderr.clone(),
            request_id: None,
        }
    }
}

/// The problem document of an error, with the id of its request.
pub(crate) fn problem(error: &ApiError, id: Option<RequestId>) -> Value {
    json!(Problem {
        request_id: id.map(|id| id.as_str().to_owned()),
        ..Problem::from(error)
    })
}

/// Something in a session that a fork may break.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Hazard")]
pub(crate) struct ForkHazard {
    /// `native-thread`, `process-pool`, `cuda` …
    kind: String,
    /// Name of the hazard, for example of a thread, a library or a pool.
    name: String,
    /// One line for humans.
    detail: String,
    severity: Severity,
}

/// The effect of a hazard on a fork.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// It prevents the fork under every policy.
    Refuse,
    /// It prevents the fork under `strict`, and is reported under `report`.
    Warn,
}

impl From<Hazard> for ForkHazard {
    fn from(hazard: Hazard) -> Self {
        Self {
            kind: hazard.kind,
            name: hazard.name,
            detail: hazard.detail,
            severity: if hazard.refuses {
                Severity::Refuse
            } else {
                Severity::Warn
            },
        }
    }
}
