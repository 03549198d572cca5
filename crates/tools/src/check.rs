//! Arguments against a schema.

use std::fmt;

use jsonschema::{Draft, ValidationOptions, Validator};
use serde::Serialize;
use serde_json::Value;

/// Violations in one answer.
const MAX_VIOLATIONS: usize = 8;
/// Characters of a text of one.
const MAX_TEXT: usize = 300;

/// What is wrong with a part of some arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Where, as a JSON Pointer. Empty: the arguments as a whole.
    pub path: String,
    /// The keyword of the schema: `required`, `type`, `enum`.
    pub rule: String,
    /// What is expected, in words.
    pub text: String,
}

/// A JSON Schema, to check values against. Without `$schema` it is one of draft 2020-12.
pub struct Schema(Validator);

impl Schema {
    /// References to other documents are refused, and nothing is read for them.
    ///
    /// # Errors
    /// Why it is none.
    pub fn new(schema: &Value) -> Result<Self, String> {
        compile(schema).map(Self)
    }

    /// What is wrong with a value, at most eight things. Nothing, if it fits.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        violations(&self.0, value)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

/// A validator, if the schema is one. References to other documents are refused, and nothing is read for them.
pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    let options = ValidationOptions::default();
    // MCP names no draft; servers that do not say otherwise write this one or an older one that it contains.
    let options = match schema.get("$schema") {
        Some(_) => options,
        None => options.with_draft(Draft::Draft202012),
    };
    options.build(schema).map_err(|error| clip(&error.to_string()))
}

pub(crate) fn violations(validator: &Validator, arguments: &Value) -> Vec<Violation> {
    let errors = validator.iter_errors(arguments).take(MAX_VIOLATIONS);
    errors
        .map(|error| Violation {
            path: error.instance_path().to_string(),
            rule: error.kind().keyword().to_owned(),
            text: clip(&error.to_string()),
        })
        .collect()
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(schema: &Value, arguments: &Value) -> Vec<(String, String)> {
        let found = violations(&compile(schema).unwrap(), arguments);
        found.into_iter().map(|one| (one.path, one.rule)).collect()
    }

    #[test]
    fn a_violation_names_its_place_and_its_rule() {
        let schema = json!({"type": "object", "required": ["limit"], "additionalProperties": false, "properties": {
            "limit": {"type": "integer", "maximum": 100},
            "filter": {"type": "object", "properties": {"state": {"enum": ["paid", "open"]}}},
        }});
        assert_eq!(found(&schema, &json!({"limit": 5})), []);
        let pair = |path: &str, rule: &str| (path.to_owned(), rule.to_owned());
        assert_eq!(found(&schema, &json!({})), [pair("", "required")]);
        assert_eq!(found(&schema, &json!({"limit": "5"})), [pair("/limit", "type")]);
        assert_eq!(
            found(&schema, &json!({"limit": 500})),
            [pair("/limit", "maximum")]
        );
        assert_eq!(
            found(&schema, &json!({"limit": 1, "filter": {"state": "x"}})),
            [pair("/filter/state", "enum")]
        );
        assert_eq!(
            found(&schema, &json!({"limit": 1, "limmit": 2})),
            [pair("", "additionalProperties")]
        );
    }

    #[test]
    fn violations_and_their_texts_are_bounded() {
        let schema = json!({"type": "object", "additionalProperties": {"type": "integer"}});
        let many: serde_json::Map<_, _> = (0..50)
            .map(|number| (number.to_string(), json!("x".repeat(5000))))
            .collect();
        let found = violations(&compile(&schema).unwrap(), &Value::Object(many));
        assert_eq!(found.len(), MAX_VIOLATIONS);
        assert!(found.iter().all(|one| one.text.chars().count() <= MAX_TEXT + 1));
    }

    #[test]
    fn a_schema_that_needs_another_document_is_refused() {
        for reference in [
            "https://example.org/schema.json",
            "file:///etc/passwd",
            "other.json",
        ] {
            assert!(compile(&json!({"$ref": reference})).is_err(), "{reference}");
        }
        assert!(compile(&json!({"type": 5})).is_err());
        let own = json!({"$defs": {"id": {"type": "string"}}, "properties": {"id": {"$ref": "#/$defs/id"}}});
        assert_eq!(
            found(&own, &json!({"id": 1})),
            [("/id".to_owned(), "type".to_owned())]
        );
    }
}
