//! The description of the native API: the committed one is what the code makes, and it is whole.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use std::collections::BTreeSet;
use std::path::Path;

use common::Gateway;
use himalia_http::{ROUTES, openapi};
use serde_json::Value;

/// Set: the committed file is written anew (`make openapi`).
const WRITE: &str = "HIMALIA_WRITE_OPENAPI";

#[test]
fn the_committed_description_is_what_the_code_makes() {
    let made = format!("{:#}\n", openapi(""));
    is_committed("openapi.json", &made);
}

/// Compares a file of docs with what the code makes, or writes it.
fn is_committed(name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = made
        .lines()
        .zip(committed.lines())
        .position(|(made, old)| made != old);
    assert!(
        made == committed,
        "docs/{name} is an old one, from line {differs:?} on: make openapi"
    );
}

/// The beginning of docs/reference/errors.md, before the codes.
const ERRORS: &str = "\
# Error codes

<!-- Made from crates/model/src/error_codes.rs: make openapi -->

Every error of `/v1` is a problem document (RFC 9457, `application/problem+json`) with a stable `code`:

```json
{\"type\": \"about:blank\", \"title\": \"Conflict\", \"status\": 409, \"detail\": \"the kernel is dead: oom\", \"code\": \"kernel_dead\",
 \"retryable\": false, \"request_id\": \"0b7d…\"}
```

Programs compare `code`. `detail` is a sentence for people and can change. `himalia` prints it with the code. The log of the gateway has the
`request_id`.

| retry | meaning |
|---|---|
| yes | `retryable` is true: send the same request again after `retry_after_s`. It fails again while the cause lasts |
| no | `retryable` is false: the same request fails again until you do what the page says |
| depends | look at `retryable` of the problem |

The same table is `components.x-error-codes` of the [OpenAPI description](../openapi.json). Refusals of the network proxy have
[codes of their own](../how-to/network.md#refusals), and so have [language models](../how-to/models.md).
";

#[test]
fn the_committed_page_of_errors_is_what_the_code_makes() {
    use std::fmt::Write;

    let (mut page, mut area) = (ERRORS.to_owned(), Value::Null);
    for row in openapi("")["components"]["x-error-codes"].as_array().unwrap() {
        let text = |name: &str| row[name].as_str().unwrap();
        if row["area"] != area {
            area = row["area"].clone();
            write!(page, "\n## {}\n", text("area")).unwrap();
        }
        let statuses = row["statuses"].as_array().unwrap().iter().map(Value::to_string);
        let statuses = statuses.collect::<Vec<_>>().join(", ");
        write!(
            page,
            "\n### `{}`\n\nStatus {statuses}. Retry: {}.\n\n{}\n\n- **Cause:** {}\n- **Remedy:** {}\n",
            text("code"),
            text("retry"),
            text("meaning"),
            text("cause"),
            text("remedy"),
        )
        .unwrap();
    }
    is_committed("reference/errors.md", &page);
}

#[test]
fn every_route_has_an_operation_with_answers_and_errors() {
    let document = openapi("/base");
    assert_eq!(document["servers"][0]["url"], "/base");
    let mut ids = BTreeSet::new();
    for route in ROUTES.iter().filter(|route| route.path.starts_with("/v1/")) {
        let path = route.path.replace("{*", "{");
        let method = route.method.as_str().to_ascii_lowercase();
        let operation = &document["paths"][&path][&method];
        let answers = operation["responses"].as_object().unwrap();
        assert!(
            answers.keys().any(|status| status.starts_with('2')),
            "{method} {path}"
        );
        assert!(answers.contains_key("401"), "{method} {path}");
        assert!(
            ids.insert(operation["operationId"].as_str().unwrap().to_owned()),
            "{method} {path}"
        );
        for answer in answers.values() {
            let answer = resolved(&document, answer);
            assert!(answer["description"].is_string(), "{method} {path}: {answer}");
        }
    }
}

#[test]
fn operations_have_names_and_tags_for_generators_and_types_for_json() {
    let document = openapi("");
    for (path, method, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap();
        let is_word = |word: &str| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        assert!(id.split('_').all(is_word), "{method} {path}: {id}");
        assert_eq!(operation["tags"].as_array().unwrap().len(), 1, "{method} {path}");
        for (status, answer) in operation["responses"].as_object().unwrap() {
            let content = resolved(&document, answer)["content"].as_object();
            for (kind, content) in content.into_iter().flatten() {
                let schema = resolved(&document, &content["schema"]);
                let typed = ["properties", "anyOf", "oneOf"]
                    .iter()
                    .any(|part| schema[part].is_object() || schema[part].is_array());
                let is_ours = ["application/json", "application/x-ndjson", "text/event-stream"]
                    .contains(&kind.as_str());
                // The description itself is one of those of OpenAPI.
                let is_open = !is_ours || path == "/v1/openapi.json";
                assert!(typed || is_open, "{method} {path} {status} {kind}: {schema}");
            }
        }
    }
}

/// Lists that are complete in each answer, with what bounds them.
const PARTS: [(&str, &str, &str); 22] = [
    (
        "/v1/executions/{execution_id}",
        "outputs",
        "the outputs of a result",
    ),
    ("/v1/executions/{execution_id}", "prompts", "16 open ones"),
    ("/v1/runs/{run_id}", "violations", "the first ones"),
    ("/v1/runs", "unanswered", "the replicas"),
    ("/v1/executions/{execution_id}", "artifacts", "32 files"),
    ("/v1/prompts", "unanswered", "the replicas"),
    ("/v1/prompts", "options", "16"),
    ("/v1/prompts/{prompt_id}", "options", "16"),
    (
        "/v1/sessions/{session_id}/prompts",
        "prompts",
        "16 open ones, 64 that have ended",
    ),
    ("/v1/sessions/{session_id}", "allow", "the hosts of a template"),
    (
        "/v1/sessions/{session_id}",
        "credentials",
        "the credentials of a template",
    ),
    ("/v1/sessions/{session_id}", "tools", "the tools of a template"),
    ("/v1/sessions/{session_id}/tools", "tools", "100"),
    (
        "/v1/sessions/{session_id}/tools/servers",
        "servers",
        "the servers of a template",
    ),
    (
        "/v1/sessions/{session_id}/tools/{tool}",
        "callers",
        "the kinds of callers",
    ),
    ("/v1/runs/{run_id}", "steps", "100"),
    ("/v1/runs/{run_id}/steps/{step}", "needs", "100"),
    (
        "/v1/runs/{run_id}/steps/{step}",
        "attempts",
        "11 of each of 1,000 items",
    ),
    ("/v1/templates", "tools", "the tools of a template"),
    ("/v1/sessions/{session_id}/events", "buffers", "256"),
    ("/v1/sessions/{session_id}/events", "buffer_bytes", "256"),
    ("/v1/usage", "callers", "the callers of a tenant today"),
];

#[test]
fn every_list_is_read_in_pages() {
    let document = openapi("");
    let mut lists = 0;
    for (path, _, operation) in operations(&document).filter(|(_, method, _)| *method == "get") {
        for answer in operation["responses"]["200"]["content"]
            .as_object()
            .into_iter()
            .flat_map(|content| content.values())
        {
            let members = &resolved(&document, &answer["schema"])["properties"];
            let is_list = |member: &Value| resolved(&document, member)["type"].to_string().contains("array");
            let names = members
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(_, member)| is_list(member));
            let names: Vec<_> = names
                .map(|(name, _)| name.as_str())
                .filter(|name| !PARTS.iter().any(|(of, member, _)| (of, member) == (&path, name)))
                .collect();
            if names.is_empty() {
                continue;
            }
            lists += 1;
            assert!(members["next"].is_object(), "{path}: {names:?} without next");
            let parameters = operation["parameters"].as_array().unwrap();
            let parameters: Vec<_> = parameters
                .iter()
                .map(|one| resolved(&document, one)["name"].clone())
                .collect();
            for wanted in ["cursor", "limit"] {
                assert!(parameters.contains(&wanted.into()), "{path} without {wanted}");
            }
        }
    }
    assert!(lists > 8, "{lists}");
    for (path, name, bound) in PARTS {
        assert!(
            document["paths"][path]["get"].is_object() && !bound.is_empty(),
            "{path} {name}"
        );
    }
}

