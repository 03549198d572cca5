//! Brings a schema of an earlier version to this version.
//!
//! All of it is in the schema `himalia` of the database. Its version is the row `schema` of `himalia.meta`.

use tokio_postgres::Client;

use crate::StoreError;
use crate::failure::Failure;
use crate::sql::Dialect;
use crate::tables::migrations;

/// "HIMA": held while a schema is made or changed, so that replicas that start at once do it once.
const LOCK: i64 = 0x4849_4d41;

/// The row that builds before version 1 had their version in. Theirs is another numbering.
const DEVELOPMENT: &str = "SELECT value FROM himalia.meta WHERE key = 'schema_version'";

const META: &str = "
CREATE SCHEMA IF NOT EXISTS himalia;
CREATE TABLE IF NOT EXISTS himalia.meta (
    key   text PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO himalia.meta (key, value) VALUES
    ('schema', '0'), ('gateway_epoch', '0'), ('store_id', gen_random_uuid()::text)
ON CONFLICT (key) DO NOTHING;
";

/// Applies the steps that are missing, all in one transaction and under an advisory lock, so that a crash leaves the earlier version
/// or the newest. `database` is named in errors.
pub(super) async fn migrate(client: &mut Client, database: &str, steps: &[&str]) -> Result<(), Failure> {
    let supported = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    let transaction = client.transaction().await?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await?;
    // Not made where it is: that needs a right that only the first start has to have.
    let made: bool = transaction
        .query_one("SELECT to_regclass('himalia.meta') IS NOT NULL", &[])
        .await?
        .try_get(0)?;
    if !made {
        transaction.batch_execute(META).await?;
    }
    if let Some(row) = transaction.query_opt(DEVELOPMENT, &[]).await? {
        return Err(StoreError::DevelopmentSchema {
            path: database.into(),
            found: row.try_get(0)?,
            supported,
            remedy: "use another database, or drop the schema himalia and start with new data directories",
        }
        .into());
    }
    let version: String = transaction
        .query_one("SELECT value FROM himalia.meta WHERE key = 'schema'", &[])
        .await?
        .try_get(0)?;
    let version: i64 = version.parse().map_err(|_| StoreError::BadRow {
        table: "meta",
        column: "value",
        reason: format!("the schema version {version:?} must be a number"),
    })?;
    if version > supported {
        return Err(StoreError::NewerSchema {
            path: database.into(),
            found: version,
            supported,
        }
        .into());
    }
    let missing = usize::try_from(version).unwrap_or(0);
    for step in steps.iter().skip(missing) {
        let text = migrations::expand(step, Dialect::Postgres);
        transaction.batch_execute(&text).await?;
    }
    transaction
        .execute(
            "UPDATE himalia.meta SET value = $1 WHERE key = 'schema'",
            &[&supported.to_string()],
        )
        .await?;
    transaction.commit().await?;
    Ok(())
}
