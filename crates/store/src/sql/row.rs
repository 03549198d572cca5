//! Rows, as records.

use serde_json::Value;
use uuid::Uuid;

use super::Param;
use crate::StoreError;
use crate::failure::Failure;

#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    source: Source<'a>,
    table: &'static str,
}

#[derive(Clone, Copy)]
enum Source<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

/// A value that is made from a row.
pub(crate) trait FromRow: Sized + Send {
    /// The table, for errors.
    const TABLE: &'static str;

    fn from_row(row: &Row<'_>) -> Result<Self, Failure>;
}

/// A record that a table holds.
pub(crate) trait Record {
    /// Adds the values of the columns, in the order in which `record!` lists them.
    fn put<'a>(&'a self, values: &mut Vec<Param<'a>>);

    /// The values of the columns.
    fn values(&self) -> Vec<Param<'_>> {
        let mut values = Vec::new();
        self.put(&mut values);
        values
    }
}

pub(crate) trait Column: Sized {
    fn read(row: &Row<'_>, column: &'static str) -> Result<Self, Failure>;
}

impl Row<'_> {
    pub(crate) fn from_sqlite<T: FromRow>(row: &rusqlite::Row<'_>) -> Result<T, Failure> {
        T::from_row(&Row {
            source: Source::Sqlite(row),
            table: T::TABLE,
        })
    }

    pub(crate) fn from_postgres<T: FromRow>(row: &tokio_postgres::Row) -> Result<T, Failure> {
        T::from_row(&Row {
            source: Source::Postgres(row),
            table: T::TABLE,
        })
    }

    pub(crate) fn get<T: Column>(&self, column: &'static str) -> Result<T, Failure> {
        T::read(self, column)
    }

    fn bad(&self, column: &'static str, reason: String) -> Failure {
        StoreError::BadRow {
            table: self.table,
            column,
            reason,
        }
        .into()
    }
}

/// Types that both databases have. The only column of a row can be read as such a type too.
macro_rules! native {
    ($($type:ty)*) => {
        $(impl Column for $type {
            fn read(row: &Row<'_>, column: &'static str) -> Result<Self, Failure> {
                Ok(match row.source {
                    Source::Sqlite(row) => row.get(column)?,
                    Source::Postgres(row) => row.try_get(column)?,
                })
            }
        }

        impl FromRow for $type {
            const TABLE: &'static str = "";

            fn from_row(row: &Row<'_>) -> Result<Self, Failure> {
                Ok(match row.source {
                    Source::Sqlite(row) => row.get(0)?,
                    Source::Postgres(row) => row.try_get(0)?,
                })
            }
        })*
    };
}

native!(i64 String Vec<u8> Option<i64> Option<String>);

/// Numbers that are not negative.
macro_rules! unsigned {
    ($($type:ty)*) => {
        $(impl Column for $type {
            fn read(row: &Row<'_>, column: &'static str) -> Result<Self, Failure> {
                Self::try_from(i64::read(row, column)?).map_err(|error| row.bad(column, error.to_string()))
            }
        })*
    };
}

unsigned!(u32 u64);

impl Column for [u8; 32] {
    fn read(row: &Row<'_>, column: &'static str) -> Result<Self, Failure> {
        let bytes = Vec::<u8>::read(row, column)?;
        bytes
            .try_into()
            .map_err(|_| row.bad(column, "is not 32 bytes".to_owned()))
    }
}

impl Column for Uuid {
    fn read(row: &Row<'_>, column: &'static str) -> Result<Self, Failure> {
        match row.source {
            Source::Sqlite(source) => {
                let text: String = source.get(column)?;
                Self::try_parse(&text).map_err(|error| row.bad(column, error.to_string()))
            }
            Source::Postgres(row) => Ok(row.try_get(column)?),
        }
    }
}

impl Column for Value {
    fn read(row: &Row<'_>, column: &'static str) -> Result<Self, Failure> {
        match row.source {
            Source::Sqlite(source) => {
                let text: String = source.get(column)?;
                serde_json::from_str(&text).map_err(|error| row.bad(column, error.to_string()))
            }
            Source::Postgres(row) => Ok(row.try_get(column)?),
        }
    }
}

impl FromRow for Uuid {
    const TABLE: &'static str = "";

    fn from_row(row: &Row<'_>) -> Result<Self, Failure> {
        row.get("id")
    }
}

/// The existence of a row.
impl FromRow for () {
    const TABLE: &'static str = "";

    fn from_row(_row: &Row<'_>) -> Result<Self, Failure> {
        Ok(())
    }
}
