//! Bodies that are forms: `application/x-www-form-urlencoded` and `multipart/form-data`.
//!
//! Of a file the argument is its bytes in base64, whatever its content; the schema of the tool says so. Objects are JSON, unless the description wants `a[b]=1`.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::description::Description;
use super::request::encoded;

const MULTIPART: &str = "multipart/form-data";
const URLENCODED: &str = "application/x-www-form-urlencoded";
/// Objects and arrays within each other that `a[b][c]=1` is written of.
const MAX_DEPTH: usize = 16;
/// Description of a file in its schema.
const FILE: &str = "The bytes of a file, in base64.";

/// Encoding of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Form {
    is_multipart: bool,
    /// Encodings of fields that differ from the default for their type.
    fields: HashMap<String, Field>,
}

/// Encoding of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    /// The bytes that its text is in base64, with this type.
    File(String),
    /// `a[b]=1`.
    Deep,
    /// As JSON, also a text.
    Json,
}

impl Form {
    /// The form of a body with this media type, whose schema is an object. `None`: the type is that of no form.
    pub(super) fn of(
        description: &Description,
        media_type: &str,
        content: &Value,
        schema: &Value,
    ) -> Option<Self> {
        let name = media_type.split(';').next().unwrap_or_default().trim();
        let is_multipart = name.eq_ignore_ascii_case(MULTIPART);
        if !is_multipart && !name.eq_ignore_ascii_case(URLENCODED) {
            return None;
        }
        let mut fields = HashMap::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let encoding = content.pointer("/encoding").and_then(|all| all.get(name));
            if let Some(field) = field(description, property, encoding, is_multipart) {
                fields.insert(name.clone(), field);
            }
        }
        Some(Self { is_multipart, fields })
    }

    /// Says of the files among the properties of the converted schema how they are given.
    pub(super) fn describe(&self, properties: &mut Map<String, Value>) {
        for (name, property) in properties {
            let Some(Field::File(media_type)) = self.fields.get(name) else {
                continue;
            };
            let said = property.get("description").and_then(Value::as_str);
            let said = said.map_or_else(|| FILE.to_owned(), |said| format!("{said}\n{FILE}"));
            let file = json!({"type": "string", "contentEncoding": "base64", "contentMediaType": media_type});
            let is_array = property.get("type").is_some_and(|kind| kind == "array");
            *property = if is_array {
                json!({"type": "array", "items": file, "description": said})
            } else {
                let mut file = file;
                file["description"] = json!(said);
                file
            };
        }
    }

    /// The media type and the body.
    ///
    /// # Errors
    /// Which argument cannot be written, and why.
    pub(super) fn write(&self, arguments: &Map<String, Value>) -> Result<(String, Bytes), String> {
        if self.is_multipart {
            return self.multipart(arguments);
        }
        let mut pairs = Vec::new();
        for (name, value) in arguments {
            let field = self.fields.get(name);
            if field == Some(&Field::Deep) && (value.is_object() || value.is_array()) {
                deep(&encoded(name), value, 0, &mut pairs).map_err(|reason| format!("{name}: {reason}"))?;
                continue;
            }
            let values = match value {
                Value::Array(values) if field != Some(&Field::Json) => values.as_slice(),
                value => std::slice::from_ref(value),
            };
            for value in values {
                pairs.push(format!("{}={}", encoded(name), encoded(&text(field, value))));
            }
        }
        Ok((URLENCODED.to_owned(), pairs.join("&").into()))
    }

    fn multipart(&self, arguments: &Map<String, Value>) -> Result<(String, Bytes), String> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| format!("no random bytes: {error}"))?;
        let boundary = format!("himalia-{:032x}", u128::from_le_bytes(random));
        let mut body = Vec::new();
        for (name, value) in arguments {
            let field = self.fields.get(name);
            let values = match value {
                Value::Array(values) if field != Some(&Field::Json) => values.as_slice(),
                value => std::slice::from_ref(value),
            };
            let quoted = quoted(name);
            for value in values {
                let (head, bytes) = match (field, value) {
                    (Some(Field::File(media_type)), Value::String(given)) => {
                        let bytes = STANDARD
                            .decode(given.trim())
                            .map_err(|_| format!("{name}: is not encoded as base64"))?;
                        let head = format!("; filename=\"{quoted}\"\r\nContent-Type: {media_type}");
                        (head, bytes)
                    }
                    (field, value) => {
                        let is_json = field == Some(&Field::Json) || value.is_object() || value.is_array();
                        let head = if is_json {
                            "\r\nContent-Type: application/json"
                        } else {
                            ""
                        };
                        (head.to_owned(), text(field, value).into_bytes())
                    }
                };
                let head = format!(
                    "--{boundary}\r\nContent-Disposition: form-data; name=\"{quoted}\"{head}\r\n\r\n"
                );
                body.extend_from_slice(head.as_bytes());
                body.extend_from_slice(&bytes);
                body.extend_from_slice(b"\r\n");
            }
        }
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        Ok((format!("{MULTIPART}; boundary={boundary}"), body.into()))
    }
}

