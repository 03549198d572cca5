//! Whether values of one JSON Schema can be values of another one. Only what is certain counts: a keyword that is not understood here says
//! nothing.

use std::collections::BTreeSet;

use himalia_tools::Schema;
use serde_json::{Map, Value};

/// How deep schemas are compared.
const MAX_DEPTH: usize = 16;

/// Why no value fits, or why some certainly do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// Where, as a JSON Pointer.
    pub path: String,
    /// The keyword of the schema of the target.
    pub rule: &'static str,
    /// What is there, and what is expected.
    pub text: String,
}

/// The schema of a member of what a schema describes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Member {
    /// It has this schema.
    Known(Value),
    /// Nothing is known of it.
    Unknown,
    /// There is none.
    Absent(String),
}

/// What is certainly wrong with values of `source` where `target` is expected.
pub(crate) fn misfit(source: &Value, target: &Value) -> Option<Misfit> {
    at(source, target, target, "", 0)
}

/// What is wrong with a value where a part of the schema `root` is expected.
pub(crate) fn misfit_of_value(value: &Value, target: &Value, root: &Value) -> Option<Misfit> {
    let schema = part(target, root)?;
    let wrong = schema.violations(value).into_iter().next()?;
    let rule = "schema";
    Some(Misfit {
        path: wrong.path,
        rule,
        text: format!("{} ({})", wrong.text, wrong.rule),
    })
}

/// The schema of one member.
pub(crate) fn member(schema: &Value, name: &str) -> Member {
    let Value::Object(words) = schema else {
        return Member::Unknown;
    };
    if let Some(known) = words.get("properties").and_then(|all| all.get(name)) {
        return Member::Known(known.clone());
    }
    if opaque(words) {
        return Member::Unknown;
    }
    let types = types(words);
    if !types.is_empty() && !types.contains("object") {
        return Member::Absent(format!("it is {}, no object", listed(&types)));
    }
    match (words.get("properties"), words.get("additionalProperties")) {
        _ if words.contains_key("patternProperties") => Member::Unknown,
        (_, Some(Value::Object(more))) => Member::Known(Value::Object(more.clone())),
        (_, Some(Value::Bool(true))) | (None, None) => Member::Unknown,
        (known, _) => {
            let names = known.and_then(Value::as_object).into_iter().flat_map(Map::keys);
            let names: Vec<&str> = names.map(String::as_str).take(10).collect();
            Member::Absent(format!("its members are: {}", names.join(", ")))
        }
    }
}

/// The schema of the items of a list.
pub(crate) fn items(schema: &Value) -> Member {
    let Value::Object(words) = schema else {
        return Member::Unknown;
    };
    let types = types(words);
    if !types.is_empty() && !types.contains("array") {
        return Member::Absent(format!("it is {}, no list", listed(&types)));
    }
    match words.get("items") {
        Some(items) if !opaque(words) && !words.contains_key("prefixItems") => Member::Known(items.clone()),
        _ => Member::Unknown,
    }
}

fn at(source: &Value, target: &Value, root: &Value, path: &str, depth: usize) -> Option<Misfit> {
    let (Value::Object(from), Value::Object(to)) = (source, target) else {
        return (*target == Value::Bool(false))
            .then(|| wrong(path, "false", "nothing is allowed here".to_owned()));
    };
    if depth > MAX_DEPTH || from.contains_key("$ref") || to.contains_key("$ref") {
        return None;
    }
    let (has, wants) = (types(from), types(to));
    if !has.is_empty()
        && !wants.is_empty()
        && !has.iter().any(|one| wants.iter().any(|other| meet(one, other)))
    {
        let text = format!("{} where {} is expected", listed(&has), listed(&wants));
        return Some(wrong(path, "type", text));
    }
    if let Some(values) = values(from) {
        let schema = part(target, root)?;
        let first = values.first()?;
        if values.iter().all(|value| !schema.violations(value).is_empty()) {
            let violation = schema.violations(first).into_iter().next()?;
            return Some(wrong(
                path,
                "enum",
                format!("none of its values is allowed: {}", violation.text),
            ));
        }
        return None;
    }
    if has.iter().eq(&["object"]) {
        return objects(from, to, root, path, depth);
    }
    if has.iter().eq(&["array"])
        && let (Some(has), Some(wants)) = (from.get("items"), to.get("items"))
    {
        return at(has, wants, root, &format!("{path}/*"), depth + 1);
    }
    None
}

