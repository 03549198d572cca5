//! The room that the file takes.

use super::SqliteStore;
use crate::failure::Failure;
use crate::{Space, StoreError};

/// A file that `sqlite3` wrote, after damage, can give nothing back before it is rewritten. Up to this size that is done.
const REWRITTEN_BYTES: u64 = 64 << 20;

impl SqliteStore {
    pub(crate) async fn do_space(&self) -> Result<Space, StoreError> {
        self.read(space).await
    }

    /// A file that `sqlite3` wrote is rewritten once, if it is no larger than 64 MiB.
    pub(crate) async fn do_compact(&self, pages: u32) -> Result<Space, StoreError> {
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
