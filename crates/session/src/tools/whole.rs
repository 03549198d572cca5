//! The arguments of a call as a person sees them who approves it: all of them. Only values that the gateway knows as secrets, and those that
//! the schema of the tool declares as such, are hidden; of the latter the person sees length and digest. The names of members hide nothing: the
//! author of a tool, and often the code that calls it, chooses them.

use himalia_credentials::Mask;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Schemas within each other that apply to one value, and how many of them are looked at.
const MAX_DEPTH: usize = 4;
const MAX_SCHEMAS: usize = 64;

/// Reasons why arguments cannot be shown whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotShown {
    /// It passes.
    Unavailable(String),
    /// The arguments are too long.
    TooLong(String),
}

/// All of the arguments, in at most so many characters.
pub(super) fn shown_to_approve(
    arguments: &Value,
    schema: Option<&Value>,
    mask: Option<&Mask>,
    chars: usize,
) -> Result<Value, NotShown> {
    let Some(mask) = mask else {
        let reason =
            "its arguments cannot be shown to a person, since the gateway cannot read its credentials now";
        return Err(NotShown::Unavailable(reason.to_owned()));
    };
    let root = schema.unwrap_or(&Value::Null);
    let shown = without_secrets(arguments, &[root], root);
    let masked = (!mask.is_empty())
        .then(|| mask.text(shown.to_string().as_bytes()))
        .flatten();
    let shown = match masked {
        None => shown,
        Some(text) => serde_json::from_slice(&text).map_err(|_| {
            NotShown::TooLong(
                "its arguments cannot be shown to a person: they have a credential in their structure"
                    .to_owned(),
            )
        })?,
    };
    let length = shown.to_string().chars().count();
    if length > chars {
        return Err(NotShown::TooLong(format!(
            "its arguments have {length} characters, and a person is shown at most {chars}; what is not shown whole cannot be approved"
        )));
    }
    Ok(shown)
}

/// The value without what its schemas declare as secret.
fn without_secrets(value: &Value, schemas: &[&Value], root: &Value) -> Value {
    let applied = applied(schemas, root);
    if !value.is_null() && applied.iter().any(|schema| is_secret(schema)) {
        return hidden(value).into();
    }
    match value {
        Value::Array(items) => {
            let of_items: Vec<&Value> = applied.iter().filter_map(|schema| schema.get("items")).collect();
            items
                .iter()
                .map(|item| without_secrets(item, &of_items, root))
                .collect()
        }
        Value::Object(members) => {
            let shown = members.iter().map(|(name, value)| {
                let of_member: Vec<&Value> = applied
                    .iter()
                    .filter_map(|schema| of_member(schema, name))
                    .collect();
                (name.clone(), without_secrets(value, &of_member, root))
            });
            Value::Object(shown.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

fn of_member<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let named = schema.get("properties").and_then(|all| all.get(name));
    named.or_else(|| schema.get("additionalProperties"))
}

/// Length and digest of a value that is not shown: who knows it can compare it.
fn hidden(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let digest = hex::encode(Sha256::digest(&text));
    format!("[hidden: {} characters, SHA-256 {digest}]", text.chars().count())
}

/// These schemas, and those that they apply to the same value.
fn applied<'a>(schemas: &[&'a Value], root: &'a Value) -> Vec<&'a Value> {
    let mut found = Vec::new();
    let mut open: Vec<(&Value, usize)> = schemas.iter().map(|schema| (*schema, 0)).collect();
    while let Some((schema, depth)) = open.pop() {
        if found.len() >= MAX_SCHEMAS {
            break;
        }
        found.push(schema);
        if depth >= MAX_DEPTH {
            continue;
        }
        let reference = schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|text| text.strip_prefix('#'));
        open.extend(
            reference
                .and_then(|pointer| root.pointer(pointer))
                .map(|found| (found, depth + 1)),
        );
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let all = schema.get(keyword).and_then(Value::as_array);
            open.extend(all.into_iter().flatten().map(|one| (one, depth + 1)));
        }
    }
    found
}

/// Returns true if a schema declares its values as secret.
pub(super) fn is_secret(schema: &Value) -> bool {
    schema.get("format").is_some_and(|format| format == "password")
        || schema
            .get("writeOnly")
            .is_some_and(|only| *only == Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(value: &Value, schema: Option<&Value>) -> Value {
        shown_to_approve(value, schema, Some(&Mask::new([])), 100_000).unwrap()
    }

    #[test]
    fn names_of_members_hide_nothing() {
        let transfer = json!({"amount": 5, "token_address": "0xATTACKER", "authorization": {"limit": "unlimited"}, "secret": "x", "deep": [[{"password": 1}]]});
        assert_eq!(shown(&transfer, None), transfer);
        let schema =
            json!({"properties": {"token_address": {"type": "string"}, "authorization": {"type": "object"}}});
        assert_eq!(shown(&transfer, Some(&schema)), transfer);
    }

    #[test]
    fn values_that_a_schema_declares_as_secret_have_a_length_and_a_digest() {
        let digest = hex::encode(Sha256::digest("hunter2"));
        let hidden = json!(format!("[hidden: 7 characters, SHA-256 {digest}]"));
        let secret = json!({"type": "string", "format": "password"});
        let value = json!({"pin": "hunter2", "user": "ada"});
        for declared in [
            json!({"properties": {"pin": secret}}),
            json!({"properties": {"pin": {"writeOnly": true}}}),
            json!({"properties": {"pin": {"anyOf": [secret, {"type": "null"}]}}}),
            json!({"properties": {"pin": {"$ref": "#/$defs/s"}}, "$defs": {"s": secret}}),
            json!({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"properties": {"pin": secret}}}}),
        ] {
            let found = shown(&value, Some(&declared));
            assert_eq!(found, json!({"pin": hidden, "user": "ada"}), "{declared}");
        }
        let list = json!({"properties": {"all": {"items": {"writeOnly": true}}}});
        assert_eq!(
            shown(&json!({"all": ["hunter2"]}), Some(&list)),
            json!({"all": [hidden]})
        );
        // A schema that contains itself, and one that fans out.
        let again = json!({"$ref": "#", "anyOf": vec![json!({"$ref": "#"}); 50]});
        assert_eq!(shown(&value, Some(&again)), value);
    }

    #[test]
    fn arguments_that_cannot_be_shown_whole_are_refused() {
        let long = json!({"text": "x".repeat(200)});
        let refused = shown_to_approve(&long, None, Some(&Mask::new([])), 100).unwrap_err();
        assert!(
            matches!(&refused, NotShown::TooLong(reason) if reason.contains("have 211 characters") && reason.contains("at most 100"))
        );
        let unknown = shown_to_approve(&long, None, None, 1000).unwrap_err();
        assert!(matches!(unknown, NotShown::Unavailable(_)));
        let mut deep = json!("end");
        for _ in 0..100 {
            deep = json!([deep]);
        }
        assert_eq!(shown(&deep, None), deep);
    }
}
