//! Schemas of a description as schemas that stand alone: what they refer to is in their `$defs`, in the dialect of JSON Schema 2020-12.

use std::collections::{BTreeSet, HashMap};

use himalia_tools::MAX_SCHEMA_BYTES;
use serde_json::{Map, Value, json};

use super::description::{Description, percent_decoded};

/// Place of named schemas in a description.
const COMPONENTS: &str = "#/components/schemas/";
/// Schemas within schemas.
const MAX_DEPTH: usize = 64;
/// Schemas that one is written from, without those that it refers to by name.
const MAX_PARTS: usize = 20_000;

/// The schemas of a description.
pub(super) struct Schemas<'a> {
    description: &'a Description,
    /// Schemas that were needed so far, by name.
    named: HashMap<String, Result<Schema, String>>,
}

/// A schema whose references lead to `$defs`.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    pub(super) value: Value,
    /// Names in `$defs`.
    refers_to: BTreeSet<String>,
    bytes: usize,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(description: &'a Description) -> Self {
        Self {
            description,
            named: HashMap::new(),
        }
    }

    /// A schema that stands in the description.
    ///
    /// # Errors
    /// It is too long, or refers to what is not there.
    pub(super) fn convert(&self, schema: &Value) -> Result<Schema, String> {
        let mut work = Work {
            description: self.description,
            refers_to: BTreeSet::new(),
            parts: MAX_PARTS,
        };
        let value = work.schema(schema, 0)?;
        let bytes = value.to_string().len();
        Ok(Schema {
            value,
            refers_to: work.refers_to,
            bytes,
        })
    }

    /// Puts all that it refers to into its `$defs`.
    ///
    /// # Errors
    /// It is too long then, or something is not there.
    pub(super) fn complete(&mut self, value: Value, parts: &[&Schema]) -> Result<Value, String> {
        let mut bytes = value.to_string().len();
        let mut waiting: Vec<String> = parts
            .iter()
            .flat_map(|part| part.refers_to.iter().cloned())
            .collect();
        let mut defs: Map<String, Value> = Map::new();
        while let Some(name) = waiting.pop() {
            if defs.contains_key(&name) {
                continue;
            }
            let named = self.named(&name).clone()?;
            bytes += named.bytes;
            if bytes > MAX_SCHEMA_BYTES {
                return Err(format!("its schema has more than {MAX_SCHEMA_BYTES} bytes"));
            }
            waiting.extend(named.refers_to);
            defs.insert(name, named.value);
        }
        Ok(match value {
            Value::Object(mut members) if !defs.is_empty() => {
                members.insert("$defs".to_owned(), Value::Object(defs));
                Value::Object(members)
            }
            other => other,
        })
    }

    fn named(&mut self, name: &str) -> &Result<Schema, String> {
        if !self.named.contains_key(name) {
            let token = name.replace('~', "~0").replace('/', "~1");
            let found = self.description.at(&format!("{COMPONENTS}{token}"));
            let converted = found.and_then(|found| self.convert(found));
            self.named.insert(name.to_owned(), converted);
        }
        &self.named[name]
    }
}

struct Work<'a> {
    description: &'a Description,
    refers_to: BTreeSet<String>,
    /// Schemas that may still be written.
    parts: usize,
}

impl Work<'_> {
    fn schema(&mut self, schema: &Value, depth: usize) -> Result<Value, String> {
        self.parts = self.parts.checked_sub(1).ok_or("its schema has too many parts")?;
        if depth > MAX_DEPTH {
            return Err("its schema is too deep".to_owned());
        }
        let Value::Object(members) = schema else {
            return match schema {
                Value::Bool(_) => Ok(schema.clone()),
                _ => Err("a schema is neither an object nor true or false".to_owned()),
            };
        };
        let mut made = Map::new();
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            match name_of(reference) {
                Some(name) => {
                    let token = name.replace('~', "~0").replace('/', "~1");
                    made.insert("$ref".to_owned(), json!(format!("#/$defs/{token}")));
                    self.refers_to.insert(name);
                }
                None => return self.schema(self.description.at(reference)?, depth + 1),
            }
            if self.description.is_3_0 {
                return Ok(Value::Object(made));
            }
        }
        for (key, value) in members {
            let value = match (key.as_str(), value) {
                ("$ref" | "discriminator" | "xml" | "externalDocs" | "nullable", _) => continue,
                ("example", value) => {
                    made.entry("examples").or_insert_with(|| json!([value]));
                    continue;
                }
                (
                    "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions",
                    Value::Object(schemas),
                ) => {
                    let schemas = schemas
                        .iter()
                        .map(|(name, schema)| Ok((name.clone(), self.schema(schema, depth + 1)?)));
                    Value::Object(schemas.collect::<Result<_, String>>()?)
                }
                ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
                    let schemas = schemas.iter().map(|schema| self.schema(schema, depth + 1));
                    Value::Array(schemas.collect::<Result<_, String>>()?)
                }
                (
                    "items"
                    | "additionalProperties"
                    | "not"
                    | "contains"
                    | "propertyNames"
                    | "if"
                    | "then"
                    | "else"
                    | "unevaluatedProperties"
                    | "unevaluatedItems",
                    value,
                ) => self.schema(value, depth + 1)?,
                (_, value) => value.clone(),
            };
            made.insert(key.clone(), value);
        }
        if self.description.is_3_0 {
            return Ok(from_3_0(made, members));
        }
        Ok(Value::Object(made))
    }
}

