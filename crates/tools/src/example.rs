//! An example of arguments, from their schema alone.

use serde_json::{Map, Value, json};

/// Levels of objects and arrays in an example.
const MAX_DEPTH: usize = 6;

/// Scalars, lists and objects of an example. What is behind them is `null`.
const MAX_PARTS: usize = 500;
/// Bytes of a value of the schema that count as one of them.
const BYTES_OF_A_PART: usize = 32;

/// A value that shows the form of what a schema describes: with what is required, and what the schema gives as examples and defaults. It is
/// an illustration, which rules that a form does not show (a pattern, an interplay of parts) may refuse.
pub(crate) fn example(schema: &Value) -> Value {
    let mut making = ExampleBuilder {
        root: schema,
        parts: MAX_PARTS,
    };
    making.of(schema, 0)
}

struct ExampleBuilder<'a> {
    root: &'a Value,
    /// Number of parts that may still be made.
    parts: usize,
}

impl ExampleBuilder<'_> {
    fn of(&mut self, schema: &Value, depth: usize) -> Value {
        let Some(left) = self.parts.checked_sub(1) else {
            return Value::Null;
        };
        self.parts = left;
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let found = target
                .strip_prefix('#')
                .and_then(|pointer| self.root.pointer(pointer));
            return match found {
                Some(found) if depth < MAX_DEPTH => self.of(found, depth + 1),
                _ => Value::Null,
            };
        }
        if let Some(named) = ["const", "default"].iter().find_map(|name| schema.get(*name)) {
            return self.copy(named);
        }
        let first = |name: &str| schema.get(name).and_then(|all| all.get(0));
        if let Some(named) = first("examples").or_else(|| first("enum")) {
            return self.copy(named);
        }
        if let Some(one) = ["anyOf", "oneOf", "allOf"].iter().find_map(|name| first(name)) {
            return if depth < MAX_DEPTH {
                self.of(one, depth + 1)
            } else {
                Value::Null
            };
        }
        match kind(schema) {
            "object" => self.object(schema, depth),
            "array" if depth < MAX_DEPTH => match schema.get("items") {
                Some(items) => json!([self.of(items, depth + 1)]),
                None => json!([]),
            },
            "array" => json!([]),
            "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
            "boolean" => json!(true),
            "null" => Value::Null,
            _ => json!(text(schema)),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let required = schema.get("required").and_then(Value::as_array);
        let mut made = Map::new();
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            self.parts = self.parts.saturating_sub(name.len() / BYTES_OF_A_PART);
            if self.parts == 0 {
                break;
            }
            let part = schema.get("properties").and_then(|all| all.get(name));
            let value = match part {
                Some(part) if depth < MAX_DEPTH => self.of(part, depth + 1),
                _ => self.copy(&Value::Null),
            };
            made.insert(name.to_owned(), value);
        }
        Value::Object(made)
    }

    /// A value that the schema has, if it is not too large.
    fn copy(&mut self, value: &Value) -> Value {
        let bytes = value.to_string().len();
        match self.parts.checked_sub(1 + bytes / BYTES_OF_A_PART) {
            Some(left) => {
                self.parts = left;
                value.clone()
            }
            None => Value::Null,
        }
    }
}

fn kind(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => kinds
            .iter()
            .filter_map(Value::as_str)
            .find(|kind| *kind != "null")
            .unwrap_or("null"),
        _ if schema.get("properties").is_some() => "object",
        _ => "string",
    }
}

fn text(schema: &Value) -> &'static str {
    match schema.get("format").and_then(Value::as_str) {
        Some("date") => "2026-01-31",
        Some("date-time") => "2026-01-31T12:00:00Z",
        Some("email") => "ada@example.org",
        Some("uri") => "https://example.org/",
        Some("uuid") => "123e4567-e89b-42d3-a456-426614174000",
        _ => "text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;

    #[test]
    fn an_example_fits_its_schema() {
        let schema = json!({
            "type": "object", "required": ["id", "when", "state", "lines", "to", "limit"],
            "$defs": {"line": {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number", "minimum": 2}}}},
            "properties": {
                "id": {"type": "string"}, "when": {"type": "string", "format": "date"}, "state": {"enum": ["open", "paid"]},
                "lines": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/line"}},
                "to": {"anyOf": [{"type": "string", "format": "email"}, {"type": "null"}]},
                "limit": {"type": ["null", "integer"], "default": 10}, "left_out": {"type": "string"},
            },
        });
        let made = example(&schema);
        assert!(Schema::new(&schema).unwrap().is_valid(&made), "{made}");
        assert_eq!(made["lines"], json!([{"amount": 2}]));
        assert_eq!((&made["limit"], made.get("left_out")), (&json!(10), None));
    }

    #[test]
    fn a_schema_that_contains_itself_has_an_example() {
        let schema = json!({"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}});
        assert!(example(&schema)["next"]["next"].is_object());
        assert_eq!(example(&json!({"$ref": "#"})), Value::Null);
    }

    #[test]
    fn an_example_is_small_whatever_its_schema_repeats() {
        let names: Vec<String> = (0..2000).map(|number| format!("a{number}")).collect();
        let each = |schema: &Value| -> Map<_, _> {
            names.iter().map(|name| (name.clone(), schema.clone())).collect()
        };
        for part in [
            json!({"$ref": "#"}),
            json!({"default": "x".repeat(5000)}),
            json!({"const": null}),
        ] {
            let made = example(&json!({"type": "object", "required": names, "properties": each(&part)}));
            assert!(made.to_string().len() < 40_000, "{part}");
        }
    }
}
