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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = made
        .lines()
        .zip(committed.lines())
        .position(|(made, old)| made != old);
    assert!(
        made == committed,
        "docs/openapi.json is an old one, from line {differs:?} on: make openapi"
    );
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