/// Encoding of a property of the schema; `None`: the default for its type.
fn field(
    description: &Description,
    property: &Value,
    encoding: Option<&Value>,
    is_multipart: bool,
) -> Option<Field> {
    let said = |member: &str| encoding?.get(member)?.as_str();
    let media_type = said("contentType")
        .and_then(|types| types.split(',').next())
        .map(str::trim);
    let schema = description.follow(property).ok()?;
    let item = match schema.get("items") {
        Some(items) => description.follow(items).ok()?,
        None => schema,
    };
    let member = |name: &str| item.get(name).and_then(Value::as_str);
    let of_content = member("contentMediaType").filter(|_| member("contentEncoding").is_none());
    if is_multipart && (member("format") == Some("binary") || of_content.is_some()) {
        let named = media_type.or(of_content).filter(|name| is_plain_type(name));
        return Some(Field::File(
            named.unwrap_or("application/octet-stream").to_owned(),
        ));
    }
    if media_type.is_some_and(himalia_upstream::is_json) {
        return Some(Field::Json);
    }
    (!is_multipart && said("style") == Some("deepObject")).then_some(Field::Deep)
}

/// A media type that can stand in a head: without wildcards, and without what would end its line.
fn is_plain_type(name: &str) -> bool {
    name.contains('/')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"/+-._".contains(&byte))
}

/// A name within quotation marks, as browsers write it.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

fn text(field: Option<&Field>, value: &Value) -> String {
    match value {
        Value::String(text) if field != Some(&Field::Json) => text.clone(),
        Value::Null if field != Some(&Field::Json) => String::new(),
        value => value.to_string(),
    }
}