fn objects(
    from: &Map<String, Value>,
    to: &Map<String, Value>,
    root: &Value,
    path: &str,
    depth: usize,
) -> Option<Misfit> {
    let empty = Map::new();
    let members = |words: &Map<String, Value>| words.get("properties").and_then(Value::as_object).cloned();
    let (has, wants) = (members(from).unwrap_or_default(), members(to).unwrap_or(empty));
    let closed = |words: &Map<String, Value>| {
        words.get("additionalProperties") == Some(&Value::Bool(false))
            && !words.contains_key("patternProperties")
    };
    for name in required(to) {
        if closed(from) && !has.contains_key(name) {
            return Some(wrong(
                path,
                "required",
                format!("{name} is required, and not there"),
            ));
        }
    }
    for name in required(from) {
        if closed(to) && !wants.contains_key(name) {
            return Some(wrong(
                path,
                "additionalProperties",
                format!("{name} is not allowed"),
            ));
        }
        if let (Some(has), Some(wants)) = (has.get(name), wants.get(name)) {
            let found = at(has, wants, root, &format!("{path}/{name}"), depth + 1);
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

/// A part of a schema, with the definitions that its references name.
fn part(target: &Value, root: &Value) -> Option<Schema> {
    let mut whole = target.clone();
    if let Value::Object(words) = &mut whole {
        for name in ["$defs", "definitions", "$schema"] {
            if let (Some(given), false) = (root.get(name), words.contains_key(name)) {
                words.insert(name.to_owned(), given.clone());
            }
        }
    }
    Schema::new(&whole).ok()
}

fn required(words: &Map<String, Value>) -> impl Iterator<Item = &str> {
    words
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// The types of its values; nothing if they are not known.
fn types(words: &Map<String, Value>) -> BTreeSet<&str> {
    match words.get("type") {
        Some(Value::String(one)) => [one.as_str()].into(),
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => BTreeSet::new(),
    }
}

/// All its values, if it lists them.
fn values(words: &Map<String, Value>) -> Option<Vec<Value>> {
    if let Some(one) = words.get("const") {
        return Some(vec![one.clone()]);
    }
    words.get("enum").and_then(Value::as_array).cloned()
}

/// Whether other keywords may say more of its members than is read here.
fn opaque(words: &Map<String, Value>) -> bool {
    ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if"]
        .iter()
        .any(|word| words.contains_key(*word))
}

fn meet(one: &str, other: &str) -> bool {
    let number = |name: &str| name == "number" || name == "integer";
    one == other || (number(one) && number(other))
}

fn listed(types: &BTreeSet<&str>) -> String {
    types.iter().copied().collect::<Vec<_>>().join(" or ")
}

fn wrong(path: &str, rule: &'static str, text: String) -> Misfit {
    Misfit {
        path: path.to_owned(),
        rule,
        text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_certainly_does_not_fit_is_refused() {
        let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
        let string = json!({"type": "string"});
        let closed = |mut schema: Value| {
            schema["additionalProperties"] = json!(false);
            schema
        };
        for (source, target, rule) in [
            (json!({"type": "string"}), json!({"type": "integer"}), "type"),
            (
                json!({"type": ["string", "null"]}),
                json!({"type": ["integer", "boolean"]}),
                "type",
            ),
            (json!({"type": "object"}), json!({"type": "array"}), "type"),
            (json!({"enum": ["a", "b"]}), json!({"type": "integer"}), "enum"),
            (json!({"const": "a"}), json!({"enum": ["b"]}), "enum"),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                json!({"type": "array", "items": {"type": "object"}}),
                "type",
            ),
            (
                closed(object(json!({"a": string}), json!([]))),
                object(json!({}), json!(["b"])),
                "required",
            ),
            (
                object(json!({"a": string}), json!(["a"])),
                closed(object(json!({}), json!([]))),
                "additionalProperties",
            ),
            (
                object(json!({"a": string}), json!(["a"])),
                object(json!({"a": {"type": "null"}}), json!([])),
                "type",
            ),
            (json!({"type": "string"}), json!(false), "false"),
        ] {
            let found = misfit(&source, &target);
            assert_eq!(
                found.map(|one| one.rule),
                Some(rule).filter(|_| source != json!(true)),
                "{source} {target}"
            );
        }
        for (source, target) in [
            (json!({}), json!({"type": "integer"})),
            (json!(true), json!({"type": "integer"})),
            (json!({"type": "number"}), json!({"type": "integer"})),
            (json!({"type": "integer"}), json!({"type": "number"})),
            (json!({"type": ["string", "null"]}), json!({"type": "string"})),
            (json!({"enum": ["a", 1]}), json!({"type": "integer"})),
            (
                json!({"$ref": "#/$defs/a", "type": "string"}),
                json!({"type": "integer"}),
            ),
            (
                json!({"type": "array"}),
                json!({"type": "array", "items": {"type": "string"}}),
            ),
            (
                object(json!({"a": string}), json!([])),
                object(json!({"a": {"type": "null"}}), json!([])),
            ),
            (
                object(json!({"a": string}), json!([])),
                object(json!({}), json!(["b"])),
            ),
        ] {
            assert_eq!(misfit(&source, &target), None, "{source} {target}");
        }
    }

    #[test]
    fn the_place_is_named() {
        let of = |inner: Value| json!({"type": "object", "required": ["rows"], "properties": {"rows": {"type": "array", "items": inner}}});
        let found = misfit(&of(json!({"type": "string"})), &of(json!({"type": "integer"}))).unwrap();
        assert_eq!(found.path, "/rows/*");
        assert_eq!(found.text, "string where integer is expected");
    }

    #[test]
    fn a_member_is_known_unknown_or_absent() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        assert_eq!(member(&schema, "a"), Member::Known(json!({"type": "string"})));
        assert!(matches!(member(&schema, "b"), Member::Absent(text) if text.contains('a')));
        assert!(matches!(
            member(&json!({"type": "string"}), "b"),
            Member::Absent(_)
        ));
        for open in [
            json!(true),
            json!({}),
            json!({"type": "object"}),
            json!({"properties": {}, "additionalProperties": true}),
            json!({"properties": {}, "patternProperties": {"^x": {}}}),
            json!({"properties": {}, "anyOf": []}),
        ] {
            assert_eq!(member(&open, "b"), Member::Unknown, "{open}");
        }
        assert_eq!(
            items(&json!({"type": "array", "items": {"type": "string"}})),
            Member::Known(json!({"type": "string"}))
        );
        assert_eq!(items(&json!({})), Member::Unknown);
        assert!(matches!(items(&json!({"type": "object"})), Member::Absent(_)));
    }
}
