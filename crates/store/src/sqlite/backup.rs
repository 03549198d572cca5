//! A copy of the file, and what a copy must forget.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::{open, schema};
use crate::StoreError;
use crate::failure::Failure;
use crate::tables::migrations::MIGRATIONS;

/// Copies the database at `from` to the new file `to`, as it is at one moment, also while a gateway writes to it. Blocks on the disk.
///
/// # Errors
/// As [`SqliteStore::open`](crate::SqliteStore::open), without [`StoreError::Locked`]. `to` is to be removed then.
pub fn copy_database(from: &Path, to: &Path) -> Result<(), StoreError> {
    if !open::inspect(from, MIGRATIONS)? {
        return Err(StoreError::Corrupt {
            path: from.to_owned(),
            detail: "it does not exist, or is empty".to_owned(),
        });
    }
    open::create(to)?;
    let connection = open::connect(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let text = to.to_str().ok_or_else(|| StoreError::Io {
        path: to.to_owned(),
        source: std::io::Error::other("the path is not UTF-8"),
    })?;
    let done = connection.execute("VACUUM INTO ?1", [text]);
    done.map_err(|error| open::explain(from, error.into()))?;
    Ok(())
}

/// Makes every sandbox unknown to this copy of a database: their rows get ids and keys that no sandbox has. The gateway that opens it takes
/// them for lost, and cannot reach sandboxes that another gateway may still have. Returns the number of kernels. Blocks on the disk.
///
/// # Errors
/// As [`SqliteStore::open`](crate::SqliteStore::open).
pub fn detach_sandboxes(path: &Path) -> Result<usize, StoreError> {
    if !open::inspect(path, MIGRATIONS)? {
        return Err(StoreError::Corrupt {
            path: path.to_owned(),
            detail: "it is empty".to_owned(),
        });
    }
    let connection = open::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let detach = |connection: &Connection| -> Result<usize, Failure> {
        if schema::version(connection)? == 0 {
            return Ok(0);
        }
        Ok(connection.execute(
            "UPDATE kernels SET sandbox_id = lower(hex(randomblob(16))), sandbox_key_hash = randomblob(32)",
            [],
        )?)
    };
    detach(&connection).map_err(|failure| open::explain(path, failure))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use uuid::Uuid;

    use super::*;
    use crate::tests::kernel;
    use crate::{Scope, SessionStore as _, SqliteStore, Store as _};

    #[tokio::test]
    async fn a_copy_has_what_was_committed_and_none_of_the_sandboxes() {
        let dir = TempDir::new().unwrap();
        let (from, to) = (dir.path().join("a.db"), dir.path().join("b.db"));
        assert!(copy_database(&from, &to).is_err(), "there is nothing to copy");
        let store = SqliteStore::open(&from, "main").unwrap();
        store.insert_kernel(kernel(1)).await.unwrap();
        // The gateway has it open, and what it wrote is in its log alone.
        copy_database(&from, &to).unwrap();
        store.insert_kernel(kernel(2)).await.unwrap();
        assert_eq!(detach_sandboxes(&to).unwrap(), 1);
        let copy = SqliteStore::open(&to, "main").unwrap();
        assert_eq!(copy.epoch(), store.epoch() + 1);
        let row = copy.kernel(Uuid::from_u128(1)).await.unwrap().unwrap();
        assert_eq!(copy.kernels(Scope::All).await.unwrap().len(), 1);
        let (before, after) = (kernel(1).paths, &row.paths);
        assert_ne!(before.sandbox_id, after.sandbox_id);
        assert_eq!(before.sandbox_id.len(), after.sandbox_id.len());
        assert_ne!(before.sandbox_key_hash, after.sandbox_key_hash);
        assert_eq!(before.session_dir, after.session_dir);
        assert_eq!(row.session, kernel(1).session);
        assert_eq!(
            store.kernels(Scope::All).await.unwrap(),
            [kernel(1), kernel(2)],
            "the original is as it was"
        );
    }

    #[test]
    fn what_is_damaged_is_not_copied() {
        let dir = TempDir::new().unwrap();
        let from = dir.path().join("a.db");
        std::fs::write(&from, vec![7; 8192]).unwrap();
        let error = copy_database(&from, &dir.path().join("b.db")).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    }
}
