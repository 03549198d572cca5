//! The rows of ended sessions, and the room that the file takes.

use rusqlite::{Row, Transaction, named_params};
use uuid::Uuid;

use super::failure::Failure;
use super::{SqliteStore, kernels};
use crate::{EndedRecord, Space, StoreError};

/// A file that `sqlite3` wrote, after damage, can give nothing back before it is rewritten. Up to this size that is done.
const REWRITTEN_BYTES: u64 = 64 << 20;

pub(super) const INSERT: &str = "
INSERT OR REPLACE INTO ended_sessions
    (session_dir, id, owner, name, created_micros, ended_micros, cause, removed_micros, facts)
VALUES (:session_dir, :id, :owner, :name, :created_micros, :ended_micros, :cause, :removed_micros, :facts)";
pub(super) const REMOVED: &str =
    "UPDATE ended_sessions SET removed_micros = ?2, facts = '{}' WHERE session_dir = ?1";
pub(super) const FORGET: &str =
    "DELETE FROM ended_sessions WHERE removed_micros IS NOT NULL AND removed_micros < ?1";

impl SqliteStore {
    pub(super) async fn do_end_kernel(&self, ended: EndedRecord) -> Result<(), StoreError> {
        let (id, claim) = (ended.id, self.claim(ended.id));
        let end = move |transaction: &Transaction<'_>| {
            if claim.check(transaction)? {
                transaction
                    .prepare_cached(kernels::DELETE)?
                    .execute([ended.id.to_string()])?;
            }
            put(transaction, &ended)
        };
        self.write_then(end, move |claims, ()| claims.remove(id)).await
    }

    pub(super) async fn do_set_removed(
        &self,
        dirs: Vec<String>,
        at_micros: i64,
    ) -> Result<usize, StoreError> {
        self.write(move |transaction| {
            let mut update = transaction.prepare_cached(REMOVED)?;
            let mut count = 0;
            for dir in dirs {
                count += update.execute((dir, at_micros))?;
            }
            Ok(count)
        })
        .await
    }

    pub(super) async fn do_forget_ended(&self, micros: i64) -> Result<usize, StoreError> {
        self.write(move |transaction| Ok(transaction.prepare_cached(FORGET)?.execute([micros])?))
            .await
    }

    pub(super) async fn do_ended_sessions(&self) -> Result<Vec<EndedRecord>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT * FROM ended_sessions ORDER BY ended_micros, session_dir")?
                .query_map([], |row| Ok(read(row)))?
                .map(|row| row?)
                .collect()
        })
        .await
    }

    pub(super) async fn do_space(&self) -> Result<Space, StoreError> {
        self.read(space).await
    }

    /// A file that `sqlite3` wrote is rewritten once, if it is no larger than 64 MiB.
    pub(super) async fn do_compact(&self, pages: u32) -> Result<Space, StoreError> {
        self.on_writer(move |connection| {
            let automatic: i64 = connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0))?;
            let before = space(connection)?;
            if automatic == INCREMENTAL {
                let sql = format!("PRAGMA incremental_vacuum({pages})");
                let mut vacuum = connection.prepare(&sql)?;
                let mut rows = vacuum.query([])?;
                // One row for each page that went.
                while rows.next()?.is_some() {}
            } else if before.total_bytes <= REWRITTEN_BYTES {
                connection.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
                connection.execute_batch("VACUUM")?;
            }
            // A reader may hold some of it: then the next call does the rest.
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            space(connection)
        })
        .await
    }
}

/// `PRAGMA auto_vacuum` of a file whose free pages can be given back one by one.
pub(super) const INCREMENTAL: i64 = 2;

fn space(connection: &rusqlite::Connection) -> Result<Space, Failure> {
    let number = |name: &str| -> Result<u64, Failure> {
        let value: i64 = connection.pragma_query_value(None, name, |row| row.get(0))?;
        Ok(u64::try_from(value).unwrap_or(0))
    };
    let page = number("page_size")?;
    Ok(Space {
        total_bytes: page.saturating_mul(number("page_count")?),
        free_bytes: page.saturating_mul(number("freelist_count")?),
    })
}

fn put(transaction: &Transaction<'_>, ended: &EndedRecord) -> Result<(), Failure> {
    transaction.prepare_cached(INSERT)?.execute(named_params! {
        ":session_dir": ended.session_dir,
        ":id": ended.id.to_string(),
        ":owner": ended.owner,
        ":name": ended.name,
        ":created_micros": ended.created_micros,
        ":ended_micros": ended.ended_micros,
        ":cause": ended.cause,
        ":removed_micros": ended.removed_micros,
        ":facts": ended.facts.to_string(),
    })?;
    Ok(())
}

fn parse(facts: &str) -> Result<serde_json::Value, StoreError> {
    serde_json::from_str(facts).map_err(|error| StoreError::BadRow {
        table: "ended_sessions",
        column: "facts",
        reason: error.to_string(),
    })
}

fn read(row: &Row<'_>) -> Result<EndedRecord, Failure> {
    let id: String = row.get("id")?;
    Ok(EndedRecord {
        id: Uuid::try_parse(&id).map_err(|error| StoreError::BadRow {
            table: "ended_sessions",
            column: "id",
            reason: error.to_string(),
        })?,
        owner: row.get("owner")?,
        name: row.get("name")?,
        session_dir: row.get("session_dir")?,
        created_micros: row.get("created_micros")?,
        ended_micros: row.get("ended_micros")?,
        cause: row.get("cause")?,
        removed_micros: row.get("removed_micros")?,
        facts: parse(&row.get::<_, String>("facts")?)?,
    })
}
