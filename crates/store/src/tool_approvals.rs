//! Tools that a person has approved for all later sessions of a template.

use uuid::Uuid;

/// One row of `tool_approvals`: the sessions of a template that a caller of an owner starts may call the tool.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ToolApprovalRecord {
    /// Its id.
    pub id: Uuid,
    /// A tenant, or the operator.
    pub owner: String,
    /// Who starts the sessions: [`owner`](Self::owner)'s name for the caller.
    pub caller: String,
    /// The template of the sessions.
    pub template: String,
    /// The tool: `server.tool`.
    pub tool: String,
    /// A digest of the tool as it was when it was approved: another definition is not approved.
    pub definition: String,
    /// The principal that approved it.
    pub approved_by: String,
    /// When, in microseconds since the Unix epoch.
    pub approved_micros: i64,
}

/// What came of adding one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ToolApprovalAdded {
    /// It is there.
    Added,
    /// The tool was approved before for these sessions, with this definition.
    Present,
    /// Its owner has as many as it may.
    Full,
}
