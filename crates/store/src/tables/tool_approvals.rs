//! Tools that a person has approved for all later sessions of a template.

use uuid::Uuid;

use crate::failure::Failure;
use crate::part::part;
use crate::sql::{Param, Record as _, Sql, changed, check_member, exists, params, record};

/// One row of `tool_approvals`: the sessions of a template that a caller of an owner starts may call the tool.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ToolApprovalRecord {
    /// The id by which it is revoked.
    pub id: Uuid,
    /// A tenant, or the operator.
    pub owner: String,
    /// The caller that starts the sessions: the name that [`owner`](Self::owner) has for it.
    pub caller: String,
    /// The template of the sessions.
    pub template: String,
    /// The tool: `server.tool`.
    pub tool: String,
    /// A digest of the tool as it was when it was approved: another definition is not approved.
    pub definition: String,
    /// The principal that approved it.
    pub approved_by: String,
    /// The time of the approval, in microseconds since the Unix epoch.
    pub approved_micros: i64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ToolApprovalAdded {
    /// The approval is stored.
    Added,
    /// The tool was approved before for these sessions, with this definition.
    Present,
    /// The owner has as many approvals as it may.
    Full,
}

record!(ToolApprovalRecord in "tool_approvals" {
    id, owner, caller, template, tool, definition, approved_by, approved_micros
});

part! {
    /// Approvals of tools.
    ToolApprovalStore {
        /// Adds an approval of a tool, if its owner has fewer than `most`. One that is there for these sessions stays as it is.
        write fn add_tool_approval(record: ToolApprovalRecord, most: i64) -> ToolApprovalAdded;

        /// Returns true if a tool is approved for the sessions of a template that a caller of an owner starts.
        read fn has_tool_approval(owner: String, caller: String, template: String, tool: String, definition: String) -> bool;

        /// The approvals of tools of an owner, or of all, by owner, caller, template and tool.
        read fn tool_approvals(owner: Option<String>) -> Vec<ToolApprovalRecord> = list(LIST, owner);

        /// Forgets an approval of an owner, or of any; `false` when there is none.
        write fn delete_tool_approval(owner: Option<String>, id: Uuid) -> bool = changed(DELETE, id, owner);
    }
}

/// The approval of another definition is replaced. Two replicas that add at once can exceed the quota, each by one.
const ADD: &str = "
INSERT INTO himalia.tool_approvals AS held (id, owner, caller, template, tool, definition, approved_by, approved_micros)
SELECT $1, $2, $3, $4, $5, $6, $7, $8
WHERE {member} AND (SELECT count(*) < $9 FROM himalia.tool_approvals
                    WHERE owner = $2 AND (caller, template, tool) <> ($3, $4, $5))
ON CONFLICT (owner, caller, template, tool) DO UPDATE
SET id = excluded.id, definition = excluded.definition, approved_by = excluded.approved_by,
    approved_micros = excluded.approved_micros
WHERE held.definition <> excluded.definition";

const HELD: &str = "
SELECT 1 FROM himalia.tool_approvals
WHERE owner = $1 AND caller = $2 AND template = $3 AND tool = $4 AND definition = $5";

const LIST: &str = r#"
SELECT * FROM himalia.tool_approvals WHERE owner = $1 OR $1 IS NULL
ORDER BY owner{postgres  COLLATE "C"}, caller{postgres  COLLATE "C"}, template{postgres  COLLATE "C"}, tool{postgres  COLLATE "C"}"#;

const DELETE: &str =
    "DELETE FROM himalia.tool_approvals WHERE id = $1 AND (owner = $2 OR $2 IS NULL) AND {member}";

async fn add_tool_approval(
    sql: &impl Sql,
    record: ToolApprovalRecord,
    most: i64,
) -> Result<ToolApprovalAdded, Failure> {
    let mut values = record.values();
    values.push(Param::from(&most));
    if changed(sql, ADD, &values).await? {
        return Ok(ToolApprovalAdded::Added);
    }
    let ToolApprovalRecord {
        owner,
        caller,
        template,
        tool,
        definition,
        ..
    } = &record;
    if exists(sql, HELD, params![owner, caller, template, tool, definition]).await? {
        return Ok(ToolApprovalAdded::Present);
    }
    check_member(sql).await?;
    Ok(ToolApprovalAdded::Full)
}

async fn has_tool_approval(
    sql: &impl Sql,
    owner: String,
    caller: String,
    template: String,
    tool: String,
    definition: String,
) -> Result<bool, Failure> {
    exists(sql, HELD, params![owner, caller, template, tool, definition]).await
}
