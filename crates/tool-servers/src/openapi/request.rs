//! The request of a call.

use std::fmt::Write as _;

use bytes::Bytes;
use himalia_model::HttpUrl;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Request};
use serde_json::{Map, Value};

use super::description::percent_decoded;
use super::operation::{Format, Operation, Parameter, Position, RequestBody, Style};

/// Most bytes of a URL.
const MAX_URL: usize = 16 * 1024;

/// The request of a call with these arguments, which fit the schema of the tool.
///
/// # Errors
/// They cannot be written into a request: which one, and why.
pub(super) fn request(
    base: &HttpUrl,
    operation: &Operation,
    arguments: &Map<String, Value>,
) -> Result<Request<Bytes>, String> {
    let mut path = operation.path.clone();
    let mut query = Vec::new();
    let mut headers = Vec::new();
    for parameter in &operation.parameters {
        let Some(value) = arguments.get(&parameter.argument) else {
            continue;
        };
        match parameter.place {
            Position::Path => {
                let text = joined(parameter, value)?;
                if text.is_empty() {
                    return Err(format!(
                        "{}: is empty, and stands in the path",
                        parameter.argument
                    ));
                }
                path = path.replace(&format!("{{{}}}", parameter.name), &text);
            }
            Position::Query => query.extend(pairs(parameter, value)?),
            Position::Header => headers.push(header(parameter, value)?),
        }
    }
    if path.contains(['{', '}']) {
        return Err("an argument that stands in the path is missing".to_owned());
    }
    // A segment of dots would lead to another operation.
    let is_dots = |segment: &str| matches!(percent_decoded(segment).as_str(), "." | "..");
    if path.split('/').any(is_dots) {
        return Err("an argument that stands in the path is . or ..".to_owned());
    }
    let base = base.as_str().trim_end_matches('/');
    let mut url = format!("{base}/{}", path.trim_start_matches('/'));
    if !query.is_empty() {
        let _ = write!(url, "?{}", query.join("&"));
    }
    if url.len() > MAX_URL {
        return Err(format!(
            "the URL with the arguments has more than {MAX_URL} bytes"
        ));
    }
    let (media_type, body) = match body(operation, arguments)? {
        Some((media_type, body)) => (Some(media_type), body),
        None => (None, Bytes::new()),
    };
    let built = Request::builder()
        .method(operation.method.clone())
        .uri(&url)
        .body(body);
    let mut request = built.map_err(|error| format!("the URL with the arguments: {error}"))?;
    let own = request.headers_mut();
    for (name, value) in headers {
        own.insert(name, value);
    }
    own.insert(ACCEPT, HeaderValue::from_static("application/json, */*;q=0.5"));
    if let Some(media_type) = media_type {
        let value = HeaderValue::from_str(&media_type).map_err(|error| error.to_string())?;
        own.insert(CONTENT_TYPE, value);
    }
    Ok(request)
}

