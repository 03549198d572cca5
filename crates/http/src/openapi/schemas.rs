//! The schemas of the document: those of answers are named and shared, those of requests stand in one piece.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The schemas of the document.
#[derive(Debug)]
pub(crate) struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
    bodies: Map<String, Value>,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.meta_schema = None;
                settings.definitions_path = "/components/schemas".into();
                settings
                    .transforms
                    .push(Box::new(RecursiveTransform(enumeration)));
            })
        };
        Self {
            read: settings()
                .for_deserialize()
                .with(|settings| settings.inline_subschemas = true)
                .into_generator(),
            written: settings().for_serialize().into_generator(),
            bodies: Map::new(),
        }
    }

    /// A reference to what a type is serialised to.
    pub(crate) fn written<T: JsonSchema>(&mut self) -> Value {
        let mut schema = self.written.subschema_for::<T>().to_value();
        anything(&mut schema);
        schema
    }

    /// The description of a type, in one sentence.
    pub(crate) fn what<T: JsonSchema>(&mut self) -> String {
        self.written::<T>();
        let schema = self.written.definitions().get(&*T::schema_name());
        let text = schema.and_then(|schema| schema.get("description")?.as_str());
        let first = text.and_then(|text| text.lines().next()).unwrap_or("JSON.");
        first.to_owned()
    }

    /// The schema that a type is parsed from.
    pub(crate) fn read<T: JsonSchema>(&mut self) -> Value {
        self.read.subschema_for::<T>().to_value()
    }

    /// The same as a body: a reference, and whether it may be absent because no member has to be there.
    pub(crate) fn body<T: JsonSchema>(&mut self) -> (Value, bool) {
        let schema = self.read::<T>();
        let optional = schema.get("required").is_none();
        let name = T::schema_name().into_owned();
        let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
        self.bodies.insert(name, schema);
        (reference, optional)
    }

    pub(super) fn finish(mut self) -> Map<String, Value> {
        let mut all = self.written.take_definitions(true);
        debug_assert!(
            self.bodies.keys().all(|name| !all.contains_key(name)),
            "a body and an answer have one name"
        );
        all.append(&mut self.bodies);
        all.values_mut().for_each(usual);
        all
    }
}

/// Says in the usual way what many generators do not read otherwise: what stands beside a reference goes into a schema of its own, and
/// a schema that allows everything is `{}`.
fn usual(schema: &mut Value) {
    match schema {
        Value::Array(values) => values.iter_mut().for_each(usual),
        Value::Object(members) => {
            members.values_mut().for_each(usual);
            members.get_mut("items").into_iter().for_each(anything);
            // An absent member is as good as an empty one; some generators refuse an object as a default.
            if members
                .get("default")
                .is_some_and(|default| *default == json!({}) || *default == json!([]))
            {
                members.remove("default");
            }
            if let Some(Value::Object(properties)) = members.get_mut("properties") {
                properties.values_mut().for_each(anything);
            }
            let says_more = |name: &str| !["$ref", "description", "deprecated"].contains(&name);
            if members.get("$ref").is_some_and(Value::is_string)
                && members.keys().any(|name| says_more(name))
                && let Some(reference) = members.remove("$ref")
            {
                let rest = Value::Object(std::mem::take(members));
                members.insert("allOf".to_owned(), json!([{ "$ref": reference }, rest]));
            }
        }
        _ => {}
    }
}

fn anything(schema: &mut Value) {
    if *schema == Value::Bool(true) {
        *schema = json!({});
    }
}

/// Words of which each has a description, as one enumeration with one description: generators of clients make a wrong union of the others.
fn enumeration(schema: &mut Schema) {
    let Some(words) = schema.get("oneOf").and_then(Value::as_array) else {
        return;
    };
    let word = |one: &Value| one.get("const")?.as_str().map(str::to_owned);
    let Some(all) = words.iter().map(word).collect::<Option<Vec<String>>>() else {
        return;
    };
    let lines = words.iter().zip(&all).filter_map(|(one, word)| {
        let text = one.get("description")?.as_str()?;
        Some(format!("- `{word}`: {text}"))
    });
    let before = schema
        .get("description")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let text: Vec<String> = before.into_iter().chain(lines).collect();
    schema.remove("oneOf");
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), all.into());
    if !text.is_empty() {
        schema.insert("description".to_owned(), text.join("\n").into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_beside_a_reference_is_not_lost() {
        let mut schema = json!({"oneOf": [
            {"$ref": "#/a", "type": "object", "properties": {"event": {"const": "x"}}},
            {"$ref": "#/b", "description": "plain"},
            {"items": true, "properties": {"a": true}, "additionalProperties": true, "default": {}},
        ]});
        usual(&mut schema);
        assert_eq!(
            schema,
            json!({"oneOf": [
                {"allOf": [{"$ref": "#/a"}, {"type": "object", "properties": {"event": {"const": "x"}}}]},
                {"$ref": "#/b", "description": "plain"},
                {"items": {}, "properties": {"a": {}}, "additionalProperties": true},
            ]})
        );
    }
}
