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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_those_of_json() {
        let text = "
openapi: 3.1.0   # a text: it has two dots
info: {title: \"A: B\", version: '1.0'}
paths:
  /pets/{id}:
    get:
      summary: >-
        One
        pet.
      responses:
        200:
          description: |
            It.
            Or not.
        default: {}
countries: [no, on, ~, true, 1, 1.5, '01', 2026-11-26]
";
        assert_eq!(
            parse(text.as_bytes()).unwrap(),
            json!({
                "openapi": "3.1.0",
                "info": {"title": "A: B", "version": "1.0"},
                "paths": {"/pets/{id}": {"get": {
                    "summary": "One pet.",
                    "responses": {"200": {"description": "It.\nOr not.\n"}, "default": {}},
                }}},
                "countries": ["no", "on", null, true, 1, 1.5, "01", "2026-11-26"],
            })
        );
    }

    #[test]
    fn what_would_take_much_memory_is_refused() {
        let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n";
        let merged = "a: &a {x: 1}\nb:\n  <<: *a\n";
        let many = format!("[{}0]", "0,".repeat(MAX_NODES));
        let deep = "[".repeat(100_000);
        let indented: Vec<_> = (0..1000).map(|depth| " ".repeat(depth) + "a:\n").collect();
        let indented = indented.concat();
        for text in [
            bomb,
            merged,
            &many,
            &deep,
            &indented,
            "a: 1\n---\nb: 2\n",
            "a: [",
            "a: 1\na: 2\n",
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(
                error.starts_with("is neither JSON nor YAML") && error.len() < 120,
                "{error}"
            );
        }
        assert!(parse(b"\xff\xfe").is_err());
    }
}
