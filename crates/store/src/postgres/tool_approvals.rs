//! The rows of tools that are approved, which all replicas share.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::PostgresStore;
use super::failure::Failure;
use super::membership::check_member;
use crate::{StoreError, ToolApprovalAdded, ToolApprovalRecord};

/// Two replicas that add at once can exceed the quota, each by one.
const ADD: &str = "
INSERT INTO himalia.tool_approvals AS held (id, owner, caller, template, tool, definition, approved_by, approved_micros)
SELECT $3, $4, $5, $6, $7, $8, $9, $10
WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
  AND (SELECT count(*) < $11::bigint FROM himalia.tool_approvals
       WHERE owner = $4 AND (caller, template, tool) <> ($5, $6, $7))
ON CONFLICT (owner, caller, template, tool) DO UPDATE
SET id = excluded.id, definition = excluded.definition, approved_by = excluded.approved_by,
    approved_micros = excluded.approved_micros
WHERE held.definition <> excluded.definition";

const HELD: &str = "
SELECT 1 FROM himalia.tool_approvals WHERE owner = $1 AND caller = $2 AND template = $3 AND tool = $4
  AND definition = $5";

const LIST: &str = "
SELECT * FROM himalia.tool_approvals WHERE $1::text IS NULL OR owner = $1
ORDER BY owner COLLATE \"C\", caller COLLATE \"C\", template COLLATE \"C\", tool COLLATE \"C\"";

const DELETE: &str = "
DELETE FROM himalia.tool_approvals WHERE id = $3 AND ($4::text IS NULL OR owner = $4)
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

impl PostgresStore {
    pub(super) async fn do_add_tool_approval(
        &self,
        record: ToolApprovalRecord,
        most: i64,
    ) -> Result<ToolApprovalAdded, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let ToolApprovalRecord {
                    id,
                    owner,
                    caller,
                    template,
                    tool,
                    definition,
                    approved_by,
                    approved_micros,
                } = &record;
                let added = link
                    .execute(
                        ADD,
                        &[
                            &replica,
                            &me.epoch,
                            id,
                            owner,
                            caller,
                            template,
                            tool,
                            definition,
                            approved_by,
                            approved_micros,
                            &most,
                        ],
                    )
                    .await?;
                if added == 1 {
                    return Ok(ToolApprovalAdded::Added);
                }
                let held = link
                    .query(HELD, &[owner, caller, template, tool, definition])
                    .await?;
                if !held.is_empty() {
                    return Ok(ToolApprovalAdded::Present);
                }
                check_member(&link, &me).await?;
                Ok(ToolApprovalAdded::Full)
            })
            .await
    }

    pub(super) async fn do_has_tool_approval(
        &self,
        owner: String,
        caller: String,
        template: String,
        tool: String,
        definition: String,
    ) -> Result<bool, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let place: [&(dyn ToSql + Sync); 5] = [&owner, &caller, &template, &tool, &definition];
                let held = link.query(HELD, &place).await?;
                Ok(!held.is_empty())
            })
            .await
    }

    pub(super) async fn do_tool_approvals(
        &self,
        owner: Option<String>,
    ) -> Result<Vec<ToolApprovalRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move { link.query(LIST, &[&owner]).await?.iter().map(read).collect() })
            .await
    }

    pub(super) async fn do_delete_tool_approval(
        &self,
        owner: Option<String>,
        id: Uuid,
    ) -> Result<bool, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let deleted = link.execute(DELETE, &[&replica, &me.epoch, &id, &owner]).await?;
                Ok(deleted == 1)
            })
            .await
    }
}

fn read(row: &Row) -> Result<ToolApprovalRecord, Failure> {
    Ok(ToolApprovalRecord {
        id: row.try_get("id")?,
        owner: row.try_get("owner")?,
        caller: row.try_get("caller")?,
        template: row.try_get("template")?,
        tool: row.try_get("tool")?,
        definition: row.try_get("definition")?,
        approved_by: row.try_get("approved_by")?,
        approved_micros: row.try_get("approved_micros")?,
    })
}