/// Path, method and description.
fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        item.iter()
            .filter(|(_, operation)| operation["operationId"].is_string())
            .map(|(method, operation)| (path.as_str(), method.as_str(), operation))
    })
}

#[test]
fn streams_of_events_are_websockets_too() {
    let document = openapi("");
    for (path, event) in [
        ("/v1/sessions/{session_id}/events", "LogRecord"),
        ("/v1/executions/{execution_id}/events", "ExecutionEvent"),
        (
            "/v1/sessions/{session_id}/executions/events",
            "SessionExecutionEvent",
        ),
    ] {
        let answers = &document["paths"][path]["get"]["responses"];
        for status in ["101", "200", "426"] {
            assert!(answers[status].is_object(), "{path} {status}");
        }
        let schema = &document["components"]["schemas"][event]["properties"];
        assert!(schema["execution_id"].is_object(), "{event}");
    }
}

#[test]
fn references_lead_somewhere_and_bodies_take_nothing_unknown() {
    let document = openapi("");
    references(&document, &document);
    let paths = document["paths"].as_object().unwrap();
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            if let Some(reference) = schema["$ref"].as_str() {
                let body = document.pointer(reference.trim_start_matches('#')).unwrap();
                assert_eq!(body["additionalProperties"], false, "{method} {path}");
            }
        }
    }
}

/// What a reference leads to; anything else itself.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

fn references(document: &Value, within: &Value) {
    match within {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                let found = document.pointer(reference.trim_start_matches('#'));
                assert!(found.is_some(), "{reference}");
            }
            members.values().for_each(|value| references(document, value));
        }
        Value::Array(values) => values.iter().for_each(|value| references(document, value)),
        _ => {}
    }
}

#[tokio::test]
async fn it_is_served_below_the_base_url() {
    let gateway = Gateway::with(|config| config.base_url = "/hub/".into()).await;
    let reply = gateway.get("/hub/v1/openapi.json").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json(), openapi("/hub"));
}

#[test]
fn every_parameter_has_a_description() {
    let all = openapi("");
    let operations = all["paths"].as_object().unwrap().values();
    let operations = operations.flat_map(|path| path.as_object().unwrap().values());
    let parameters: Vec<&Value> = operations
        .filter_map(|operation| operation["parameters"].as_array())
        .flatten()
        .collect();
    assert!(parameters.len() > 100, "{}", parameters.len());
    for parameter in parameters {
        assert!(parameter["description"].is_string(), "{parameter}");
    }
}
