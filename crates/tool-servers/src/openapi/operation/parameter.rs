//! Parameters of an operation.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::description::Description;
use super::super::schema::{Schema, Schemas};

/// A part of a request, and the argument that it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Parameter {
    pub(in super::super) name: String,
    /// Name among the arguments.
    pub(in super::super) argument: String,
    pub(in super::super) place: Position,
    pub(in super::super) style: Style,
}

/// Place of a parameter in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Position {
    Path,
    Query,
    Header,
}

/// Encoding of arrays and objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Style {
    /// `a=1&a=2`; the members of an object each with its name.
    Exploded,
    /// `a=1,2`, with what is between the values.
    Joined(char),
    /// `a[b]=1`.
    Deep,
    Json,
}

/// Headers that a description cannot set: they are part of HTTP itself, or of the credential.
const OWN_HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// All parameters of an operation, with their schemas, and whether they are needed.
pub(super) fn all(
    description: &Description,
    schemas: &Schemas<'_>,
    item: &Value,
    operation: &Value,
) -> Result<Vec<(Parameter, Schema, bool)>, String> {
    let (mut found, mut known, mut arguments) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    // Those of the operation replace those of its path.
    for list in [operation, item] {
        for parameter in list
            .get("parameters")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let parameter = description.follow(parameter)?;
            let text = |member: &str| parameter.get(member).and_then(Value::as_str);
            let (name, place) = (text("name").unwrap_or_default(), text("in").unwrap_or_default());
            if name.is_empty() {
                return Err("a parameter has no name".to_owned());
            }
            if !known.insert((place.to_owned(), name.to_owned())) {
                continue;
            }
            let required = parameter.get("required") == Some(&Value::Bool(true));
            let place = match place {
                "path" => Position::Path,
                "query" => Position::Query,
                "header" if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) => continue,
                "header" => Position::Header,
                "cookie" if !required => continue,
                _ => {
                    return Err(format!(
                        "the parameter {name:.100} is in {place:.20?}, which is not supported"
                    ));
                }
            };
            let mut argument = name.to_owned();
            while !arguments.insert(argument.clone()) {
                argument = format!("{argument}_{}", format!("{place:?}").to_lowercase());
            }
            let (style, schema) = written(description, parameter, place)?;
            let mut schema = schemas.convert(schema)?;
            if let (Value::Object(members), Some(about)) = (&mut schema.value, text("description")) {
                members.entry("description").or_insert_with(|| json!(about));
            }
            let parameter = Parameter {
                name: name.to_owned(),
                argument,
                place,
                style,
            };
            found.push((parameter, schema, required || place == Position::Path));
        }
    }
    Ok(found)
}

fn written<'a>(
    description: &'a Description,
    parameter: &'a Value,
    place: Position,
) -> Result<(Style, &'a Value), String> {
    if let Some(content) = parameter.get("content").and_then(Value::as_object) {
        let schema = content
            .get("application/json")
            .and_then(|content| content.get("schema"));
        let schema = schema.ok_or("a parameter is written in another way than JSON")?;
        return Ok((Style::Json, schema));
    }
    let style = parameter.get("style").and_then(Value::as_str);
    let explode = parameter.get("explode").and_then(Value::as_bool);
    let style = match (place, style) {
        (Position::Path | Position::Header, None | Some("simple")) => Style::Joined(','),
        (Position::Query, None | Some("form")) if explode == Some(false) => Style::Joined(','),
        (Position::Query, Some("spaceDelimited")) if explode != Some(true) => Style::Joined(' '),
        (Position::Query, Some("pipeDelimited")) if explode != Some(true) => Style::Joined('|'),
        (Position::Query, None | Some("form" | "spaceDelimited" | "pipeDelimited")) => Style::Exploded,
        (Position::Query, Some("deepObject")) => Style::Deep,
        (_, style) => {
            return Err(format!(
                "a parameter has the style {style:.20?}, which is not supported"
            ));
        }
    };
    let schema = parameter.get("schema").unwrap_or(&Value::Bool(true));
    // Looked at so that what leads nowhere is an error of this operation.
    description.follow(schema)?;
    Ok((style, schema))
}
