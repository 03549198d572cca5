//! An example of arguments, from their schema alone.

use serde_json::{Map, Value, json};

/// Levels of objects and arrays in an example.
const MAX_DEPTH: usize = 6;

/// A value that shows the form of what a schema describes: with what is required, and what the schema gives as examples and defaults. It is
/// an illustration, which rules that a form does not show (a pattern, an interplay of parts) may refuse.
pub(crate) fn example(schema: &Value) -> Value {
    of(schema, schema, 0)
}

fn of(schema: &Value, root: &Value, depth: usize) -> Value {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return match found {
            Some(found) if depth < MAX_DEPTH => of(found, root, depth + 1),
            _ => Value::Null,
        };
    }
    if let Some(named) = ["const", "default"].iter().find_map(|name| schema.get(*name)) {
        return named.clone();
    }
    let first = |name: &str| schema.get(name).and_then(|all| all.get(0));
    if let Some(named) = first("examples").or_else(|| first("enum")) {
        return named.clone();
    }
    if let Some(one) = ["anyOf", "oneOf", "allOf"].iter().find_map(|name| first(name)) {
        return if depth < MAX_DEPTH {
            of(one, root, depth + 1)
        } else {
            Value::Null
        };
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => kinds
            .iter()
            .filter_map(Value::as_str)
            .find(|kind| *kind != "null")
            .unwrap_or("null"),
        _ if schema.get("properties").is_some() => "object",
        _ => "string",
    };
    match kind {
        "object" => object(schema, root, depth),
        "array" if depth < MAX_DEPTH => match schema.get("items") {
            Some(items) => json!([of(items, root, depth + 1)]),
            None => json!([]),
        },
        "array" => json!([]),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        "boolean" => json!(true),
        "null" => Value::Null,
        _ => json!(text(schema)),
    }
}

fn object(schema: &Value, root: &Value, depth: usize) -> Value {
    let required = schema.get("required").and_then(Value::as_array);
    let mut made = Map::new();
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        let Some(part) = schema.get("properties").and_then(|all| all.get(name)) else {
            made.insert(name.to_owned(), Value::Null);
            continue;
        };
        let value = if depth < MAX_DEPTH {
            of(part, root, depth + 1)
        } else {
            Value::Null
        };
        made.insert(name.to_owned(), value);
    }
    Value::Object(made)
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
}
