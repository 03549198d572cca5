//! The schemas of the document: those of answers are named and shared, those of requests stand in one piece.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Where schemas come from and go to.
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
        self.written.subschema_for::<T>().to_value()
    }

    /// What a type is parsed from.
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
        all
    }
}
