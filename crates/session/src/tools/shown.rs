//! The parts of arguments and replies that are written into the log, without secrets.

use himalia_credentials::{CredentialSource as _, Mask};
use himalia_model::Session;
use serde_json::{Map, Value, json};

use super::whole::is_secret;
use crate::Credentials;

/// Bounds of a value that is written.
#[derive(Clone, Copy)]
struct Bounds {
    /// Characters of a string.
    string: usize,
    /// Parts of a list or an object.
    parts: usize,
    /// Depth of nesting.
    depth: usize,
}

/// In the log.
const PARTLY: Bounds = Bounds {
    string: 500,
    parts: 50,
    depth: 8,
};
/// In the place of a secret.
const HIDDEN: &str = "[hidden]";
/// Parts of names of members that have secrets.
const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "authorization",
    "private_key",
    "credential",
];

/// JSON of a value, at most `chars` characters. A member whose name says that it is a secret, or whose schema does, is hidden, and so is what
/// the mask knows.
pub(crate) fn shown(value: &Value, schema: Option<&Value>, mask: &Mask, chars: usize) -> String {
    cut(&within(value, schema, mask, PARTLY).to_string(), chars)
}

fn within(value: &Value, schema: Option<&Value>, mask: &Mask, bounds: Bounds) -> Value {
    let masked = (!mask.is_empty())
        .then(|| mask.text(value.to_string().as_bytes()))
        .flatten()
        .map(|text| serde_json::from_slice(&text).unwrap_or_else(|_| HIDDEN.into()));
    part(masked.as_ref().unwrap_or(value), schema, bounds)
}

/// Mask for the credentials of a session, and for one more, which has an owner and a name. `None`: they cannot be read.
pub(crate) async fn mask(
    credentials: &Credentials,
    session: &Session,
    also: Option<(&str, &str)>,
) -> Option<Mask> {
    let mut found = Vec::new();
    let names = &session.sandbox.credentials;
    if !names.is_empty() {
        found.extend(credentials.find(&session.owner, names).await.ok()?);
    }
    if let Some((owner, name)) = also {
        found.extend(credentials.find(owner, &[name.to_owned()]).await.ok()?);
    }
    Some(Mask::new(&found))
}

fn part(value: &Value, schema: Option<&Value>, bounds: Bounds) -> Value {
    let Bounds { string, parts, depth } = bounds;
    let below = Bounds {
        depth: depth.saturating_sub(1),
        ..bounds
    };
    if schema.is_some_and(is_secret) {
        return HIDDEN.into();
    }
    match value {
        Value::String(text) => cut(text, string).into(),
        Value::Array(_) | Value::Object(_) if depth == 0 => "…".into(),
        Value::Array(all) => {
            let of_items = schema.and_then(|schema| schema.get("items"));
            let mut shown: Vec<Value> = all
                .iter()
                .take(parts)
                .map(|one| part(one, of_items, below))
                .collect();
            if all.len() > parts {
                shown.push(format!("… {} more", all.len().saturating_sub(parts)).into());
            }
            shown.into()
        }
        Value::Object(members) => {
            let mut shown = Map::new();
            for (name, value) in members.iter().take(parts) {
                let schema = schema.and_then(|schema| schema.get("properties")?.get(name));
                let value = if is_secret_name(name) && !value.is_null() {
                    json!(HIDDEN)
                } else {
                    part(value, schema, below)
                };
                shown.insert(cut(name, string), value);
            }
            if members.len() > parts {
                shown.insert(
                    "…".to_owned(),
                    format!("{} more", members.len().saturating_sub(parts)).into(),
                );
            }
            shown.into()
        }
        other => other.clone(),
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// At most so many characters.
pub(crate) fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &Value, schema: Option<&Value>) -> String {
        shown(value, schema, &Mask::new([]), 2000)
    }

    #[test]
    fn secrets_are_hidden_by_name_and_by_schema() {
        let value = json!({"user": "ada", "Password": "p", "X-Api-Key": "k", "nested": [{"access_token": 5}], "token": null});
        assert_eq!(
            text(&value, None),
            r#"{"Password":"[hidden]","X-Api-Key":"[hidden]","nested":[{"access_token":"[hidden]"}],"token":null,"user":"ada"}"#
        );
        let schema =
            json!({"properties": {"pin": {"format": "password"}, "all": {"items": {"writeOnly": true}}}});
        let value = json!({"pin": "1234", "all": ["a", "b"], "x": 1});
        assert_eq!(
            text(&value, Some(&schema)),
            r#"{"all":["[hidden]","[hidden]"],"pin":"[hidden]","x":1}"#
        );
    }

    #[test]
    fn what_is_long_is_cut() {
        let long = json!({"text": "x".repeat(10_000), "list": (0..1000).collect::<Vec<_>>()});
        let made = text(&long, None);
        assert!(
            made.chars().count() < 1000 && made.contains("… 950 more"),
            "{made}"
        );
        let deep = (0..50).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(text(&deep, None), "[[[[[[[[\"…\"]]]]]]]]");
        assert_eq!(
            shown(&json!("é".repeat(600)), None, &Mask::new([]), 10)
                .chars()
                .count(),
            11
        );
    }
}
