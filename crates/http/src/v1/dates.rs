//! Times of the store in responses.

use himalia_engine::from_micros;
use himalia_wire::build::timestamp;

/// A time in microseconds since 1970, as the API shows it.
pub(crate) fn date(micros: i64) -> String {
    timestamp(from_micros(u64::try_from(micros).unwrap_or(0)))
}