/// The media type of the body, and the body.
fn body(operation: &Operation, arguments: &Map<String, Value>) -> Result<Option<(String, Bytes)>, String> {
    match &operation.body {
        RequestBody::Absent => Ok(None),
        RequestBody::Whole { format } => match (arguments.get("body"), format) {
            (None, _) => Ok(None),
            (Some(body), Format::Json(media_type)) => Ok(Some((media_type.clone(), body.to_string().into()))),
            (Some(Value::Object(body)), Format::Form(form)) => form.write(body).map(Some),
            (Some(_), Format::Form(_)) => Err("body: must be an object".to_owned()),
        },
        RequestBody::Rest { format, required } => {
            let is_parameter = |name: &str| operation.parameters.iter().any(|one| one.argument == name);
            let rest: Map<String, Value> = arguments
                .iter()
                .filter(|(name, _)| !is_parameter(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            if rest.is_empty() && !required {
                return Ok(None);
            }
            match format {
                Format::Json(media_type) => {
                    Ok(Some((media_type.clone(), Value::Object(rest).to_string().into())))
                }
                Format::Form(form) => form.write(&rest).map(Some),
            }
        }
    }
}

/// A value in the path or the query, encoded.
fn joined(parameter: &Parameter, value: &Value) -> Result<String, String> {
    let between = match parameter.style {
        Style::Json => return Ok(encoded(&value.to_string())),
        Style::Joined(' ') => "%20",
        Style::Joined('|') => "%7C",
        _ => ",",
    };
    let mut texts = Vec::new();
    match value {
        Value::Array(values) => {
            for value in values {
                texts.push(encoded(&plain(parameter, value)?));
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                texts.extend([encoded(name), encoded(&plain(parameter, value)?)]);
            }
        }
        value => texts.push(encoded(&plain(parameter, value)?)),
    }
    Ok(texts.join(between))
}

/// Names and values in the query.
fn pairs(parameter: &Parameter, value: &Value) -> Result<Vec<String>, String> {
    let name = encoded(&parameter.name);
    let pair =
        |name: &str, value: &Value| Ok::<_, String>(format!("{name}={}", encoded(&plain(parameter, value)?)));
    match (parameter.style, value) {
        // What is not given is not written.
        (Style::Exploded | Style::Deep | Style::Joined(_), Value::Null) => Ok(Vec::new()),
        (Style::Exploded, Value::Array(values)) => values.iter().map(|value| pair(&name, value)).collect(),
        (Style::Exploded, Value::Object(members)) => members
            .iter()
            .map(|(member, value)| pair(&encoded(member), value))
            .collect(),
        (Style::Deep, Value::Object(members)) => members
            .iter()
            .map(|(member, value)| pair(&format!("{name}[{}]", encoded(member)), value))
            .collect(),
        _ => Ok(vec![format!("{name}={}", joined(parameter, value)?)]),
    }
}

fn header(parameter: &Parameter, value: &Value) -> Result<(HeaderName, HeaderValue), String> {
    let text = match (parameter.style, value) {
        (Style::Json, value) => value.to_string(),
        (_, Value::Array(values)) => {
            let texts = values.iter().map(|value| plain(parameter, value));
            texts.collect::<Result<Vec<_>, _>>()?.join(",")
        }
        (_, value) => plain(parameter, value)?,
    };
    let name = HeaderName::try_from(&parameter.name);
    let name = name.map_err(|_| format!("{}: must be a valid header name", parameter.argument))?;
    let value = HeaderValue::try_from(text);
    let value = value.map_err(|_| format!("{}: has characters that no header has", parameter.argument))?;
    Ok((name, value))
}

/// A value that is a text, a number, true or false.
fn plain(parameter: &Parameter, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        Value::Null => Ok(String::new()),
        Value::Array(_) | Value::Object(_) => Err(format!(
            "{}: has an array or an object within another one, which cannot be written into a URL or a header",
            parameter.argument
        )),
    }
}

/// Encodes all characters as `%XX` except letters, digits and `-._~` (RFC 3986).
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // A text takes all that is written.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;

    fn operation(path: &str, parameters: &[(&str, Position, Style)], body: RequestBody) -> Operation {
        let parameters = parameters.iter().map(|(name, place, style)| Parameter {
            name: (*name).to_owned(),
            argument: (*name).to_owned(),
            place: *place,
            style: *style,
        });
        Operation {
            method: Method::POST,
            path: path.to_owned(),
            parameters: parameters.collect(),
            body,
        }
    }

    fn made(operation: &Operation, arguments: Value) -> Result<Request<Bytes>, String> {
        let Value::Object(arguments) = arguments else {
            panic!()
        };
        request(
            &HttpUrl::parse("https://a.test/v1/").unwrap(),
            operation,
            &arguments,
        )
    }

    #[test]
    fn arguments_stand_where_their_parameters_do() {
        let comma = Style::Joined(',');
        let operation = operation(
            "/pets/{id}/{kinds}",
            &[
                ("id", Position::Path, comma),
                ("kinds", Position::Path, comma),
                ("tag", Position::Query, Style::Exploded),
                ("by", Position::Query, Style::Joined('|')),
                ("filter", Position::Query, Style::Deep),
                ("raw", Position::Query, Style::Json),
                ("X-Trace", Position::Header, comma),
            ],
            RequestBody::Rest {
                format: Format::Json("application/json".to_owned()),
                required: false,
            },
        );
        let request = made(
            &operation,
            json!({"id": "a/b c?", "kinds": ["é", 2], "tag": ["x&y", true], "by": ["p", "q"], "filter": {"state": "on"},
                "raw": {"n": 1}, "X-Trace": "t", "name": "Rex", "age": 3}),
        )
        .unwrap();
        assert_eq!(
            request.uri().to_string(),
            "https://a.test/v1/pets/a%2Fb%20c%3F/%C3%A9,2?tag=x%26y&tag=true&by=p%7Cq&filter[state]=on&raw=%7B%22n%22%3A1%7D"
        );
        assert_eq!(request.headers()["x-trace"], "t");
        assert_eq!(request.headers()[CONTENT_TYPE], "application/json");
        let body: Value = serde_json::from_slice(request.body()).unwrap();
        assert_eq!(body, json!({"name": "Rex", "age": 3}));
        let request = made(&operation, json!({"id": 1, "kinds": "k", "tag": null})).unwrap();
        assert_eq!(request.uri().to_string(), "https://a.test/v1/pets/1/k");
        assert!(request.body().is_empty() && !request.headers().contains_key(CONTENT_TYPE));
    }

    #[test]
    fn an_argument_leads_to_no_other_path() {
        let comma = Style::Joined(',');
        let one = operation(
            "/pets/{id}",
            &[("id", Position::Path, comma)],
            RequestBody::Absent,
        );
        let two = operation(
            "/{a}{b}/x",
            &[("a", Position::Path, comma), ("b", Position::Path, comma)],
            RequestBody::Absent,
        );
        for bad in ["..", ".", ""] {
            assert!(made(&one, json!({"id": bad})).is_err(), "{bad:?}");
        }
        assert!(made(&two, json!({"a": ".", "b": "."})).is_err());
        assert!(made(&one, json!({})).is_err());
        for (id, path) in [
            ("../x", "/v1/pets/..%2Fx"),
            ("{id}", "/v1/pets/%7Bid%7D"),
            ("a#b?c", "/v1/pets/a%23b%3Fc"),
        ] {
            assert_eq!(made(&one, json!({"id": id})).unwrap().uri().path(), path);
        }
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let comma = Style::Joined(',');
        let operation = operation(
            "/x",
            &[
                ("q", Position::Query, Style::Exploded),
                ("h", Position::Header, comma),
            ],
            RequestBody::Absent,
        );
        for (arguments, name) in [
            (json!({"q": [[1]]}), "q: "),
            (json!({"h": "a\r\nb: c"}), "h: "),
            (json!({"h": {"a": 1}}), "h: "),
            (json!({"q": "x".repeat(MAX_URL)}), "the URL"),
        ] {
            let error = made(&operation, arguments).unwrap_err();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
