//! The rows of tools that are approved.

use rusqlite::{Row, named_params, params, params_from_iter};
use uuid::Uuid;

use super::SqliteStore;
use super::triggers::id;
use crate::{StoreError, ToolApprovalAdded, ToolApprovalRecord};

const INSERT: &str = "
INSERT INTO tool_approvals (id, owner, caller, template, tool, definition, approved_by, approved_micros)
VALUES (:id, :owner, :caller, :template, :tool, :definition, :approved_by, :approved_micros)";

/// The approval of another definition is of no use any more.
const FORGET: &str = "
DELETE FROM tool_approvals WHERE owner = ?1 AND caller = ?2 AND template = ?3 AND tool = ?4";

const HELD: &str = "
SELECT 1 FROM tool_approvals WHERE owner = ?1 AND caller = ?2 AND template = ?3 AND tool = ?4
  AND definition = ?5";

const LIST: &str = "
SELECT * FROM tool_approvals WHERE ?1 IS NULL OR owner = ?1 ORDER BY owner, caller, template, tool";

impl SqliteStore {
    pub(super) async fn do_add_tool_approval(
        &self,
        record: ToolApprovalRecord,
        most: i64,
    ) -> Result<ToolApprovalAdded, StoreError> {
        self.write(move |transaction| {
            let place = [&record.owner, &record.caller, &record.template, &record.tool];
            let held = place.into_iter().chain([&record.definition]);
            if transaction.prepare_cached(HELD)?.exists(params_from_iter(held))? {
                return Ok(ToolApprovalAdded::Present);
            }
            transaction.prepare_cached(FORGET)?.execute(place)?;
            let held: i64 = transaction
                .prepare_cached("SELECT count(*) FROM tool_approvals WHERE owner = ?1")?
                .query_row([&record.owner], |row| row.get(0))?;
            if held >= most {
                return Ok(ToolApprovalAdded::Full);
            }
            transaction.prepare_cached(INSERT)?.execute(named_params! {
                ":id": record.id.to_string(),
                ":owner": record.owner,
                ":caller": record.caller,
                ":template": record.template,
                ":tool": record.tool,
                ":definition": record.definition,
                ":approved_by": record.approved_by,
                ":approved_micros": record.approved_micros,
            })?;
            Ok(ToolApprovalAdded::Added)
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
        self.read(move |connection| {
            let mut select = connection.prepare_cached(HELD)?;
            Ok(select.exists([&owner, &caller, &template, &tool, &definition])?)
        })
        .await
    }

    pub(super) async fn do_tool_approvals(
        &self,
        owner: Option<String>,
    ) -> Result<Vec<ToolApprovalRecord>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(LIST)?;
            let rows = select.query_map(params![owner], read)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_delete_tool_approval(
        &self,
        owner: Option<String>,
        id: Uuid,
    ) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            let mut delete = transaction
                .prepare_cached("DELETE FROM tool_approvals WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)")?;
            Ok(delete.execute(params![id.to_string(), owner])? == 1)
        })
        .await
    }
}

fn read(row: &Row<'_>) -> Result<ToolApprovalRecord, rusqlite::Error> {
    Ok(ToolApprovalRecord {
        id: id(row, "id")?,
        owner: row.get("owner")?,
        caller: row.get("caller")?,
        template: row.get("template")?,
        tool: row.get("tool")?,
        definition: row.get("definition")?,
        approved_by: row.get("approved_by")?,
        approved_micros: row.get("approved_micros")?,
    })
}
