//! Operations as tools: one object of arguments for what is in the path, the query, the headers and the body.

mod parameter;

use std::collections::HashMap;

use himalia_tools::{Effect, ToolDefinition};
use himalia_upstream::is_json;
use http::Method;
use serde_json::{Map, Value, json};

use super::description::Description;
use super::form::Form;
use super::schema::{Schema, Schemas};
use crate::listing::Listing;
pub(super) use parameter::{Parameter, Position, Style};

/// The argument that a body is, if its members are no arguments themselves.
const BODY: &str = "body";

/// Request that calls an operation.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) method: Method,
    /// With `{name}` where a parameter stands.
    pub(super) path: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: RequestBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestBody {
    /// There is none.
    Absent,
    /// An object of all arguments that are no parameters.
    Rest {
        format: Format,
        /// Without arguments it is an empty object, and not absent.
        required: bool,
    },
    /// The value of the argument `body`.
    Whole { format: Format },
}

/// Encoding of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// As JSON, of this media type.
    Json(String),
    Form(Form),
}

/// The operations of a description by the names of their tools, and the tools.
pub(super) fn all(description: &Description) -> (HashMap<String, Operation>, Listing) {
    let (mut operations, mut listing) = (HashMap::new(), Listing::default());
    let mut schemas = Schemas::new(description);
    for (path, item) in description.paths() {
        let item = match description.follow(item) {
            Ok(item) => item,
            Err(reason) => {
                listing.leave_out(path, &reason);
                continue;
            }
        };
        for method in ["get", "put", "post", "delete", "options", "head", "patch"] {
            let Some(operation) = item.get(method) else {
                continue;
            };
            let name = name(operation, method, path);
            if operations.contains_key(&name) {
                listing.leave_out(&name, "there is one of this name already");
                continue;
            }
            match one(description, &mut schemas, (path, item), (method, operation)) {
                Ok((made, mut definition)) => {
                    definition.name.clone_from(&name);
                    let bytes = definition.input_schema.to_string().len() + definition.description.len();
                    listing.add(definition, bytes);
                    operations.insert(name, made);
                }
                Err(reason) => listing.leave_out(&name, &reason),
            }
        }
    }
    (operations, listing)
}

/// The id of an operation, or else its method and path: `get_pets_petId`.
fn name(operation: &Value, method: &str, path: &str) -> String {
    let id = operation
        .get("operationId")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let text = if id.is_empty() {
        format!("{method}_{path}")
    } else {
        id.to_owned()
    };
    let mut name = String::new();
    for letter in text.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => name.push(letter),
            _ if name.ends_with('_') => {}
            _ => name.push('_'),
        }
    }
    let trimmed = name.trim_matches('_');
    if trimmed.is_empty() {
        method.to_owned()
    } else {
        trimmed.to_owned()
    }
}

fn one(
    description: &Description,
    schemas: &mut Schemas<'_>,
    (path, item): (&str, &Value),
    (method, operation): (&str, &Value),
) -> Result<(Operation, ToolDefinition), String> {
    if item.get("servers").or(operation.get("servers")).is_some() {
        return Err("it has a server of its own".to_owned());
    }
    let mut input = Input::default();
    let parameters = parameter::all(description, schemas, item, operation)?;
    for (parameter, schema, required) in parameters {
        input.add(&parameter.argument, schema, required);
        input.parameters.push(parameter);
    }
    let placed = path.matches('{').count();
    let in_path = input.parameters.iter().filter(|one| one.place == Position::Path);
    if in_path.clone().count() != placed
        || !in_path
            .clone()
            .all(|one| path.contains(&format!("{{{}}}", one.name)))
    {
        return Err("the path and the parameters of the operation differ".to_owned());
    }
    let body = match operation.get("requestBody") {
        Some(body) => input.add_body(description, schemas, body)?,
        None => RequestBody::Absent,
    };
    let text = |member: &str| {
        operation
            .get(member)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .trim()
    };
    let (summary, long) = (text("summary"), text("description"));
    let definition = ToolDefinition {
        name: String::new(),
        description: match (summary, long) {
            ("", "") => format!("{} {path}", method.to_uppercase()),
            (one, "") | ("", one) => one.to_owned(),
            (summary, long) if long.starts_with(summary) => long.to_owned(),
            (summary, long) => format!("{summary}\n{long}"),
        },
        input_schema: input.schema(schemas, &body)?,
        // It is for who reads it, and no reason to leave a tool out.
        output_schema: output(description, schemas, operation).ok().flatten(),
        effect: effect(method),
        place: format!("{} {path}", method.to_uppercase()),
    };
    let method = method
        .to_uppercase()
        .parse()
        .map_err(|_| "it has no method of HTTP".to_owned())?;
    let operation = Operation {
        method,
        path: path.to_owned(),
        parameters: input.parameters,
        body,
    };
    Ok((operation, definition))
}

/// Effect that a method implies. `POST` and `PATCH` imply none.
fn effect(method: &str) -> Effect {
    match method {
        "get" | "head" | "options" => Effect {
            read_only: true,
            destructive: false,
            idempotent: true,
        },
        "put" | "delete" => Effect {
            idempotent: true,
            ..Effect::default()
        },
        _ => Effect::default(),
    }
}

/// The arguments of an operation.
#[derive(Default)]
struct Input {
    properties: Map<String, Value>,
    required: Vec<Value>,
    parts: Vec<Schema>,
    parameters: Vec<Parameter>,
    /// `additionalProperties` of the body's schema.
    others: Option<Value>,
}