fn deep(name: &str, value: &Value, depth: usize, pairs: &mut Vec<String>) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("has more than {MAX_DEPTH} objects within each other"));
    }
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                deep(&format!("{name}[{}]", encoded(member)), value, depth + 1, pairs)?;
            }
        }
        Value::Array(values) => {
            for (number, value) in values.iter().enumerate() {
                deep(&format!("{name}[{number}]"), value, depth + 1, pairs)?;
            }
        }
        value => pairs.push(format!("{name}={}", encoded(&text(None, value)))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(media_type: &str, content: &Value) -> Option<Form> {
        let text = json!({"openapi": "3.1.0", "components": {"schemas": {"Bytes": {"type": "string", "format": "binary"}}}});
        let description = Description::parse(text.to_string().as_bytes()).unwrap();
        Form::of(&description, media_type, content, &content["schema"])
    }

    fn written(form: &Form, arguments: &Value) -> Result<(String, String), String> {
        let (media_type, body) = form.write(arguments.as_object().unwrap())?;
        let boundary = media_type.split_once("boundary=").map(|(_, boundary)| boundary);
        let body = String::from_utf8(body.to_vec()).unwrap();
        Ok(match boundary {
            Some(boundary) => (MULTIPART.to_owned(), body.replace(boundary, "B")),
            None => (media_type.clone(), body),
        })
    }

    #[test]
    fn a_form_in_parts_has_files_of_base64() {
        let content = json!({
            "schema": {"type": "object", "properties": {
                "file": {"$ref": "#/components/schemas/Bytes"},
                "pages": {"type": "array", "items": {"type": "string", "contentMediaType": "image/png"}},
                "meta": {"type": "object"},
                "note": {"type": "string"},
            }},
            "encoding": {"file": {"contentType": "text/csv, text/plain"}, "note": {"contentType": "application/json"}},
        });
        let form = form("multipart/form-data", &content).unwrap();
        let arguments = json!({"file": "YSxiCg==", "pages": ["AQ==", "Ag=="], "meta": {"a": 1}, "note": "n", "tags": ["x", 2],
            "a\"\r\nb": true});
        let (media_type, body) = written(&form, &arguments).unwrap();
        assert_eq!(media_type, MULTIPART);
        let part = |head: &str, body: &str| {
            format!("--B\r\nContent-Disposition: form-data; name={head}\r\n\r\n{body}\r\n")
        };
        for expected in [
            part("\"file\"; filename=\"file\"\r\nContent-Type: text/csv", "a,b\n"),
            part(
                "\"pages\"; filename=\"pages\"\r\nContent-Type: image/png",
                "\u{1}",
            ),
            part(
                "\"pages\"; filename=\"pages\"\r\nContent-Type: image/png",
                "\u{2}",
            ),
            part("\"meta\"\r\nContent-Type: application/json", "{\"a\":1}"),
            part("\"note\"\r\nContent-Type: application/json", "\"n\""),
            part("\"tags\"", "x"),
            part("\"tags\"", "2"),
            part("\"a%22%0D%0Ab\"", "true"),
        ] {
            assert!(body.contains(&expected), "{expected:?} in {body:?}");
        }
        assert!(body.ends_with("--B--\r\n"));
        let error = written(&form, &json!({"file": "no base64!"})).unwrap_err();
        assert_eq!(error, "file: is not encoded as base64");
        let mut properties = json!({"file": {"description": "A table.", "format": "binary"}, "pages": {"type": "array"}, "note": {}});
        form.describe(properties.as_object_mut().unwrap());
        assert_eq!(properties["file"]["description"], format!("A table.\n{FILE}"));
        assert_eq!(properties["pages"]["items"]["contentEncoding"], "base64");
        assert_eq!(properties["note"], json!({}));
    }

    #[test]
    fn a_form_in_one_line_writes_what_is_deep_as_it_is_said() {
        let content = json!({
            "schema": {"type": "object", "properties": {"metadata": {"type": "object"}}},
            "encoding": {"metadata": {"style": "deepObject"}, "card": {"style": "deepObject"}},
        });
        let form = form("application/x-www-form-urlencoded; charset=utf-8", &content).unwrap();
        let arguments = json!({"amount": 5, "name": "a b&c=é", "metadata": {"x y": {"z": 1}, "l": [true]}, "card": {"n": 1},
            "expand": ["p", "q"], "none": null});
        let (media_type, body) = written(&form, &arguments).unwrap();
        assert_eq!(media_type, URLENCODED);
        let mut pairs: Vec<&str> = body.split('&').collect();
        pairs.sort_unstable();
        assert_eq!(
            pairs,
            [
                "amount=5",
                "card=%7B%22n%22%3A1%7D",
                "expand=p",
                "expand=q",
                "metadata[l][0]=true",
                "metadata[x%20y][z]=1",
                "name=a%20b%26c%3D%C3%A9",
                "none=",
            ]
        );
        let mut nested = json!(1);
        for _ in 0..=MAX_DEPTH {
            nested = json!({ "a": nested });
        }
        assert!(
            written(&form, &json!({"metadata": nested}))
                .unwrap_err()
                .starts_with("metadata: ")
        );
        assert_eq!(super::tests::form("text/plain", &content), None);
    }
}