/// Translates keywords of OpenAPI 3.0 that differ from JSON Schema.
fn from_3_0(mut made: Map<String, Value>, members: &Map<String, Value>) -> Value {
    for (exclusive, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(Value::Bool(is_exclusive)) = made.get(exclusive).cloned() {
            made.remove(exclusive);
            if is_exclusive && let Some(limit) = made.remove(limit) {
                made.insert(exclusive.to_owned(), limit);
            }
        }
    }
    if members.get("nullable") != Some(&Value::Bool(true)) {
        return Value::Object(made);
    }
    match made.get("type").cloned() {
        Some(Value::String(kind)) => {
            made.insert("type".to_owned(), json!([kind, "null"]));
            if let Some(Value::Array(values)) = made.get_mut("enum")
                && !values.contains(&Value::Null)
            {
                values.push(Value::Null);
            }
            Value::Object(made)
        }
        _ => json!({"anyOf": [made, {"type": "null"}]}),
    }
}

/// The name of a schema that a reference is to.
fn name_of(reference: &str) -> Option<String> {
    let token = reference.strip_prefix(COMPONENTS)?;
    (!token.contains('/')).then(|| percent_decoded(token).replace("~1", "/").replace("~0", "~"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(version: &str, schemas: &Value) -> Description {
        let text = json!({"openapi": version, "components": {"schemas": schemas}});
        Description::parse(text.to_string().as_bytes()).unwrap()
    }

    fn complete(version: &str, schemas: &Value, schema: &Value) -> Result<Value, String> {
        let description = description(version, schemas);
        let mut all = Schemas::new(&description);
        let converted = all.convert(schema)?;
        all.complete(converted.value.clone(), &[&converted])
    }

    #[test]
    fn what_a_schema_refers_to_goes_with_it() {
        let schemas = json!({
            "Pet": {"type": "object", "properties": {"owner": {"$ref": "#/components/schemas/a~1Owner"}, "$ref": {"type": "string"}}},
            "a/Owner": {"type": "object", "properties": {"pets": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}}},
            "Unused": {"type": "string"},
        });
        let made = complete(
            "3.1.0",
            &schemas,
            &json!({"$ref": "#/components/schemas/Pet", "description": "x"}),
        )
        .unwrap();
        assert_eq!(made["$ref"], "#/$defs/Pet");
        assert_eq!(made["description"], "x");
        assert_eq!(
            made["$defs"]["Pet"]["properties"]["owner"]["$ref"],
            "#/$defs/a~1Owner"
        );
        assert_eq!(
            made["$defs"]["a/Owner"]["properties"]["pets"]["items"]["$ref"],
            "#/$defs/Pet"
        );
        assert!(made["$defs"].get("Unused").is_none());
        // A reference to a part of another one stands where it is used.
        let part = json!({"$ref": "#/components/schemas/Pet/properties/$ref"});
        assert_eq!(
            complete("3.1.0", &schemas, &part).unwrap(),
            json!({"type": "string"})
        );
    }

    #[test]
    fn the_dialect_of_3_0_is_translated() {
        let schemas = json!({"A": {"type": "string"}});
        let converted = |schema: Value| complete("3.0.3", &schemas, &schema).unwrap();
        assert_eq!(
            converted(json!({"type": "string", "nullable": true})),
            json!({"type": ["string", "null"]})
        );
        assert_eq!(
            converted(json!({"type": "string", "nullable": true, "enum": ["a"], "example": "a"})),
            json!({"type": ["string", "null"], "enum": ["a", null], "examples": ["a"]})
        );
        assert_eq!(
            converted(
                json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true, "maximum": 5, "exclusiveMaximum": false})
            ),
            json!({"type": "integer", "exclusiveMinimum": 1, "maximum": 5})
        );
        let nullable = converted(
            json!({"nullable": true, "allOf": [{"$ref": "#/components/schemas/A", "nullable": true}]}),
        );
        assert_eq!(
            nullable,
            json!({"anyOf": [{"allOf": [{"$ref": "#/$defs/A"}]}, {"type": "null"}], "$defs": {"A": {"type": "string"}}})
        );
        // A property may have any name.
        let named = json!({"type": "object", "properties": {"nullable": {"type": "boolean"}, "example": {"type": "string"}}});
        assert_eq!(converted(named.clone()), named);
    }

    #[test]
    fn hostile_schemas_have_bounds() {
        let long = "x".repeat(MAX_SCHEMA_BYTES);
        let schemas = json!({
            "Loop": {"$ref": "#/components/schemas/Loop/properties/a"},
            "Long": {"description": long},
            "Wide": {"allOf": [{"$ref": "#/components/schemas/Wide/allOf/1"}, {"$ref": "#/components/schemas/Wide/allOf/0"}]},
            "Double": {"properties": {"a": {"allOf": [{"$ref": "#/components/schemas/Double/properties/a"}, {"$ref": "#/components/schemas/Double/properties/a"}]}}},
        });
        for name in ["Loop", "Long", "Wide", "Double", "Missing"] {
            let schema = json!({"$ref": format!("#/components/schemas/{name}")});
            assert!(complete("3.1.0", &schemas, &schema).is_err(), "{name}");
        }
        // Each refers twice to a part of the next one, which stands where it is used.
        let next = |number: usize| json!({"$ref": format!("#/components/schemas/S{number}/x")});
        let chain: Map<String, Value> = (0..24)
            .map(|number| {
                (
                    format!("S{number}"),
                    json!({"x": {"allOf": [next(number + 1), next(number + 1)]}}),
                )
            })
            .chain([("S24".to_owned(), json!({"x": {}}))])
            .collect();
        let error = complete("3.1.0", &Value::Object(chain), &next(0)).unwrap_err();
        assert!(error.contains("too many parts"), "{error}");
        for schema in [json!(5), json!({"items": "x"}), json!({"$ref": "other.json#/a"})] {
            assert!(complete("3.1.0", &schemas, &schema).is_err(), "{schema}");
        }
    }
}
