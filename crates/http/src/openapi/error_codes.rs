//! The table of error codes in the description of the API.

use himalia_engine::ERROR_CODES;
use serde_json::{Value, json};

use super::codes;

/// All codes as `x-error-codes` of the document, in the order of the page.
pub(super) fn document() -> Value {
    let rows = ERROR_CODES.iter().map(|row| {
        json!({
            "code": row.code,
            "area": row.area,
            "statuses": codes::statuses(row.code),
            "retry": row.retry.as_str(),
            "meaning": row.meaning,
            "cause": row.cause,
            "remedy": row.remedy,
        })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_code_is_explained_once() {
        let rows: Vec<&str> = ERROR_CODES.iter().map(|row| row.code).collect();
        let unique: BTreeSet<&str> = rows.iter().copied().collect();
        assert_eq!(rows.len(), unique.len(), "a code has two rows");
        assert_eq!(unique, codes::all());
    }
}
