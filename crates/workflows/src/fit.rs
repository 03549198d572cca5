//! Compatibility of two JSON Schemas: values of one may be values of the other. Only certain conflicts are reported; an unsupported keyword
//! is ignored.

use std::collections::BTreeSet;

use himalia_tools::{Part, Steps};
use serde_json::{Map, Value};

/// Greatest depth of a comparison.
const MAX_DEPTH: usize = 16;

/// Reason why no value fits, or why some values certainly do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// Position as a JSON Pointer.
    pub path: String,
    /// The keyword of the schema of the target.
    pub rule: &'static str,
    /// Actual and expected schema.
    pub text: String,
}

/// The schema of a member of what a schema describes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Member<T> {
    /// It has this schema.
    Known(T),
    /// The schema does not restrict the member.
    Unknown,
    /// There is none.
    Absent(String),
}

/// A place where values are expected: its schema as it was written, and compiled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) schema: &'a Value,
    pub(crate) part: Part<'a>,
}

impl Target<'_> {
    pub(crate) fn member(self, name: &str) -> Member<Self> {
        let part = self.part.property(name).or_else(|| self.part.more());
        match (member(self.schema, name), part) {
            (Member::Known(schema), Some(part)) => Member::Known(Self { schema, part }),
            (Member::Absent(reason), _) => Member::Absent(reason),
            _ => Member::Unknown,
        }
    }

    fn items(self) -> Option<Self> {
        let schema = self.schema.get("items")?;
        let part = self.part.items()?;
        Some(Self { schema, part })
    }
}

/// Conflict that values of `source` certainly have if `target` is expected.
pub(crate) fn misfit(source: &Value, target: Target<'_>, steps: &mut Steps) -> Option<Misfit> {
    at(source, target, "", 0, steps)
}

/// Violations of a value where `target` is expected.
pub(crate) fn misfit_of_value(value: &Value, target: Target<'_>, steps: &mut Steps) -> Option<Misfit> {
    let wrong = target.part.violations(value, steps).into_iter().next()?;
    let rule = "schema";
    Some(Misfit {
        path: wrong.path,
        rule,
        text: format!("{} ({})", wrong.text, wrong.rule),
    })
}

pub(crate) fn member<'a>(schema: &'a Value, name: &str) -> Member<&'a Value> {
    let Value::Object(words) = schema else {
        return Member::Unknown;
    };
    if let Some(known) = words.get("properties").and_then(|all| all.get(name)) {
        return Member::Known(known);
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
        (_, Some(more @ Value::Object(_))) => Member::Known(more),
        (_, Some(Value::Bool(true))) | (None, None) => Member::Unknown,
        (known, _) => {
            let names = known.and_then(Value::as_object).into_iter().flat_map(Map::keys);
            let names: Vec<&str> = names.map(String::as_str).take(10).collect();
            Member::Absent(format!("its members are: {}", names.join(", ")))
        }
    }
}

/// The schema of the items of a list.
pub(crate) fn items(schema: &Value) -> Member<&Value> {
    let Value::Object(words) = schema else {
        return Member::Unknown;
    };
    let types = types(words);
    if !types.is_empty() && !types.contains("array") {
        return Member::Absent(format!("it is {}, no list", listed(&types)));
    }
    match words.get("items") {
        Some(items) if !opaque(words) && !words.contains_key("prefixItems") => Member::Known(items),
        _ => Member::Unknown,
    }
}

fn at(source: &Value, target: Target<'_>, path: &str, depth: usize, steps: &mut Steps) -> Option<Misfit> {
    let (Value::Object(from), Value::Object(to)) = (source, target.schema) else {
        return (*target.schema == Value::Bool(false))
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
        let mut first = None;
        for value in values {
            let violation = target.part.violations(value, steps).into_iter().next()?;
            // Nothing is certain that was not checked.
            first.get_or_insert(violation.text);
            if steps.are_spent() {
                return None;
            }
        }
        let text = format!("none of its values is allowed: {}", first?);
        return Some(wrong(path, "enum", text));
    }
    if has.iter().eq(&["object"]) {
        return objects(from, target, path, depth, steps);
    }
    if has.iter().eq(&["array"])
        && let (Some(has), Some(wants)) = (from.get("items"), target.items())
    {
        return at(has, wants, &format!("{path}/*"), depth + 1, steps);
    }
    None
}

fn objects(
    from: &Map<String, Value>,
    target: Target<'_>,
    path: &str,
    depth: usize,
    steps: &mut Steps,
) -> Option<Misfit> {
    let empty = Map::new();
    let to = target.schema.as_object()?;
    let (has, wants) = (members(from).unwrap_or(&empty), members(to).unwrap_or(&empty));
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
        if let (Some(has), Some(schema), Some(part)) =
            (has.get(name), wants.get(name), target.part.property(name))
        {
            let wants = Target { schema, part };
            let found = at(has, wants, &format!("{path}/{name}"), depth + 1, steps);
            if found.is_some() {
                return found;
            }
        }
    }
    None
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
fn values(words: &Map<String, Value>) -> Option<&[Value]> {
    if let Some(one) = words.get("const") {
        return Some(std::slice::from_ref(one));
    }
    words.get("enum").and_then(Value::as_array).map(Vec::as_slice)
}

fn members(words: &Map<String, Value>) -> Option<&Map<String, Value>> {
    words.get("properties").and_then(Value::as_object)
}

/// Returns true if unsupported keywords may restrict the members.
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

    use himalia_tools::Schema;

    use super::*;

    fn misfit(source: &Value, schema: &Value) -> Option<Misfit> {
        let compiled = Schema::new(schema).unwrap();
        let part = compiled.root();
        super::misfit(source, Target { schema, part }, &mut Steps::new(1000))
    }

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
    fn nothing_is_certain_that_was_not_checked() {
        let source = json!({"enum": (0..100).collect::<Vec<_>>()});
        let schema = json!({"type": "string"});
        let compiled = Schema::new(&schema).unwrap();
        let part = compiled.root();
        let found = |steps: u64| {
            super::misfit(
                &source,
                Target {
                    schema: &schema,
                    part,
                },
                &mut Steps::new(steps),
            )
        };
        assert_eq!(found(10), None);
        assert!(found(10_000).is_some());
    }

    #[test]
    fn a_member_is_known_unknown_or_absent() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        assert_eq!(member(&schema, "a"), Member::Known(&json!({"type": "string"})));
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
            Member::Known(&json!({"type": "string"}))
        );
        assert_eq!(items(&json!({})), Member::Unknown);
        assert!(matches!(items(&json!({"type": "object"})), Member::Absent(_)));
    }
}
