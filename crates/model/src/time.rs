//! Times as they are stored and shown.

use time::OffsetDateTime;

/// Microseconds since 1970 as a date; the epoch itself for values that are none.
pub fn from_micros(micros: u64) -> OffsetDateTime {
    let nanos = i128::from(micros) * 1000;
    OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// The wall clock, microseconds since 1970.
pub fn wall_micros() -> u64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The wall clock as the store has it.
pub fn now_micros() -> i64 {
    i64::try_from(wall_micros()).unwrap_or(i64::MAX)
}
