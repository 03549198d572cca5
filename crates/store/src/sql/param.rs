//! Values that statements are given.

use rusqlite::types::{ToSqlOutput, Value as Owned, ValueRef};
use serde_json::Value;
use uuid::Uuid;

/// A value of a statement. `SQLite` has UUIDs, JSON and lists as text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Param<'a> {
    Number(Option<i64>),
    Text(Option<&'a str>),
    Bytes(&'a [u8]),
    Uuid(Option<Uuid>),
    Json(&'a Value),
    Texts(&'a [String]),
    Uuids(&'a [Uuid]),
}

impl Param<'_> {
    /// The value for Postgres, which has a type for each of them.
    pub(crate) fn for_postgres(&self) -> &(dyn tokio_postgres::types::ToSql + Sync) {
        match self {
            Self::Number(value) => value,
            Self::Text(value) => value,
            Self::Bytes(value) => value,
            Self::Uuid(value) => value,
            Self::Json(value) => value,
            Self::Texts(value) => value,
            Self::Uuids(value) => value,
        }
    }
}

impl rusqlite::ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = |text: String| ToSqlOutput::Owned(Owned::Text(text));
        let list = |list: serde_json::Result<String>| {
            list.map(text)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
        };
        Ok(match self {
            Self::Number(None) | Self::Text(None) | Self::Uuid(None) => ToSqlOutput::Owned(Owned::Null),
            Self::Number(Some(value)) => ToSqlOutput::Owned(Owned::Integer(*value)),
            Self::Text(Some(value)) => ToSqlOutput::Borrowed(ValueRef::Text(value.as_bytes())),
            Self::Bytes(value) => ToSqlOutput::Borrowed(ValueRef::Blob(value)),
            Self::Uuid(Some(value)) => text(value.to_string()),
            Self::Json(value) => text(value.to_string()),
            Self::Texts(values) => list(serde_json::to_string(values))?,
            Self::Uuids(values) => list(serde_json::to_string(values))?,
        })
    }
}

macro_rules! from {
    ($($type:ty => |$value:ident| $param:expr;)*) => {
        $(impl<'a> From<&'a $type> for Param<'a> {
            fn from($value: &'a $type) -> Self {
                $param
            }
        }

        impl<'a> From<&'a &$type> for Param<'a> {
            fn from(value: &'a &$type) -> Self {
                Self::from(*value)
            }
        })*
    };
}

from! {
    i64 => |value| Self::Number(Some(*value));
    u32 => |value| Self::Number(Some(i64::from(*value)));
    u64 => |value| Self::Number(i64::try_from(*value).ok());
    Option<i64> => |value| Self::Number(*value);
    str => |value| Self::Text(Some(value));
    String => |value| Self::Text(Some(value));
    Option<String> => |value| Self::Text(value.as_deref());
    Vec<u8> => |value| Self::Bytes(value);
    [u8; 32] => |value| Self::Bytes(value);
    Uuid => |value| Self::Uuid(Some(*value));
    Option<Uuid> => |value| Self::Uuid(*value);
    Value => |value| Self::Json(value);
    Vec<String> => |value| Self::Texts(value);
    Vec<Uuid> => |value| Self::Uuids(value);
}
