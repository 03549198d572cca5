//! Puts the document together from the table of routes.

use serde_json::{Map, Value, json};

use super::operation::TAGS;
use super::{Operation, Schemas, error_codes};
use crate::routes::ROUTES;

const ABOUT: &str = "Sessions of live kernels, executions that outlive their callers, files and variables. Members and parameters \
                     that are not described here are refused by name.";

/// The document of a gateway whose routes are below `base_url` (empty: at the root).
pub fn openapi(base_url: &str) -> Value {
    let mut schemas = Schemas::new();
    let (mut paths, mut responses) = (Map::new(), Map::new());
    for route in ROUTES {
        let Some(operation) = route.operation else {
            continue;
        };
        let method = route.method.as_str().to_ascii_lowercase();
        // A parameter of several segments is one like others there.
        let path = route.path.replace("{*", "{");
        let mut made = Operation::new(route.id, &path, route.summary, &mut schemas);
        operation(&mut made);
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item[method] = made.finish(&mut responses);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Himalia",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "BSD-3-Clause", "identifier": "BSD-3-Clause" },
        },
        "servers": [{ "url": if base_url.is_empty() { "/" } else { base_url } }],
        "security": [{ "bearer": [] }],
        "tags": TAGS.iter().map(|(name, text)| json!({ "name": name, "description": text })).collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "responses": responses,
            "schemas": schemas.finish(),
            "x-error-codes": error_codes::document(),
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
    })
}
