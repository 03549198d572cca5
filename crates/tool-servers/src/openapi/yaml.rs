//! Descriptions in YAML.

use serde_json::Value;

/// Values and members of a description.
const MAX_NODES: usize = 1_000_000;
/// Arrays and objects within each other.
const MAX_DEPTH: usize = 100;

/// Reads a text that is no JSON. An alias (`*name`) may stand for any number of bytes, and is refused.
///
/// # Errors
/// Why it is no YAML, or too much of it. Without a part of the text.
pub(super) fn parse(text: &[u8]) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 4 * MAX_NODES,
            max_nodes: MAX_NODES,
            max_depth: MAX_DEPTH,
            max_documents: 1,
            max_aliases: 0,
            max_merge_keys: 0,
        },
        // `no` and `on` are words.
        strict_booleans: true,
        with_snippet: false,
    };
    let read = serde_saphyr::from_slice_with_options(text, options);
    read.map_err(|error| {
        let place = error
            .location()
            .map(|at| format!(" (line {}, column {})", at.line(), at.column()));
        let place = place.unwrap_or_default();
        format!("is neither JSON nor YAML without aliases, in bounds{place}")
    })
}