impl Input {
    fn add(&mut self, argument: &str, schema: Schema, required: bool) {
        self.properties.insert(argument.to_owned(), schema.value.clone());
        self.parts.push(schema);
        if required {
            self.required.push(json!(argument));
        }
    }

    fn add_body(
        &mut self,
        description: &Description,
        schemas: &Schemas<'_>,
        body: &Value,
    ) -> Result<RequestBody, String> {
        let body = description.follow(body)?;
        let required = body.get("required") == Some(&Value::Bool(true));
        let content = body.get("content").and_then(Value::as_object);
        let Some((format, schema)) = format(description, content.into_iter().flatten())? else {
            if required {
                return Err("its body is neither JSON nor a form".to_owned());
            }
            return Ok(RequestBody::Absent);
        };
        let object = description.follow(schema)?;
        if !self.takes_members(object, required) {
            let argument = self.free(BODY);
            if argument != BODY {
                return Err("a parameter has the name of its body".to_owned());
            }
            let mut converted = match &format {
                Format::Json(_) => schemas.convert(schema)?,
                Format::Form(_) => schemas.convert(object)?,
            };
            format.describe(&mut converted.value);
            self.add(BODY, converted, required);
            return Ok(RequestBody::Whole { format });
        }
        let mut converted = schemas.convert(object)?;
        format.describe(&mut converted.value);
        if let Some(Value::Object(properties)) = converted.value.get("properties") {
            self.properties.extend(properties.clone());
        }
        if let Some(Value::Array(names)) = converted.value.get("required") {
            self.required.extend(names.iter().cloned());
        }
        self.others = converted.value.get("additionalProperties").cloned();
        self.parts.push(converted);
        Ok(RequestBody::Rest { format, required })
    }

    /// True if the members of a body can be arguments in addition to the parameters.
    fn takes_members(&self, object: &Value, required: bool) -> bool {
        let is_plain = [
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "if",
            "patternProperties",
            "$dynamicRef",
            "nullable",
            "minProperties",
        ]
        .iter()
        .all(|keyword| object.get(keyword).is_none());
        let Some(properties) = object.get("properties").and_then(Value::as_object) else {
            return false;
        };
        let is_object = object.get("type").is_none_or(|kind| kind == "object");
        // All or nothing of a body that may be absent cannot be said of its members.
        let is_needed = required || object.get("required").is_none_or(|names| names == &json!([]));
        is_plain
            && is_object
            && is_needed
            && !properties.keys().any(|name| self.properties.contains_key(name))
    }

    fn free(&self, name: &str) -> String {
        if self.properties.contains_key(name) {
            format!("{name}_")
        } else {
            name.to_owned()
        }
    }

    fn schema(&self, schemas: &mut Schemas<'_>, body: &RequestBody) -> Result<Value, String> {
        let mut schema = json!({"type": "object", "properties": self.properties});
        if !self.required.is_empty() {
            schema["required"] = Value::Array(self.required.clone());
        }
        // A misspelled argument is not lost, unless the body takes others.
        schema["additionalProperties"] = match body {
            RequestBody::Rest { .. } => self.others.clone().unwrap_or(Value::Bool(true)),
            _ => Value::Bool(false),
        };
        schemas.complete(schema, &self.parts.iter().collect::<Vec<_>>())
    }
}

impl Format {
    /// Says in the converted schema of the body how what is no JSON is given.
    fn describe(&self, schema: &mut Value) {
        let Self::Form(form) = self else { return };
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            form.describe(properties);
        }
        if schema == &Value::Bool(true) {
            *schema = json!({"type": "object"});
        }
    }
}

/// Encoding and schema of a body: JSON if possible, else a form. `None`: neither.
fn format<'a>(
    description: &Description,
    content: impl Iterator<Item = (&'a String, &'a Value)> + Clone,
) -> Result<Option<(Format, &'a Value)>, String> {
    let schema_of = |content: &'a Value| content.get("schema").unwrap_or(&Value::Bool(true));
    if let Some((media_type, found)) = content.clone().find(|(media_type, _)| is_json_type(media_type)) {
        return Ok(Some((Format::Json(media_type.clone()), schema_of(found))));
    }
    for (media_type, found) in content {
        let schema = schema_of(found);
        let object = description.follow(schema)?;
        if let Some(form) = Form::of(description, media_type, found, object) {
            if object.get("type").is_some_and(|kind| kind != "object") {
                return Err("the schema of its form must be an object".to_owned());
            }
            return Ok(Some((Format::Form(form), schema)));
        }
    }
    Ok(None)
}

fn is_json_type(media_type: &str) -> bool {
    is_json(media_type.split(';').next().unwrap_or_default().trim())
}

/// The schema of the JSON of the first response that is a success.
fn output(
    description: &Description,
    schemas: &mut Schemas<'_>,
    operation: &Value,
) -> Result<Option<Value>, String> {
    let responses = operation.get("responses").and_then(Value::as_object);
    let mut successes: Vec<_> = responses
        .into_iter()
        .flatten()
        .filter(|(code, _)| code.starts_with('2'))
        .collect();
    successes.sort_by_key(|(code, _)| code.as_str());
    for (_, response) in successes {
        let content = description
            .follow(response)?
            .get("content")
            .and_then(Value::as_object);
        let schema = content
            .into_iter()
            .flatten()
            .find(|(media_type, _)| is_json_type(media_type))
            .and_then(|(_, content)| content.get("schema"));
        if let Some(schema) = schema {
            let converted = schemas.convert(schema)?;
            return schemas.complete(converted.value.clone(), &[&converted]).map(Some);
        }
    }
    Ok(None)
}

#[cfg(test)]
#[path = "operation_tests.rs"]
mod tests;
