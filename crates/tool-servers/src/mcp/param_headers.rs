//! Arguments of a call that its server wants in headers too (`x-mcp-header` in the schema of a tool), for the proxies in front of it.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use rmcp::model::JsonObject;
use serde_json::Value;

const KEYWORD: &str = "x-mcp-header";
/// Headers of one tool.
const MAX_HEADERS: usize = 64;
/// Levels of a schema that are searched.
const MAX_DEPTH: usize = 64;

/// Headers of a tool's calls.
#[derive(Debug, Default)]
pub(super) struct ParamHeaders(Vec<ParamHeader>);

#[derive(Debug)]
struct ParamHeader {
    /// Names from the arguments to the value.
    path: Vec<String>,
    name: HeaderName,
}

impl ParamHeaders {
    /// The headers that a schema asks for.
    ///
    /// # Errors
    /// Why a tool with this schema must not be called.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let mut found = Self::default();
        let mut names = HashSet::new();
        found.search(schema, Some(&mut Vec::new()), &mut names, MAX_DEPTH)?;
        Ok(found)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `path`: of a property that is reached by `properties` alone.
    fn search(
        &mut self,
        schema: &Value,
        mut path: Option<&mut Vec<String>>,
        names: &mut HashSet<String>,
        depth: usize,
    ) -> Result<(), String> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err("its schema has too many levels".to_owned());
        };
        match schema {
            Value::Object(members) => {
                for (key, value) in members {
                    match (key.as_str(), value, path.as_deref_mut()) {
                        (KEYWORD, header, Some(path)) if !path.is_empty() => {
                            self.add(schema, header, path, names)?;
                        }
                        (KEYWORD, ..) => {
                            return Err(format!("{KEYWORD} must be at a property of the arguments"));
                        }
                        ("properties", Value::Object(properties), mut path) => {
                            for (name, property) in properties {
                                if let Some(path) = path.as_deref_mut() {
                                    path.push(name.clone());
                                }
                                self.search(property, path.as_deref_mut(), names, depth)?;
                                if let Some(path) = path.as_deref_mut() {
                                    path.pop();
                                }
                            }
                        }
                        // Names of the schema's author, and below each of them a schema.
                        (
                            "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                            Value::Object(schemas),
                            _,
                        ) => {
                            for one in schemas.values() {
                                self.search(one, None, names, depth)?;
                            }
                        }
                        // Values, and no schemas.
                        ("default" | "const" | "enum" | "examples" | "dependentRequired", ..) => {}
                        (_, other, _) => self.search(other, None, names, depth)?,
                    }
                }
                Ok(())
            }
            Value::Array(schemas) => schemas
                .iter()
                .try_for_each(|one| self.search(one, None, names, depth)),
            _ => Ok(()),
        }
    }

    fn add(
        &mut self,
        schema: &Value,
        header: &Value,
        path: &[String],
        names: &mut HashSet<String>,
    ) -> Result<(), String> {
        let at = path.join(".");
        let named = header.as_str().filter(|name| !name.is_empty());
        let name = named.and_then(|name| HeaderName::try_from(format!("mcp-param-{name}")).ok());
        let name = name.ok_or_else(|| format!("{at}: {KEYWORD} ({header}) is not the name of a header"))?;
        if !matches!(schema["type"].as_str(), Some("string" | "integer" | "boolean")) {
            return Err(format!(
                "{at}: {KEYWORD} is for a string, an integer or a boolean"
            ));
        }
        // A `HeaderName` is in lower case.
        if !names.insert(name.as_str().to_owned()) {
            return Err(format!("{at}: another argument has the header {name}"));
        }
        if self.0.len() >= MAX_HEADERS {
            return Err(format!("more than {MAX_HEADERS} arguments have {KEYWORD}"));
        }
        self.0.push(ParamHeader {
            path: path.to_vec(),
            name,
        });
        Ok(())
    }

    /// The headers of a call with these arguments. An argument that is absent or `null` has none.
    pub(super) fn values(&self, arguments: &JsonObject) -> Vec<(HeaderName, HeaderValue)> {
        let value = |header: &ParamHeader| {
            let (first, rest) = header.path.split_first()?;
            let found = rest
                .iter()
                .try_fold(arguments.get(first)?, |value, name| value.get(name))?;
            let value = HeaderValue::try_from(encoded(text(found)?)).ok()?;
            Some((header.name.clone(), value))
        };
        self.0.iter().filter_map(value).collect()
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        // An integer of JSON Schema may be written as 1.0.
        Value::Number(number) => Some(match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 => format!("{float:.0}"),
            _ => number.to_string(),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A text that a header cannot have as it is goes as base64.
fn encoded(text: String) -> String {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && text.trim_matches(' ') == text
        && !text.starts_with("=?base64?");
    if is_plain {
        text
    } else {
        format!("=?base64?{}?=", STANDARD.encode(text))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_go_into_headers() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "size": {"type": "integer", "x-mcp-header": "Size"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
            "none": {"type": "string", "x-mcp-header": "None"},
            "at": {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
            "x-mcp-header": {"type": "string"},
            "query": {"type": "string", "default": {"x-mcp-header": 1}},
        }});
        let headers = ParamHeaders::of(&schema).unwrap();
        let arguments = json!({"region": "eu", "size": 2.0, "dry": false, "none": null, "at": {"zone": " a"}, "query": "q"});
        let Value::Object(arguments) = arguments else {
            panic!()
        };
        let mut values: Vec<String> = headers
            .values(&arguments)
            .into_iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        values.sort();
        assert_eq!(
            values,
            [
                "mcp-param-dry: false",
                "mcp-param-region: eu",
                "mcp-param-size: 2",
                "mcp-param-zone: =?base64?IGE=?="
            ]
        );
    }

    #[test]
    fn texts_that_a_header_cannot_have_are_encoded() {
        for (text, expected) in [
            ("us west 1", "us west 1"),
            ("", ""),
            ("a ", "=?base64?YSA=?="),
            ("\ta", "=?base64?CWE=?="),
            ("a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="),
            ("ü", "=?base64?w7w=?="),
            ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ] {
            assert_eq!(encoded(text.to_owned()), expected);
            assert!(HeaderValue::try_from(encoded(text.to_owned())).is_ok());
        }
    }

    #[test]
    fn a_tool_with_a_wrong_annotation_is_none() {
        let one =
            |header: Value, kind: &str| json!({"properties": {"a": {"type": kind, "x-mcp-header": header}}});
        let two = |first: &str, second: &str| {
            json!({"properties": {
                "a": {"type": "string", "x-mcp-header": first}, "b": {"type": "string", "x-mcp-header": second},
            }})
        };
        let mut deep = json!({});
        for _ in 0..100 {
            deep = json!({"items": deep});
        }
        for schema in [
            one(json!(""), "string"),
            one(json!(5), "string"),
            one(json!("A B"), "string"),
            one(json!("A:B"), "string"),
            one(json!("Ré"), "string"),
            one(json!("A\t1"), "string"),
            one(json!("A"), "number"),
            one(json!("A"), "object"),
            one(json!("A"), "null"),
            two("Region", "Region"),
            two("MyField", "myfield"),
            json!({"x-mcp-header": "A", "type": "object"}),
            json!({"properties": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}}),
            json!({"$defs": {"a": {"type": "string", "x-mcp-header": "A"}}}),
            deep,
        ] {
            assert!(ParamHeaders::of(&schema).is_err(), "{schema}");
        }
    }
}
