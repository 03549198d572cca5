//! Builds one operation of the document.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::codes::{EVERY, Group};
use super::schemas::Schemas;
use crate::render::Problem;

/// The parameters that stand in paths.
const IN_PATHS: [(&str, &str); 6] = [
    ("session_id", "The session's id or name."),
    ("kernel_id", "The kernel's id."),
    ("execution_id", "The execution's id."),
    (
        "sha256",
        "The SHA-256 of the content, with or without `sha256:` before it.",
    ),
    ("name", "The variable's name."),
    ("path", "A path relative to the session's work directory."),
];

/// An operation.
#[derive(Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) schemas: &'a mut Schemas,
    id: String,
    summary: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: BTreeMap<u16, Value>,
    codes: BTreeSet<(u16, &'static str)>,
}

impl<'a> Operation<'a> {
    /// Of a path, with its parameters and the errors that every operation has.
    pub(super) fn new(method: &str, path: &str, summary: &'static str, schemas: &'a mut Schemas) -> Self {
        let words = path.split('/').map(|part| part.trim_matches(['{', '}']));
        let words = words.filter(|part| !part.is_empty() && *part != "v1");
        let id = words.fold(method.to_owned(), |id, word| {
            format!("{id}_{}", word.replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
        });
        let described = |name: &str| {
            IN_PATHS
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, text)| *text)
        };
        let names = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let parameters = names.map(|name| {
            json!({
                "name": name, "in": "path", "required": true, "description": described(name),
                "schema": { "type": "string", "minLength": 1 },
            })
        });
        let parameters = parameters.collect();
        let mut made = Self {
            schemas,
            id,
            summary,
            parameters,
            body: None,
            answers: BTreeMap::new(),
            codes: BTreeSet::new(),
        };
        made.errors(EVERY);
        made
    }

    /// Errors that it may answer with.
    pub(crate) fn errors(&mut self, group: Group) {
        self.codes.extend(group);
    }

    /// A parameter of the query, or a header.
    pub(crate) fn parameter(&mut self, place: &str, name: &str, required: bool, mut schema: Value) {
        let description = schema
            .as_object_mut()
            .and_then(|schema| schema.remove("description"));
        let mut parameter = json!({ "name": name, "in": place, "required": required, "schema": schema });
        if let Some(description) = description {
            parameter["description"] = description;
        }
        self.parameters.push(parameter);
    }

    /// The request's body.
    pub(crate) fn body(&mut self, media_type: &str, required: bool, schema: &Value) {
        self.body = Some(json!({ "required": required, "content": { media_type: { "schema": schema } } }));
    }

    /// A header of the answers with this status.
    pub(crate) fn header(&mut self, status: u16, name: &str, description: &str) {
        let answer = self.answers.entry(status).or_insert_with(|| json!({}));
        answer["headers"][name] = json!({ "description": description, "schema": { "type": "string" } });
    }

    /// An answer without a body.
    pub(crate) fn empty(&mut self, status: u16, description: &str) {
        let answer = self.answers.entry(status).or_insert_with(|| json!({}));
        answer["description"] = description.into();
    }

    /// An answer with a body; one status may have several media types.
    pub(crate) fn answer(&mut self, status: u16, description: &str, media_type: &str, schema: &Value) {
        self.empty(status, description);
        if let Some(answer) = self.answers.get_mut(&status) {
            answer["content"][media_type] = json!({ "schema": schema });
        }
    }

    /// Puts it together. Answers with errors are shared: `shared` has them by their status and codes.
    pub(super) fn finish(mut self, shared: &mut Map<String, Value>) -> Value {
        let problem = self.schemas.written::<Problem>();
        let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
        for (status, code) in &self.codes {
            by_status.entry(*status).or_default().push(code);
        }
        for (status, codes) in by_status {
            let name = format!("{status}_{}", codes.join("."));
            self.answers.insert(
                status,
                json!({ "$ref": format!("#/components/responses/{name}") }),
            );
            let listed: Vec<_> = codes.iter().map(|code| format!("`{code}`")).collect();
            let schema = json!({ "allOf": [problem], "properties": { "code": { "enum": codes } } });
            let content = json!({ "application/problem+json": { "schema": schema } });
            shared.insert(
                name,
                json!({ "description": listed.join(", "), "content": content }),
            );
        }
        let answers: Map<_, _> = self
            .answers
            .into_iter()
            .map(|(status, answer)| (status.to_string(), answer))
            .collect();
        let mut operation = json!({
            "operationId": self.id,
            "summary": self.summary,
            "parameters": self.parameters,
            "responses": answers,
        });
        if let Some(body) = self.body {
            operation["requestBody"] = body;
        }
        operation
    }
}
