//! Builds one operation of the document.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::codes::{EVERY, Group, of_parameter};
use super::schemas::Schemas;
use crate::problem::Problem;

/// The groups of operations. The tag of an operation is the last of these words in its path.
pub(super) const TAGS: &[(&str, &str)] = &[
    ("sessions", "Live kernels with their sandboxes."),
    ("kernels", "The kernels of a session."),
    ("executions", "Code that runs once, and its results."),
    ("events", "Streams of the events of a session or an execution."),
    ("prompts", "Questions to people, and their answers."),
    ("variables", "The variables of a kernel."),
    ("files", "The files of a session."),
    ("artifacts", "Images and other large values of executions."),
    ("history", "History of the code in a session."),
    ("code", "Completion and inspection."),
    ("tools", "Tools of upstream servers that sessions use."),
    ("workflows", "Definitions whose steps are skills."),
    ("runs", "Runs of skills and workflows, whatever has started them."),
    ("schedules", "Runs of skills at due times."),
    ("webhooks", "Runs of skills that signed messages start."),
    ("deliveries", "Results of runs that are posted to callbacks."),
    ("templates", "Templates from which sessions start."),
    ("tokens", "Access tokens."),
    (
        "credentials",
        "Secrets that the gateway adds to requests of sessions.",
    ),
    ("usage", "Usage and limits of a tenant."),
    ("gateway", "Upkeep, for the operator."),
    ("description", "This description."),
];

/// Words of paths that stand for the tag of another word.
const OTHER_WORDS: &[(&str, &str)] = &[
    ("tool-approvals", "tools"),
    ("prompt-webhooks", "prompts"),
    ("upload", "files"),
    ("archive", "files"),
    ("notebook.ipynb", "history"),
    ("script.py", "history"),
    ("complete", "code"),
    ("inspect", "code"),
    ("gc", "gateway"),
    ("pools", "gateway"),
    ("openapi.json", "description"),
];

fn tag_of(path: &str) -> &'static str {
    let tag = |word: &str| {
        let other = OTHER_WORDS.iter().find(|(other, _)| *other == word);
        let word = other.map_or(word, |(_, tag)| tag);
        let found = TAGS.iter().find(|(tag, _)| *tag == word);
        // The usage of a session is the session's.
        found
            .filter(|_| word != "usage" || path == "/v1/usage")
            .map(|(tag, _)| *tag)
    };
    path.rsplit('/').find_map(tag).unwrap_or("gateway")
}

/// The parameters that stand in paths.
pub(super) const IN_PATHS: &[(&str, &str)] = &[
    ("skill", "The skill's name."),
    ("tool", "The tool's id, `server.tool`."),
    ("workflow", "The workflow's name."),
    ("run_id", "The run's id, `run_…`."),
    ("step", "The step's id in its workflow."),
    ("session_id", "The session's id or name."),
    ("kernel_id", "The kernel's id."),
    ("execution_id", "The execution's id."),
    ("prompt_id", "The prompt's id."),
    (
        "sha256",
        "The SHA-256 of the content, with or without `sha256:` before it.",
    ),
    ("token_id", "The token's id."),
    ("approval_id", "The approval's id."),
    ("credential", "The credential's name."),
    ("schedule", "The schedule's id or name."),
    ("webhook", "The webhook's id or name."),
    ("delivery", "The delivery's id."),
    ("prompt_webhook", "The id or name of the webhook of prompts."),
    ("name", "The variable's name."),
    ("path", "A path relative to the session's work directory."),
];

#[derive(Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) schemas: &'a mut Schemas,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: BTreeMap<u16, Value>,
    /// The bodies of the answers, by status and media type.
    described: BTreeMap<u16, BTreeMap<String, String>>,
    codes: BTreeSet<(u16, &'static str)>,
}

impl<'a> Operation<'a> {
    /// An operation of a path, with its parameters and the errors that every operation has.
    pub(super) fn new(id: &'static str, path: &str, summary: &'static str, schemas: &'a mut Schemas) -> Self {
        let described = |name: &str| {
            IN_PATHS
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, text)| *text)
        };
        let names = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let names: Vec<&str> = names.collect();
        let parameters = names.iter().map(|name| {
            json!({
                "name": name, "in": "path", "required": true, "description": described(name),
                "schema": { "type": "string", "minLength": 1 },
            })
        });
        let parameters = parameters.collect();
        let mut made = Self {
            schemas,
            id,
            tag: tag_of(path),
            summary,
            parameters,
            body: None,
            answers: BTreeMap::new(),
            described: BTreeMap::new(),
            codes: BTreeSet::new(),
        };
        made.errors(EVERY);
        made.codes.extend(names.into_iter().flat_map(of_parameter));
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

    /// An answer with a body. One status may have several media types: the description of the answer then says which is what.
    pub(crate) fn answer(&mut self, status: u16, description: &str, media_type: &str, schema: &Value) {
        let answer = self.answers.entry(status).or_insert_with(|| json!({}));
        answer["content"][media_type] = json!({ "schema": schema });
        let described = self.described.entry(status).or_default();
        described.insert(media_type.to_owned(), description.to_owned());
        let text = if described.len() == 1 {
            description.to_owned()
        } else {
            let each = described.iter().map(|(media, text)| format!("`{media}`: {text}"));
            each.collect::<Vec<_>>().join("\n\n")
        };
        answer["description"] = text.into();
    }

    /// The schema of one document of an answer that consists of many: an event of a stream.
    pub(crate) fn of_each(&mut self, status: u16, media_type: &str, schema: &Value) {
        if let Some(answer) = self.answers.get_mut(&status) {
            answer["content"][media_type]["schema"] = schema.clone();
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
            "tags": [self.tag],
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
