//! `/v1/tool-approvals`: tools that a person has approved for later sessions of the same caller and template.

use axum::Json;
use axum::extract::{Path, State};
use himalia_engine::ToolApproval;
use schemars::JsonSchema;
use serde::Serialize;

use super::answers::Empty;
use super::dates::date;
use super::input::{ListQuery, Parameters, by_id};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// A tool that is called without a question, in sessions of one template that one caller starts.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ToolApproval")]
pub(crate) struct ToolApprovalView {
    #[schemars(extend("format" = "uuid"))]
    id: String,
    /// The tenant of the sessions, or `operator`.
    owner: String,
    /// The caller that starts the sessions.
    caller: String,
    /// The template of the sessions.
    template: String,
    /// The tool: `server.tool`.
    tool: String,
    /// The caller that approved it.
    approved_by: String,
    /// When it was approved.
    #[schemars(extend("format" = "date-time"))]
    approved: String,
}

impl From<ToolApproval> for ToolApprovalView {
    fn from(approval: ToolApproval) -> Self {
        Self {
            id: approval.id.to_string(),
            owner: approval.owner,
            caller: approval.caller,
            template: approval.template,
            tool: approval.tool,
            approved_by: approval.approved_by,
            approved: date(approval.approved_micros),
        }
    }
}

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ToolApprovalPage {
    approvals: Vec<ToolApprovalView>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// The letter of its cursors.
const LIST: char = 'j';

/// `GET /v1/tool-approvals`: those of the caller's tenant, for the operator all, by owner, caller, template and tool.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<ListQuery<LIST>>,
) -> Result<Json<ToolApprovalPage>, ApiError> {
    let all = app.engine().tool_approvals(&principal).await?;
    let key = |one: &ToolApprovalView| format!("{}/{} {} {}", one.owner, one.caller, one.template, one.tool);
    let mut all: Vec<ToolApprovalView> = all.into_iter().map(ToolApprovalView::from).collect();
    all.sort_by_cached_key(key);
    let (approvals, next) = wanted.page(all, key);
    Ok(Json(ToolApprovalPage { approvals, next }))
}

/// `DELETE /v1/tool-approvals/{approval_id}`: 204 once each call is asked for again.
pub(crate) async fn revoke(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<Empty<204>, ApiError> {
    by_id(id, async |id| {
        app.engine().revoke_tool_approval(&principal, id).await
    })
    .await?;
    Ok(Empty)
}
